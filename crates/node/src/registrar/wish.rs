//! What a REGISTER wants.

use std::time::Duration;

use location::Aor;
use sip::{HeaderName, Host, NameAddr, Param, Uri};

use super::reach;
use crate::{
    config,
    context::Context,
    routes::is_host,
    snapshot::Snapshot,
    stats::Event,
    wire::{
        gruu::GRUU,
        outbound::{self, OUTBOUND, has_tag},
        relay,
        reply::{self, Reply},
        request::Request,
        token,
    },
};

/// RFC 3261 §20.10: what an expires parameter that can't be read means.
const EXPIRES_MALFORMED: Duration = Duration::from_secs(3600);

/// Option tags that a REGISTER may require.
const OPTIONS: [&[u8]; 3] = [b"path", OUTBOUND, GRUU];

/// Bytes that a contact may have, with its display name and its parameters.
const CONTACT_BYTES_MAX: usize = 512;

/// Parameters that a contact may have, inside and outside of its URI.
const CONTACT_PARAMETERS_MAX: usize = 32;

/// Bytes that a binding's Path may have.
const PATH_BYTES_MAX: usize = 512;

/// A REGISTER's wish for the bindings of an address-of-record.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    pub(super) aor: Aor,
    pub(super) call_id: &'a str,
    pub(super) cseq: u32,
    pub(super) change: Change<'a>,
    /// The values of its Path, with commas between them.
    pub(super) path: String,
    /// Its user agent is told of the Path.
    pub(super) knows_path: bool,
    /// Its user agent is told that its flows are told apart. RFC 5626 §6
    pub(super) is_outbound: bool,
    /// Its flow ends here.
    pub(super) is_direct: bool,
    /// The user as in the URI of its To, if its user agent takes URIs of devices. RFC 5627
    pub(super) gruu_user: Option<&'a str>,
    pub(super) received: std::net::SocketAddr,
}

/// What it is to do to them.
#[derive(Debug)]
pub(super) enum Change<'a> {
    /// `Contact: *`: none is left.
    RemoveAll,
    /// These change, the others stay.
    Contacts(Vec<Contact<'a>>),
}

/// A contact that it names.
#[derive(Debug)]
pub(super) struct Contact<'a> {
    pub(super) text: &'a str,
    pub(super) uri: Uri<'a>,
    /// The device, by its `+sip.instance`; zero without one.
    pub(super) device: u64,
    /// That as it names itself; may be empty.
    pub(super) instance: &'a str,
    /// `reg-id`; zero without one or without a device (RFC 5626 §6).
    pub(super) reg_id: u32,
    /// In thousandths.
    pub(super) q: u16,
    /// How long it shall last; zero: it goes.
    pub(super) expires: Duration,
}

impl<'a> Wish<'a> {
    /// Reads what can be read without the store: RFC 3261 §10.3 steps 1, 2, 5 and 6.
    pub(super) fn read(
        cx: Context<'_>,
        config: &config::Registrar,
        request: &Request<'a>,
    ) -> Result<Self, Reply> {
        let target = &request.path.target;
        if !config.has(&target.host) && !cx.snapshot.is_our_uri(target) {
            return Err(Reply::new(404));
        }
        check_options(request)?;
        let to = request.message.to()?;
        let to = Uri::parse(to.uri).ok();
        let user = to.and_then(|uri| uri.user);
        let aor = to.and_then(|uri| Aor::of(&uri));
        let aor = aor.filter(|aor| config.domains.iter().any(|domain| domain == aor.domain()));
        let text = |bytes: &'a [u8]| str::from_utf8(bytes).map_err(|_| Reply::new(400));
        let aor = aor.ok_or_else(|| Reply::new(404))?;
        let mut change = change(cx, config, request)?;
        let has_flow = change.check_flow(request)?;
        let message = request.message;
        Ok(Self {
            aor,
            call_id: text(request.call_id)?,
            cseq: request.cseq.number,
            change,
            path: path(cx, request, has_flow)?,
            knows_path: knows_path(request),
            is_outbound: has_flow && has_tag(message, HeaderName::Supported, OUTBOUND),
            is_direct: outbound::is_first_hop(request),
            gruu_user: has_tag(message, HeaderName::Supported, GRUU)
                .then(|| str::from_utf8(user?).ok())
                .flatten(),
            received: request.datagram.flow.remote,
        })
    }

    /// Checks where calls to its contacts would go. What is taken away may lead anywhere.
    pub(super) fn check_contacts(&self, snapshot: &Snapshot) -> Result<(), Reply> {
        let Change::Contacts(contacts) = &self.change else {
            return Ok(());
        };
        let mut lasting = contacts.iter().filter(|contact| !contact.expires.is_zero());
        lasting.try_for_each(|contact| match self.path.is_empty() {
            true => reach::check(snapshot, &contact.uri, self.received),
            false => Ok(()),
        })
    }
}

impl Change<'_> {
    /// Whether it is of one of several flows. The flows of a phone whose first hop does not keep them are not
    /// told apart. RFC 5626 §6
    fn check_flow(&mut self, request: &Request<'_>) -> Result<bool, Reply> {
        let Self::Contacts(contacts) = self else {
            return Ok(false);
        };
        if contacts.iter().all(|contact| contact.reg_id == 0) {
            return Ok(false);
        }
        let lasting = contacts.iter().filter(|contact| !contact.expires.is_zero());
        if lasting.count() > 1 {
            return Err(Reply::because(400, "One Contact For Each Flow"));
        }
        let is_kept = outbound::ends_well(request);
        if !is_kept && has_tag(request.message, HeaderName::Supported, OUTBOUND) {
            return Err(Reply::new(439));
        }
        if !is_kept {
            contacts.iter_mut().for_each(|contact| contact.reg_id = 0);
        }
        Ok(is_kept)
    }
}

impl config::Registrar {
    /// Whether it is responsible for the domain.
    pub(crate) fn has(&self, host: &Host<'_>) -> bool {
        self.domains.iter().any(|domain| is_host(domain, host))
    }
}

/// RFC 3261 §8.2.2.3
fn check_options(request: &Request<'_>) -> Result<(), Reply> {
    let is_unknown = |tag: &&[u8]| !OPTIONS.iter().any(|known| tag.eq_ignore_ascii_case(known));
    let required = request.message.option_tags(HeaderName::Require);
    let unknown: Vec<_> = required
        .filter(is_unknown)
        .map(String::from_utf8_lossy)
        .collect();
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(Reply::new(420).with("Unsupported", unknown.join(", ")))
    }
}

/// RFC 3327 §5.3. A Path decides where calls go, so it must be from somebody who is trusted, or of an edge of
/// the cluster; without it the phone would not be reached, so it is not ignored. A phone that is connected to
/// this very node is reached by its connection alone, and one that has several flows by the very flow: so the
/// way is one of ours.
fn path(cx: Context<'_>, request: &Request<'_>, has_flow: bool) -> Result<String, Reply> {
    let message = request.message;
    let is_trusted = || cx.snapshot.is_trusted(request.datagram.flow);
    let mut path = String::new();
    for value in message.paths() {
        let NameAddr { span, uri, .. } = value?;
        let bytes = &message.bytes()[span.start..span.end];
        let text = str::from_utf8(bytes).map_err(|_| Reply::new(400))?;
        Uri::parse(uri).map_err(|_| sip::Fault::Path)?;
        if token::phone_of_path(cx.snapshot.keys(), uri).is_none() && !is_trusted() {
            return Err(Reply::because(403, "Path Only From Peers"));
        }
        if !path.is_empty() {
            path.push(',');
        }
        path.push_str(text);
        if path.len() > PATH_BYTES_MAX {
            return Err(Reply::because(400, "Path Too Long"));
        }
    }
    let flow = reply::return_flow(Some(&request.via), request.datagram.flow);
    let is_direct = outbound::is_first_hop(request);
    if path.is_empty() && (flow.transport.is_stream() || (has_flow && is_direct)) {
        let mut own = Vec::new();
        relay::write_path(
            cx.snapshot,
            flow.listener,
            flow,
            (relay::scheme(request), has_flow && is_direct),
            &mut own,
        );
        path = String::from_utf8(own).map_err(|_| Reply::new(500))?;
    }
    Ok(path)
}

/// Whether the user agent is to be told of its Path. RFC 3327 §5.1: one that doesn't know it has an edge that
/// set it all the same.
fn knows_path(request: &Request<'_>) -> bool {
    let mut names = [HeaderName::Supported, HeaderName::Require].into_iter();
    request.message.paths().next().is_some()
        && names.any(|name| has_tag(request.message, name, b"path"))
}

fn change<'a>(
    cx: Context<'_>,
    config: &config::Registrar,
    request: &Request<'a>,
) -> Result<Change<'a>, Reply> {
    let message = request.message;
    // All that a user may have goes, and as many come.
    let max = 2 * config.contacts_max;
    let values = message.contacts().take(max + 1);
    let values: Vec<NameAddr<'a>> = values.collect::<Result<_, _>>()?;
    if values.len() > max {
        return Err(too_many_contacts(cx));
    }
    if values.iter().any(|value| value.uri == b"*") {
        // RFC 3261 §10.2.2: alone, and to remove.
        let is_alone = values.len() == 1 && values[0].params.is_empty();
        return if is_alone && message.expires() == Some(0) {
            Ok(Change::RemoveAll)
        } else {
            Err(sip::Fault::Contact.into())
        };
    }
    let default = message.expires().map_or(config.expires_default, seconds);
    for NameAddr { span, .. } in &values {
        check_size(&message.bytes()[span.start..span.end])?;
    }
    let contacts = values.iter().map(|value| contact(config, value, default));
    contacts.collect::<Result<_, _>>().map(Change::Contacts)
}

fn contact<'a>(
    config: &config::Registrar,
    value: &NameAddr<'a>,
    default: Duration,
) -> Result<Contact<'a>, Reply> {
    let wanted = match value.param(b"expires") {
        Param::Value(text) => number(text).map_or(EXPIRES_MALFORMED, seconds),
        Param::Flag => EXPIRES_MALFORMED,
        Param::Absent => default,
    };
    if !wanted.is_zero() && wanted < config.expires_min {
        let least = config.expires_min.as_secs().to_string();
        return Err(Reply::new(423).with("Min-Expires", least));
    }
    let instance = instance(value)?;
    let device = location::device(instance);
    Ok(Contact {
        device,
        instance,
        reg_id: match value.param(b"reg-id").value() {
            Some(text) if device > 0 => number(text).ok_or(sip::Fault::Contact)?,
            _ => 0,
        },
        text: str::from_utf8(value.uri).map_err(|_| sip::Fault::Contact)?,
        uri: Uri::parse(value.uri).map_err(|_| sip::Fault::Contact)?,
        q: value
            .param(b"q")
            .value()
            .map_or(Some(1000), thousandths)
            .ok_or(sip::Fault::Contact)?,
        expires: wanted.min(config.expires_max),
    })
}

/// A user has no room for the contacts of a REGISTER.
pub(super) fn too_many_contacts(cx: Context<'_>) -> Reply {
    cx.stats.count(Event::ContactsFull, 1);
    Reply::because(403, "Too Many Contacts")
}

/// A contact is compared with all bindings, and written to each request that goes there.
fn check_size(contact: &[u8]) -> Result<(), Reply> {
    if contact.len() > CONTACT_BYTES_MAX {
        return Err(Reply::because(400, "Contact Too Long"));
    }
    let is_separator = |byte: &&u8| matches!(byte, b';' | b'?' | b'&');
    if contact.iter().filter(is_separator).count() > CONTACT_PARAMETERS_MAX {
        return Err(Reply::because(400, "Too Many Contact Parameters"));
    }
    Ok(())
}

/// RFC 5626 §4.1: a URN in angle brackets, in quotes.
fn instance<'a>(contact: &NameAddr<'a>) -> Result<&'a str, Reply> {
    let quoted = contact.param(b"+sip.instance").value().unwrap_or_default();
    let urn = str::from_utf8(quoted).map_err(|_| sip::Fault::Contact)?;
    Ok(urn.trim_matches('"'))
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

fn number(text: &[u8]) -> Option<u32> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// RFC 3261 §25.1, qvalue: 0 to 1. Of more than three decimals the first three count, and a zero before
/// the point may be missing: what is meant is plain.
fn thousandths(text: &[u8]) -> Option<u16> {
    let point = text.iter().position(|&byte| byte == b'.');
    let (whole, decimals) = match point {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &[][..]),
    };
    let whole = match whole {
        b"" if decimals.is_empty() => return None,
        b"" | b"0" => 0,
        b"1" => 1000,
        _ => return None,
    };
    if !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let places = decimals.iter().zip([100, 10, 1]);
    let parts: u16 = places
        .map(|(digit, place)| u16::from(digit - b'0') * place)
        .sum();
    let is_beyond = whole == 1000 && decimals.iter().any(|&digit| digit != b'0');
    (!is_beyond).then_some(whole + parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preference_is_0_to_1() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("1.000", Some(1000)),
            ("0.5", Some(500)),
            ("0.", Some(0)),
            ("0.125", Some(125)),
            ("0.1259", Some(125)),
            ("0.00000001", Some(0)),
            ("1.0000", Some(1000)),
            (".5", Some(500)),
            ("1.001", None),
            ("1.0001", None),
            ("2", None),
            ("10", None),
            ("", None),
            (".", None),
            ("0.5.5", None),
            ("0,5", None),
            ("-0", None),
        ] {
            assert_eq!(thousandths(text.as_bytes()), expected, "{text}");
        }
    }
}
