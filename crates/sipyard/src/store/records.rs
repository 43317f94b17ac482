//! Converts records to lines of JSON and back.

use std::{net::SocketAddr, time::Duration};

use location::{Aor, Binding, Location, Subscriber, UsedNonce, UsedNonces};
use serde::{Deserialize, Serialize};

use super::fill::Record;

#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Bindings {
        aor: String,
        bindings: Vec<BindingLine>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nonces: Vec<NonceLine>,
        /// When the latest nonce that was forgotten was issued.
        #[serde(default, skip_serializing_if = "is_default")]
        forgotten_s: u32,
    },
    User {
        user: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        ha1_md5: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ha1_sha256: Option<String>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BindingLine {
    contact: String,
    /// In thousandths.
    q: u16,
    /// In milliseconds since 1970.
    expires_ms: u64,
    call_id: String,
    cseq: u32,
    path: String,
    received: SocketAddr,
    /// In milliseconds since 1970.
    #[serde(default, skip_serializing_if = "is_default")]
    updated_ms: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    device: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    reg_id: u32,
}

/// A nonce that was used.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NonceLine {
    /// In seconds since 1970.
    issued_s: u32,
    random: u64,
    count: u32,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes a record as a line; none if the record is damaged.
pub(super) fn line_of(key: &[u8], value: &[u8]) -> Option<String> {
    let line = if key.starts_with(Subscriber::PREFIX) {
        let subscriber = Subscriber::read(key, value).ok()?;
        Line::User {
            user: subscriber.aor.to_string(),
            ha1_md5: subscriber.ha1_md5.map(|hash| hex(&hash)),
            ha1_sha256: subscriber.ha1_sha256.map(|hash| hex(&hash)),
        }
    } else {
        let Location { bindings, nonces } = Location::read(value).ok()?;
        Line::Bindings {
            aor: Aor::from_key(key)?.to_string(),
            bindings: bindings.into_iter().map(binding_line).collect(),
            nonces: nonces.known.into_iter().map(nonce_line).collect(),
            forgotten_s: nonces.forgotten_s,
        }
    };
    serde_json::to_string(&line).ok()
}

fn binding_line(binding: Binding<'_>) -> BindingLine {
    BindingLine {
        contact: binding.contact.to_owned(),
        q: binding.q,
        expires_ms: binding.expires.as_millis() as u64,
        call_id: binding.call_id.to_owned(),
        cseq: binding.cseq,
        path: binding.path.to_owned(),
        received: binding.received,
        updated_ms: binding.updated.as_millis() as u64,
        device: binding.device,
        reg_id: binding.reg_id,
    }
}

fn nonce_line(nonce: UsedNonce) -> NonceLine {
    let UsedNonce {
        issued_s,
        random,
        count,
    } = nonce;
    NonceLine {
        issued_s,
        random,
        count,
    }
}

fn read_nonce(line: NonceLine) -> UsedNonce {
    let NonceLine {
        issued_s,
        random,
        count,
    } = line;
    UsedNonce {
        issued_s,
        random,
        count,
    }
}

/// Writes a phone that another program knew as a line.
///
/// # Errors
/// What the phone lacks.
pub(crate) fn contact_line(contact: &import::Contact) -> Result<String, String> {
    read_aor(&contact.aor)?;
    let uri = sip::Uri::parse(contact.contact.as_bytes());
    let uri = uri.map_err(|error| format!("the contact {}: {error}", contact.contact))?;
    let received = contact.received.or_else(|| uri.address());
    let received =
        received.ok_or("neither the column received nor the contact has an IP address")?;
    let line = Line::Bindings {
        aor: contact.aor.clone(),
        bindings: vec![BindingLine {
            contact: contact.contact.clone(),
            q: contact.q,
            expires_ms: 1_000 * seconds_of(&contact.expires)?,
            call_id: contact.call_id.clone(),
            cseq: contact.cseq,
            path: contact.path.clone(),
            received,
            updated_ms: 0,
            device: 0,
            reg_id: 0,
        }],
        nonces: Vec::new(),
        forgotten_s: 0,
    };
    serde_json::to_string(&line).map_err(|error| error.to_string())
}

/// Seconds since 1970 of such a number, or of `YYYY-MM-DD HH:MM:SS` in UTC.
fn seconds_of(text: &str) -> Result<u64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let parts: Vec<u64> = text
        .split(['-', ' ', ':', 'T'])
        .map_while(|it| it.parse().ok())
        .collect();
    let [
        year @ 1970..=9999,
        month @ 1..=12,
        day @ 1..=31,
        hour,
        minute,
        second,
    ] = parts[..]
    else {
        return Err(format!("\"{text}\" is no time such as 2030-05-28 21:32:15"));
    };
    // Years that begin in March have their leap day at the end.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    const DAYS_BEFORE_1970: u64 = 719_468;
    Ok((days - DAYS_BEFORE_1970) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Reads the record of a line, or says what is wrong with the line.
pub(super) fn record_of(line: &str) -> Result<Record, String> {
    let line: Line = serde_json::from_str(line).map_err(|_| {
        "the line is not a record, which is {\"aor\": ..., \"bindings\": [...]} or {\"user\": ..., \
         \"ha1_md5\": ..., \"ha1_sha256\": ...}, as `sipyard store export` writes it"
            .to_owned()
    })?;
    match line {
        Line::Bindings {
            aor,
            bindings,
            nonces,
            forgotten_s,
        } => {
            let aor = read_aor(&aor)?;
            if nonces.len() > u16::MAX.into() {
                return Err("there are more than 65535 nonces: leave the oldest out".into());
            }
            let bindings: Result<Vec<_>, _> = bindings.iter().map(read_binding).collect();
            let nonces = UsedNonces {
                known: nonces.into_iter().map(read_nonce).collect(),
                forgotten_s,
            };
            let bindings = bindings?;
            Ok(record_at(&aor, &Location { bindings, nonces }))
        }
        Line::User {
            user,
            ha1_md5,
            ha1_sha256,
        } => {
            let subscriber = Subscriber {
                aor: read_aor(&user)?,
                ha1_md5: ha1_md5.map(|text| read_hex("ha1_md5", &text)).transpose()?,
                ha1_sha256: ha1_sha256
                    .map(|text| read_hex("ha1_sha256", &text))
                    .transpose()?,
            };
            Ok(Record::of_subscriber(&subscriber))
        }
    }
}

fn record_at(aor: &Aor, location: &Location<'_>) -> Record {
    Record {
        key: aor.key().to_vec(),
        value: location.write(),
        expires: location.expires(),
    }
}

fn read_binding(line: &BindingLine) -> Result<Binding<'_>, String> {
    let longest = [&line.contact, &line.call_id, &line.path];
    if longest.iter().any(|text| text.len() > u16::MAX.into()) {
        return Err("a text is longer than 65535 bytes: shorten it".into());
    }
    if line.q > 1000 {
        return Err(format!("q is {} thousandths: give 1000 or less", line.q));
    }
    Ok(Binding {
        contact: &line.contact,
        q: line.q,
        expires: Duration::from_millis(line.expires_ms),
        call_id: &line.call_id,
        cseq: line.cseq,
        path: &line.path,
        received: line.received,
        updated: Duration::from_millis(line.updated_ms),
        device: line.device,
        reg_id: line.reg_id,
    })
}

/// `user@domain`.
pub(crate) fn read_aor(text: &str) -> Result<Aor, String> {
    text.rsplit_once('@')
        .and_then(|(user, domain)| Aor::new(user, domain))
        .ok_or_else(|| format!("\"{text}\" is not USER@DOMAIN, such as alice@example.com"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads N bytes in hexadecimal.
pub(crate) fn read_hex<const N: usize>(name: &str, text: &str) -> Result<[u8; N], String> {
    let wrong = || format!("{name} is not {} hexadecimal digits", 2 * N);
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let lines = [
            r#"{"aor":"alice@example.com","bindings":[{"contact":"sip:a@192.0.2.1","q":1000,"expires_ms":4000000000000,"call_id":"x","cseq":7,"path":"<sip:p;lr>","received":"[2001:db8::1]:5060"}]}"#,
            r#"{"user":"bob@example.com","ha1_md5":"00112233445566778899aabbccddeeff"}"#,
            r#"{"user":"bob@example.com","ha1_sha256":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"}"#,
        ];
        for line in lines {
            let record = record_of(line).unwrap();
            assert_eq!(line_of(&record.key, &record.value).as_deref(), Some(line));
        }
    }

    #[test]
    fn what_is_no_record_is_told() {
        let cases = [
            ("", "not a record"),
            ("{}", "not a record"),
            (r#"{"user":"bob","ha1_md5":"00"}"#, "not USER@DOMAIN"),
            (r#"{"user":"b@e","ha1_md5":"0g"}"#, "ha1_md5 is not 32"),
            (r#"{"user":"b@e","password":"x"}"#, "not a record"),
        ];
        for (line, expected) in cases {
            let problem = record_of(line).err().unwrap_or_default();
            assert!(problem.contains(expected), "{line}: {problem}");
        }
    }

    #[test]
    fn times_of_tables() {
        let cases = [
            ("1970-01-01 00:00:00", 0),
            ("2000-02-29 12:00:01", 951_825_601),
            ("2030-05-28 21:32:15", 1_906_234_335),
            ("1700000000", 1_700_000_000),
        ];
        for (text, seconds) in cases {
            assert_eq!(seconds_of(text), Ok(seconds), "{text}");
        }
        assert!(seconds_of("soon").is_err());
    }
}
