//! The files of the dashboard. Nothing of it comes from elsewhere, and no script stands in a page.

use axum::{
    http::{
        HeaderName, StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
            X_CONTENT_TYPE_OPTIONS,
        },
    },
    response::{IntoResponse, Response},
};

/// Scripts, styles and data come from the node alone; no other page may frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! file {
    ($name:literal, $media:expr) => {
        (
            $name,
            $media,
            include_bytes!(concat!("../../web/", $name)).as_slice(),
        )
    };
}

/// Name, media type, content.
const FILES: &[(&str, &str, &[u8])] = &[
    file!("index.html", HTML),
    file!("style.css", CSS),
    file!("icon.svg", "image/svg+xml"),
    file!("app.js", SCRIPT),
    file!("api.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("plot.js", SCRIPT),
    file!("overview.js", SCRIPT),
    file!("calls.js", SCRIPT),
    file!("pages.js", SCRIPT),
    file!("vendor/uPlot.esm.js", SCRIPT),
    file!("vendor/uPlot.min.css", CSS),
    file!("vendor/uPlot.LICENSE", "text/plain; charset=utf-8"),
];

/// The page itself.
pub(crate) async fn index() -> Response {
    file("index.html")
}

/// A file of the page.
pub(crate) async fn asset(axum::extract::Path(name): axum::extract::Path<String>) -> Response {
    file(&name)
}

fn file(name: &str) -> Response {
    let Some((_, media, bytes)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return (StatusCode::NOT_FOUND, "there is no such page\n").into_response();
    };
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, media),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, *bytes).into_response()
}
