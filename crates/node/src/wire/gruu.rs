//! URIs that lead to one device of a user: RFC 5627.
//!
//! A public one is the address-of-record with a number of the device. In a temporary one, the user is sealed
//! with that: so nobody outside of the cluster can tell whose it is, and nobody has to remember it.

use location::Aor;
use sip::{Host, Param, Uri};

use super::{
    branch::{read_hex, write_hex},
    keys::{Keys, tag_hash},
    seal,
};

/// The option tag.
pub(crate) const GRUU: &[u8] = b"gruu";

/// Bytes of a temporary one before the user: the device, its Call-ID and the time in seconds, and a length.
const FIXED_BYTES: usize = 8 + 4 + 4 + 1;
/// Those that a temporary one can seal: with their MAC, whole groups of three.
const SIZES: [usize; 11] = [20, 23, 26, 29, 32, 35, 38, 41, 44, 47, 50];

/// The device that a URI leads to alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) device: u64,
    /// It must have registered with this Call-ID, by its [hash](registration).
    pub(crate) registration: Option<u32>,
}

/// What a URI of a user says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gruu {
    /// It is of all devices.
    No,
    /// It is of one.
    Of(Aor, Device),
    /// It is none of ours.
    Foreign,
}

/// A hash of the Call-ID of a device's registration.
pub(crate) fn registration(call_id: &str) -> u32 {
    tag_hash(call_id.as_bytes())
}

/// The public one of a device. `user` is as in its URIs.
pub(crate) fn public(user: &str, domain: &str, device: u64) -> String {
    let mut digits = Vec::with_capacity(16);
    write_hex(device, 16, &mut digits);
    let digits = String::from_utf8_lossy(&digits);
    format!("sip:{user}@{domain};gr={digits}")
}

/// A temporary one of a device that has registered with this Call-ID. None: the user's name is too long.
pub(crate) fn temporary(
    keys: &Keys,
    aor: &Aor,
    device: u64,
    call_id: &str,
    now_s: u32,
) -> Option<String> {
    let user = aor.user().as_bytes();
    let bytes = FIXED_BYTES + user.len();
    let size = *SIZES.iter().find(|&&size| size >= bytes)?;
    let mut plain = [0; seal::PLAIN_MAX];
    plain[..8].copy_from_slice(&device.to_be_bytes());
    plain[8..12].copy_from_slice(&registration(call_id).to_be_bytes());
    plain[12..16].copy_from_slice(&now_s.to_be_bytes());
    plain[16] = user.len() as u8;
    plain[FIXED_BYTES..bytes].copy_from_slice(user);
    let mut token = Vec::new();
    let at = aor.domain().as_bytes();
    keys.gruu().seal(&plain[..size], [at, b""], &mut token);
    let token = String::from_utf8(token).ok()?;
    Some(format!("sip:{token}@{};gr", aor.domain()))
}

/// Reads what a URI of one of the registrar's domains says.
pub(crate) fn read(keys: &Keys, uri: &Uri<'_>) -> Gruu {
    let found = match uri.param(b"gr") {
        Param::Absent => return Gruu::No,
        Param::Value(digits) => Aor::of(uri).zip(read_hex(digits)).map(|(aor, device)| {
            let registration = None;
            (
                aor,
                Device {
                    device,
                    registration,
                },
            )
        }),
        Param::Flag => read_temporary(keys, uri),
    };
    let found = found.filter(|(_, of)| of.device > 0);
    found.map_or(Gruu::Foreign, |(aor, device)| Gruu::Of(aor, device))
}

fn read_temporary(keys: &Keys, uri: &Uri<'_>) -> Option<(Aor, Device)> {
    let domain = match uri.host {
        Host::Name(name) => str::from_utf8(name).ok()?.to_ascii_lowercase(),
        Host::Ip(ip) => ip.to_string(),
    };
    let text = uri.user.filter(|text| seal::looks_sealed(text, &SIZES))?;
    keys.gruus().find_map(|sealer| {
        let opened = sealer.open(text)?;
        if !sealer.fits(&opened, [domain.as_bytes(), b""]) {
            return None;
        }
        let (device, rest) = opened.plain().split_first_chunk()?;
        let (registration, rest) = rest.split_first_chunk()?;
        let (&[_, _, _, _, length], rest) = rest.split_first_chunk()?;
        let user = str::from_utf8(rest.get(..usize::from(length))?).ok()?;
        let device = Device {
            device: u64::from_be_bytes(*device),
            registration: Some(u32::from_be_bytes(*registration)),
        };
        Some((Aor::new(user, &domain)?, device))
    })
}
