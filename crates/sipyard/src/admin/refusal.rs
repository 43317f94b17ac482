//! How the API refuses.

use axum::{
    Json,
    body::to_bytes,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};

use crate::view::Refused;

/// An answer that says what is wrong.
pub(super) fn refused(status: StatusCode, problems: Vec<String>) -> Response {
    (status, Json(Refused { problems })).into_response()
}

/// The most bytes of a reason.
const REASON_BYTES_MAX: usize = 64 << 10;

/// Says in JSON what axum says in plain text: why a body, a query or a path can't be read.
pub(super) async fn in_json(response: Response) -> Response {
    let status = response.status();
    let media = response.headers().get(CONTENT_TYPE);
    let is_text = media.is_some_and(|media| media.as_bytes().starts_with(b"text/plain"));
    if !is_text || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let reason = to_bytes(response.into_body(), REASON_BYTES_MAX).await;
    let reason = String::from_utf8_lossy(&reason.unwrap_or_default()).into_owned();
    refused(status, vec![reason])
}
