//! Logs connections that could not be used or failed, with what an operator should know of it.

use std::{sync::Arc, time::Duration};

use net::Closing;
use tokio::time::interval;

use super::Control;

const TICK: Duration = Duration::from_secs(1);

/// Lines of each tick at most: a crowd of strangers fills no disk.
const LINES_MAX: usize = 10;

/// Logs each connection of ours that failed, and those of peers whose reason tells something. It never returns.
pub(super) async fn watch(control: Arc<Control>) {
    let mut tick = interval(TICK);
    loop {
        tick.tick().await;
        let (closings, untold) = control.workers().take_closings();
        let more = untold + closings.len().saturating_sub(LINES_MAX) as u64;
        for closing in closings.iter().take(LINES_MAX) {
            if closing.is_of_peer {
                tracing::info!("{}", line(closing));
            } else {
                tracing::warn!("{}", line(closing));
            }
        }
        if more > 0 {
            tracing::warn!(
                "{more} more connections failed in this second: see `sipyard ctl status`"
            );
        }
    }
}

fn line(closing: &Closing) -> String {
    let Closing {
        transport,
        remote,
        is_of_peer,
        why,
        detail,
    } = closing;
    let way = if *is_of_peer { "from" } else { "to" };
    let why = detail.as_deref().unwrap_or_else(|| why.help());
    format!(
        "connection {way} {}:{remote} was closed: {why}",
        transport.label()
    )
}

#[cfg(test)]
mod tests {
    use net::Why;
    use node::Transport;

    use super::*;

    #[test]
    fn a_line_tells_who_and_why() {
        let closing = Closing {
            transport: Transport::Tls,
            remote: ([192, 0, 2, 1], 5061).into(),
            is_of_peer: false,
            why: Why::ConnectTimeout,
            detail: None,
        };
        assert_eq!(
            line(&closing),
            "connection to tls:192.0.2.1:5061 was closed: The peer took too long to take it"
        );
        let closing = Closing {
            is_of_peer: true,
            detail: Some("what the peer sends is not TLS".into()),
            ..closing
        };
        assert_eq!(
            line(&closing),
            "connection from tls:192.0.2.1:5061 was closed: what the peer sends is not TLS"
        );
    }
}
