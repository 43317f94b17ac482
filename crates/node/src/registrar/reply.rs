//! The answer to a REGISTER that is granted: RFC 3261 §10.3 step 8.

use std::time::{Duration, UNIX_EPOCH};

use location::Binding;

use super::wish::Wish;
use crate::{config, context::Context, wire::reply::Reply};

/// 200 with all bindings that there are.
pub(super) fn success(
    cx: Context<'_>,
    config: &config::Registrar,
    wish: &Wish<'_>,
    bindings: &[Binding<'_>],
) -> Reply {
    let wall = cx.wall();
    let contacts = bindings.iter().map(|binding| contact(binding, wall));
    let mut headers: Vec<_> = contacts.map(|value| ("Contact", value)).collect();
    if wish.knows_path && !wish.path.is_empty() {
        headers.push(("Path", wish.path.clone()));
    }
    if wish.is_outbound {
        headers.push(("Require", "outbound".to_owned()));
        let timer = cx.snapshot.config().connections.flow_timer;
        let timer = timer.filter(|_| wish.is_direct);
        headers.extend(timer.map(|timer| ("Flow-Timer", timer.as_secs().to_string())));
    }
    let route = |uri: &String| ("Service-Route", format!("<{uri}>"));
    headers.extend(config.service_route.iter().map(route));
    headers.push(("Date", httpdate::fmt_http_date(UNIX_EPOCH + wall)));
    Reply {
        headers,
        ..Reply::new(200)
    }
}

fn contact(binding: &Binding<'_>, wall: Duration) -> String {
    let left = binding.expires.saturating_sub(wall) + Duration::from_millis(500);
    let mut text = format!("<{}>;expires={}", binding.contact, left.as_secs());
    if binding.q < 1000 {
        let q = format!(";q=0.{:03}", binding.q);
        text.push_str(q.trim_end_matches('0').trim_end_matches('.'));
    }
    text
}
