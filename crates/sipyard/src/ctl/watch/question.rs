//! What the node is asked.

use crate::ctl::node::escape;

/// A call of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Status,
    Calls {
        search: String,
        is_newest: bool,
    },
    Call(String),
    /// The same as text, to be saved.
    Text(String),
}

impl Question {
    /// What is asked for.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Status => "status".to_owned(),
            Self::Calls { search, is_newest } => {
                let order = if *is_newest { "newest" } else { "trouble" };
                format!("calls?search={}&order={order}&limit=500", escape(search))
            }
            Self::Call(call_id) => format!("call?call_id={}", escape(call_id)),
            Self::Text(call_id) => format!("call?call_id={}&format=text", escape(call_id)),
        }
    }
}
