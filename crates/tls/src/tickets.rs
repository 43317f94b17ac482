//! Tickets, by which peers resume sessions: on any node that has the cluster's secret.

use std::{fmt, time::Duration};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest::{SHA256, digest},
    hkdf::{HKDF_SHA256, Prk, Salt},
    rand::{SecureRandom, SystemRandom},
};
use rustls::server::ProducesTickets;

use crate::Wall;

/// How long tickets are made with one key. A new one follows by itself, on all nodes at the same time.
const EPOCH: Duration = Duration::from_secs(6 * 3600);

/// How many epochs a ticket is good for after the one that it was made in.
const EPOCHS_AFTER: u32 = 1;

const EPOCH_BYTES: usize = size_of::<u32>();

/// Makes and opens tickets. All keys come from the secret and the time, so nodes need not talk to each other.
///
/// A ticket is: the number of the epoch, a nonce, what rustls wants to remember. A ticket of one listener does
/// not open on another that asks more of its clients, as their keys differ by `purpose`.
pub(crate) struct Tickets {
    root: Prk,
    purpose: [u8; 32],
    wall: Wall,
    random: SystemRandom,
}

impl Tickets {
    pub(crate) fn new(secret: &[u8], purpose: &[u8], wall: Wall) -> Self {
        let purpose = digest(&SHA256, purpose);
        Self {
            root: Salt::new(HKDF_SHA256, b"sipyard tls tickets").extract(secret),
            purpose: *purpose
                .as_ref()
                .first_chunk()
                .expect("SHA-256 has 32 bytes"),
            wall,
            random: SystemRandom::new(),
        }
    }

    fn epoch(&self) -> u32 {
        ((self.wall)().as_secs() / EPOCH.as_secs()) as u32
    }

    fn key(&self, epoch: u32) -> Option<LessSafeKey> {
        let info = [&self.purpose[..], &epoch.to_be_bytes()];
        let key = self.root.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        EPOCHS_AFTER * EPOCH.as_secs() as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let epoch = self.epoch();
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        let head = epoch.to_be_bytes();
        let mut sealed = plain.to_vec();
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        let key = self.key(epoch)?;
        key.seal_in_place_append_tag(nonce_used, Aad::from(head), &mut sealed)
            .ok()?;
        Some([&head[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (head, rest) = ticket.split_first_chunk::<EPOCH_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let epoch = u32::from_be_bytes(*head);
        let now = self.epoch();
        // Another node's clock may be ahead.
        if !(now.saturating_sub(EPOCHS_AFTER)..=now.saturating_add(1)).contains(&epoch) {
            return None;
        }
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let key = self.key(epoch)?;
        let opened = key.open_in_place(nonce, Aad::from(*head), &mut plain);
        let length = opened.ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use super::*;

    fn tickets(secret: &[u8], purpose: &[u8], seconds: &Arc<AtomicU64>) -> Tickets {
        let seconds = Arc::clone(seconds);
        let wall = Arc::new(move || Duration::from_secs(seconds.load(Ordering::Relaxed)));
        Tickets::new(secret, purpose, wall)
    }

    #[test]
    fn tickets_open_on_all_nodes_until_they_are_old() {
        let seconds = Arc::new(AtomicU64::new(EPOCH.as_secs() * 100));
        let one = tickets(b"secret", b"phones", &seconds);
        let ticket = one.encrypt(b"session").unwrap();
        assert_ne!(one.encrypt(b"session").unwrap(), ticket);
        let other = tickets(b"secret", b"phones", &seconds);
        assert_eq!(other.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(
            tickets(b"Secret", b"phones", &seconds).decrypt(&ticket),
            None
        );
        assert_eq!(
            tickets(b"secret", b"trunks", &seconds).decrypt(&ticket),
            None
        );
        for at in 0..ticket.len() {
            let mut forged = ticket.clone();
            forged[at] ^= 1;
            assert_eq!(other.decrypt(&forged), None);
            assert_eq!(other.decrypt(&ticket[..at]), None);
        }
        for (epoch, is_open) in [
            (99, true),
            (101, true),
            (102, false),
            (98, false),
            (0, false),
        ] {
            seconds.store(EPOCH.as_secs() * epoch, Ordering::Relaxed);
            assert_eq!(other.decrypt(&ticket).is_some(), is_open, "{epoch}");
        }
        assert_eq!(u64::from(one.lifetime()), EPOCH.as_secs());
    }
}
