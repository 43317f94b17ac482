//! How the API refuses.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};

use crate::view::Refused;

/// An answer that says what is wrong.
pub(super) fn refused(status: StatusCode, problems: Vec<String>) -> Response {
    (status, Json(Refused { problems })).into_response()
}
