//! The answer to a REGISTER that is granted: RFC 3261 §10.3 step 8.

use std::time::{Duration, UNIX_EPOCH};

use location::Binding;

use super::wish::{Change, Contact, Wish};
use crate::{
    config,
    context::Context,
    wire::{gruu, reply::Reply},
};

/// 200 with all bindings that there are.
pub(super) fn success(
    cx: Context<'_>,
    config: &config::Registrar,
    wish: &Wish<'_>,
    bindings: &[Binding<'_>],
) -> Reply {
    let wall = cx.wall();
    let contacts = bindings.iter().map(|binding| {
        let mut text = contact(binding, wall);
        write_gruus(cx, wish, binding, &mut text);
        text
    });
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

/// The URIs that lead to the device of a binding alone: RFC 5627 §5.2. What a device calls itself is not kept, so
/// those get none that this REGISTER does not name. A temporary one is the same for a retransmission.
fn write_gruus(cx: Context<'_>, wish: &Wish<'_>, binding: &Binding<'_>, out: &mut String) {
    let Change::Contacts(contacts) = &wish.change else {
        return;
    };
    let is_its = |contact: &&Contact<'_>| {
        let is_plain = !contact.instance.contains(['"', '\\']);
        is_plain && binding.device > 0 && contact.device == binding.device
    };
    let Some((user, contact)) = wish.gruu_user.zip(contacts.iter().find(is_its)) else {
        return;
    };
    let (aor, device) = (&wish.aor, binding.device);
    let public = gruu::public(user, aor.domain(), device);
    out.push_str(&format!(
        ";+sip.instance=\"{}\";pub-gruu=\"{public}\"",
        contact.instance
    ));
    let set_at = binding.updated.as_secs() as u32;
    let keys = cx.snapshot.keys();
    if let Some(temporary) = gruu::temporary(keys, aor, device, binding.call_id, set_at) {
        out.push_str(&format!(";temp-gruu=\"{temporary}\""));
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
