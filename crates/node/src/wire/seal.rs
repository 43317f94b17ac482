//! Bytes that only nodes with the cluster's secret can write or read, as text for the user part of a
//! SIP URI.
//!
//! As in RFC 5297, the MAC of the bytes and of what they are bound to starts the encryption. So the
//! same bytes yield the same text each time, as a retransmission must; all that others learn of
//! them is whether two texts are the same. The MAC is SipHash-2-4's, cut to 80 bits; the cipher is
//! AES-128 in counter mode.

use aes::{
    Aes128, Block,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use siphasher::sip128::{Hasher128, SipHasher24};

use super::keys::{derive, write_parts};

const MAC_BYTES: usize = 10;
const BYTES_MAX: usize = 60;
/// The most bytes that a text seals.
pub(super) const PLAIN_MAX: usize = BYTES_MAX - MAC_BYTES;

/// Seals and opens for one purpose, under one secret.
#[derive(Clone)]
pub(super) struct Sealer {
    mac: SipHasher24,
    cipher: Aes128,
}

/// What a text holds, if it is one of ours: [`Sealer::fits`] tells.
pub(super) struct Opened {
    mac: [u8; MAC_BYTES],
    plain: [u8; PLAIN_MAX],
    len: usize,
}

impl Opened {
    pub(super) fn plain(&self) -> &[u8] {
        &self.plain[..self.len]
    }
}

impl Sealer {
    pub(super) fn new(purpose: &str, secret: &[u8]) -> Self {
        let key = |part: &str| derive(&format!("sipyard {purpose} {part}"), secret);
        Self {
            mac: SipHasher24::new_with_key(&key("mac")),
            cipher: Aes128::new(&key("cipher").into()),
        }
    }

    /// Appends a text that seals `plain` and is bound to `parts`. With the MAC, `plain` must be whole
    /// groups of three bytes.
    pub(super) fn seal(&self, plain: &[u8], parts: [&[u8]; 2], out: &mut Vec<u8>) {
        let mac = self.mac(plain, parts);
        let mut bytes = [0; BYTES_MAX];
        let (head, body) = bytes.split_at_mut(MAC_BYTES);
        head.copy_from_slice(&mac);
        body[..plain.len()].copy_from_slice(plain);
        self.crypt(mac, &mut body[..plain.len()]);
        base64_write(&bytes[..MAC_BYTES + plain.len()], out);
    }

    /// Decrypts a text. None: it hasn't the form of a sealed one.
    pub(super) fn open(&self, text: &[u8]) -> Option<Opened> {
        let mut buffer = [0; BYTES_MAX];
        let bytes = base64_read(text, &mut buffer)?;
        let (&mac, sealed) = bytes.split_first_chunk::<MAC_BYTES>()?;
        let mut plain = [0; PLAIN_MAX];
        plain[..sealed.len()].copy_from_slice(sealed);
        self.crypt(mac, &mut plain[..sealed.len()]);
        let len = sealed.len();
        Some(Opened { mac, plain, len })
    }

    /// Whether what was opened was sealed with this secret and bound to `parts`.
    pub(super) fn fits(&self, opened: &Opened, parts: [&[u8]; 2]) -> bool {
        self.mac(opened.plain(), parts) == opened.mac
    }

    fn mac(&self, plain: &[u8], [first, second]: [&[u8]; 2]) -> [u8; MAC_BYTES] {
        let mut hasher = self.mac;
        write_parts(&mut hasher, &[plain, first, second]);
        let hash = hasher.finish128().as_bytes();
        *hash.first_chunk().expect("a hash has 16 bytes")
    }

    /// Encrypts or decrypts.
    fn crypt(&self, mac: [u8; MAC_BYTES], bytes: &mut [u8]) {
        for (number, part) in bytes.chunks_mut(16).enumerate() {
            let mut block = Block::default();
            block[..MAC_BYTES].copy_from_slice(&mac);
            block[15] = number as u8;
            self.cipher.encrypt_block(&mut block);
            for (byte, key) in part.iter_mut().zip(block) {
                *byte ^= key;
            }
        }
    }
}

/// Whether `text` has the characters and the length of a text that seals so many bytes.
pub(super) fn looks_sealed(text: &[u8], plain_bytes: &[usize]) -> bool {
    let is_long = |&plain: &usize| text.len() == (plain + MAC_BYTES) / 3 * 4;
    let is_of_alphabet = |&character: &u8| VALUES[usize::from(character)] != NO_VALUE;
    plain_bytes.iter().any(is_long) && text.iter().all(is_of_alphabet)
}

/// RFC 4648 §5's without padding, but for `q`. All are unreserved in a SIP user part, and no text of them says
/// `CSeq`, which some programs look for anywhere in a message.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop.rstuvwxyz0123456789-_";

/// Of what is no character of the alphabet.
const NO_VALUE: u8 = 0xff;

const VALUES: [u8; 256] = {
    let mut values = [NO_VALUE; 256];
    let mut value = 0;
    while value < 64 {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
};

fn base64_write(bytes: &[u8], out: &mut Vec<u8>) {
    let (groups, rest) = bytes.as_chunks();
    debug_assert!(rest.is_empty(), "what is sealed is whole groups");
    for &[a, b, c] in groups {
        let bits = u32::from_be_bytes([0, a, b, c]);
        out.extend([18, 12, 6, 0].map(|shift| ALPHABET[(bits >> shift) as usize & 63]));
    }
}

/// None: `text` hasn't the length or the characters.
fn base64_read<'b>(text: &[u8], buffer: &'b mut [u8; BYTES_MAX]) -> Option<&'b [u8]> {
    let (groups, []) = text.as_chunks::<4>() else {
        return None;
    };
    let bytes = buffer.get_mut(..groups.len() * 3)?;
    for (group, three) in groups.iter().zip(bytes.as_chunks_mut::<3>().0) {
        let values = group.map(|character| VALUES[usize::from(character)]);
        if values.contains(&NO_VALUE) {
            return None;
        }
        let [a, b, c, d] = values.map(u32::from);
        let [_, bits @ ..] = (a << 18 | b << 12 | c << 6 | d).to_be_bytes();
        *three = bits;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] = b"fourteen bytes";

    fn sealer(secret: &str) -> Sealer {
        Sealer::new("test", secret.as_bytes())
    }

    fn sealed() -> Vec<u8> {
        let mut text = Vec::new();
        sealer("ours").seal(PLAIN, [b"call", b"alice"], &mut text);
        text
    }

    fn reads(sealer: &Sealer, text: &[u8], parts: [&[u8]; 2]) -> bool {
        let opened = sealer.open(text);
        opened.is_some_and(|opened| sealer.fits(&opened, parts) && opened.plain() == PLAIN)
    }

    #[test]
    fn what_is_sealed_opens_with_its_secret_and_parts_alone() {
        let text = sealed();
        assert_eq!(text.len(), 32);
        assert_eq!(text, sealed());
        assert!(reads(&sealer("ours"), &text, [b"call", b"alice"]));
        assert!(!reads(&sealer("theirs"), &text, [b"call", b"alice"]));
        assert!(!reads(&sealer("ours"), &text, [b"other", b"alice"]));
        assert!(!reads(&sealer("ours"), &text, [b"calla", b"lice"]));
    }

    #[test]
    fn no_bit_of_a_text_can_change() {
        let text = sealed();
        for place in 0..text.len() {
            for &character in ALPHABET {
                let mut forged = text.clone();
                forged[place] = character;
                let is_read = reads(&sealer("ours"), &forged, [b"call", b"alice"]);
                assert_eq!(is_read, forged == text);
            }
        }
        for length in 0..text.len() {
            assert!(!reads(
                &sealer("ours"),
                &text[..length],
                [b"call", b"alice"]
            ));
        }
    }

    /// SIPp took `CSeq` in a token for the header, and gave the call up: one in 600,000.
    #[test]
    fn no_text_says_cseq() {
        assert!(!ALPHABET.contains(&b'q'));
        assert_eq!(
            VALUES.iter().filter(|&&value| value != NO_VALUE).count(),
            64
        );
    }

    /// The texts named a server's address to whoever decoded them.
    #[test]
    fn a_text_does_not_tell_what_it_seals() {
        let mut buffer = [0; BYTES_MAX];
        let bytes = base64_read(&sealed(), &mut buffer).unwrap().to_vec();
        assert!(
            !bytes
                .windows(4)
                .any(|part| PLAIN.windows(4).any(|w| w == part))
        );
    }
}
