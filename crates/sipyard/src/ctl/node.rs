//! Which node is asked, and how.

use std::{fmt::Write as _, path::PathBuf};

use admin_client::{Client, PATIENCE, default_socket};
use clap::Args;
use serde::de::DeserializeOwned;
use socket::wall;

use crate::{config::ADMIN_PORT, view::Refused};

/// Which node to ask.
#[derive(Args, Clone)]
pub(super) struct Node {
    /// The node's admin API: the path of its Unix socket, HOST:PORT, or a URL
    #[arg(
        long,
        value_name = "PATH|HOST:PORT|URL",
        env = "SIPYARD_ADMIN",
        default_value_t = default_socket(ADMIN_PORT).display().to_string(),
        global = true
    )]
    pub(super) admin: String,
    /// The file (PEM) of the authorities that https believes; default: the system's
    #[arg(long, value_name = "FILE", env = "SIPYARD_CA", global = true)]
    ca: Option<PathBuf>,
}

/// Why there is no result to show.
pub(super) enum Failure {
    /// The node refused, for these reasons.
    Refused(Vec<String>),
    /// The node gave no readable answer.
    Unanswered(String),
}

impl Node {
    /// The text of a successful answer.
    pub(super) fn call(&self, method: &str, path: &str, body: &[u8]) -> Result<String, Failure> {
        let bytes = self.call_bytes(method, path, body)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The body of a successful answer.
    pub(super) fn call_bytes(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let client = Client::believing(&self.admin, PATIENCE, self.ca.as_deref());
        let answer = client
            .ask(method, &format!("/api/v1/{path}"), &[], body)
            .map_err(unanswered)?;
        if answer.is_success {
            Ok(answer.body)
        } else {
            Err(Failure::Refused(Refused::read(&answer.body).problems))
        }
    }
}

impl Failure {
    /// In words.
    pub(super) fn words(self) -> String {
        match self {
            Self::Refused(problems) => problems.join("; "),
            Self::Unanswered(reason) => reason,
        }
    }
}

/// Seconds since the UNIX epoch.
pub(super) fn epoch() -> f64 {
    wall().as_secs_f64()
}

fn unanswered(error: impl std::fmt::Display) -> Failure {
    Failure::Unanswered(format!(
        "{error}; check that the node runs, that --admin is its admin.socket or admin.address, and \
         that you are its user or root"
    ))
}

pub(super) fn read<T: DeserializeOwned>(json: &str) -> Result<T, Failure> {
    serde_json::from_str(json).map_err(|error| {
        Failure::Unanswered(format!(
            "can't read the answer ({error}): is the node of another version?"
        ))
    })
}

/// Encodes a word as a part of a URL (RFC 3986 §2.1).
pub(super) fn escape(word: &str) -> String {
    let mut escaped = String::new();
    for byte in word.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string can't fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}
