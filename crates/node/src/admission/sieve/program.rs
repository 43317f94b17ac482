//! The sieve in the kernel's classic BPF. A filter has two registers, A and X, and few words of memory; its
//! conditional jumps skip at most 255 instructions.

use ipnet::IpNet;

use super::{
    BYTES_MIN, FINAL_MULTIPLIERS, GROUP_BYTES, GROUP_WORDS, INVITE, Instruction, LOWERED,
    MULTIPLIER, REGISTER, SCANNED_BYTES, SCHEME, Sieve, TAG_PARTS, URN, address_words,
};

/// The kernel's limit.
const INSTRUCTIONS_MAX: usize = 4096;

const KNOWN_MAX: usize = 256;

/// The UDP header's length: the payload follows it.
const PAYLOAD: usize = 8;

/// Loads from here on are from the IP header on.
const IP_HEADER: u32 = -0x10_0000_i32 as u32;

/// Where the source address is.
const SOURCE_V4: u32 = IP_HEADER + 12;
const SOURCE_V6: u32 = IP_HEADER + 8;

const SOURCE_PORT: u32 = 0;

/// The high half of the first byte of an IP header is its version.
const VERSION_MASK: u32 = 0xf0;
const VERSION_4: u32 = 0x40;

/// Places in the memory.
const WORD: u32 = 0;
const TAGS: u32 = 1;

const LOAD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_LENGTH: u16 = 0x80;
const LOAD_CONSTANT: u16 = 0x00;
const LOAD_MEMORY: u16 = 0x60;
const STORE: u16 = 0x02;
const SET_X: u16 = 0x01;
const A_TO_X: u16 = 0x07;
const X_TO_A: u16 = 0x87;
const ADD: u16 = 0x04;
const MULTIPLY: u16 = 0x24;
const OR: u16 = 0x44;
const AND: u16 = 0x54;
const SHIFT_RIGHT: u16 = 0x74;
const XOR_X: u16 = 0xac;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// What a filter returns.
const PASS: u32 = u32::MAX;
const DROP: u32 = 0;

/// See [`Sieve::program`].
pub(super) fn write(sieve: &Sieve, known: &[IpNet]) -> Option<Vec<Instruction>> {
    if known.len() > KNOWN_MAX {
        return None;
    }
    let mut program = Program::default();
    program.pass_others();
    program.pass_known(known);
    let to_register = program.unless_method(INVITE);
    program.sift_invite(sieve);
    program.land(to_register);
    program.sift_register(sieve);
    (program.0.len() <= INSTRUCTIONS_MAX).then_some(program.0)
}

#[derive(Default)]
struct Program(Vec<Instruction>);

/// A forward jump whose target isn't written yet.
#[must_use]
struct Jump {
    at: usize,
}

impl Program {
    fn pass_others(&mut self) {
        self.push(LOAD_LENGTH, 0);
        self.branch(JUMP_IF_AT_LEAST, (PAYLOAD + BYTES_MIN) as u32, 1, 0);
        self.push(RETURN, PASS);
        self.push(LOAD, PAYLOAD as u32);
        self.branch(JUMP_IF_EQUAL, INVITE, 2, 0);
        self.branch(JUMP_IF_EQUAL, REGISTER, 1, 0);
        self.push(RETURN, PASS);
    }

    fn pass_known(&mut self, known: &[IpNet]) {
        let (mut v4, mut v6): (Vec<_>, Vec<_>) = known
            .iter()
            .partition(|network| matches!(network, IpNet::V4(_)));
        // Hosts follow each other then, and share a load.
        v4.sort_unstable();
        v6.sort_unstable();
        let to_v6 = self.unless_v4();
        self.pass_networks(SOURCE_V4, &v4);
        let end = self.jump();
        self.land(to_v6);
        self.pass_networks(SOURCE_V6, &v6);
        self.land(end);
    }

    fn pass_networks(&mut self, source: u32, networks: &[&IpNet]) {
        let mut loaded = false;
        for network in networks {
            let (address, count) = address_words(network.network());
            let (mask, _) = address_words(network.netmask());
            let words = || address[..count].iter().zip(mask).enumerate();
            let mut misses = Vec::new();
            for (index, (&word, mask)) in words().filter(|(_, (_, mask))| *mask != 0) {
                if !loaded {
                    self.push(LOAD, source + 4 * index as u32);
                }
                if mask != u32::MAX {
                    self.push(AND, mask);
                }
                misses.push(self.0.len());
                self.branch(JUMP_IF_EQUAL, word, 0, 0);
                loaded = false;
            }
            self.push(RETURN, PASS);
            for miss in misses {
                self.0[miss].jf = (self.0.len() - miss - 1) as u8;
            }
            loaded = count == 1 && mask[0] == u32::MAX;
        }
    }

    fn sift_invite(&mut self, sieve: &Sieve) {
        self.push(LOAD, (PAYLOAD + SCHEME.start) as u32);
        self.push(OR, LOWERED);
        self.branch(JUMP_IF_EQUAL, URN, 0, 1);
        self.push(RETURN, PASS);

        self.push(LOAD_CONSTANT, 0);
        self.push(STORE, TAGS);
        self.push(SET_X, sieve.salt);
        let mut ends = Vec::new();
        for group in (PAYLOAD..PAYLOAD + SCANNED_BYTES).step_by(GROUP_BYTES) {
            ends.push(self.unless_as_long_as(group + GROUP_BYTES));
            for word in 0..GROUP_WORDS {
                self.scan_word(group + 4 * word);
            }
        }
        for end in ends {
            self.land(end);
        }
        self.pass_to_tag();
        self.draw(sieve.calls);
    }

    /// X holds the hash.
    fn scan_word(&mut self, at: usize) {
        self.push(LOAD, at as u32);
        self.push(OR, LOWERED);
        self.push(STORE, WORD);
        self.count_tag();
        self.push(LOAD_MEMORY, WORD);
        self.mix();
    }

    /// A holds the word.
    fn count_tag(&mut self) {
        let [whole, other, first, last] = TAG_PARTS;
        self.branch(JUMP_IF_EQUAL, whole.word, 6, 0);
        self.branch(JUMP_IF_EQUAL, other.word, 5, 0);
        self.push(AND, first.mask);
        self.branch(JUMP_IF_EQUAL, first.word, 3, 0);
        self.push(LOAD_MEMORY, WORD);
        self.push(AND, last.mask);
        self.branch(JUMP_IF_EQUAL, last.word, 0, 3);
        self.push(LOAD_MEMORY, TAGS);
        self.push(ADD, 1);
        self.push(STORE, TAGS);
    }

    fn pass_to_tag(&mut self) {
        self.push(LOAD_MEMORY, TAGS);
        self.branch(JUMP_IF_EQUAL, 1, 4, 0);
        self.branch(JUMP_IF_AT_LEAST, 2, 2, 0);
        self.push(LOAD_LENGTH, 0);
        self.branch(JUMP_IF_AT_LEAST, (PAYLOAD + SCANNED_BYTES) as u32, 0, 1);
        self.push(RETURN, PASS);
    }

    fn sift_register(&mut self, sieve: &Sieve) {
        self.push(SET_X, sieve.salt);
        let to_v6 = self.unless_v4();
        self.push(LOAD, SOURCE_V4);
        self.mix();
        let to_port = self.jump();
        self.land(to_v6);
        for word in 0..4 {
            self.push(LOAD, SOURCE_V6 + 4 * word);
            self.mix();
        }
        self.land(to_port);
        self.push(LOAD_HALF, SOURCE_PORT);
        self.mix();
        self.draw(sieve.registers);
    }

    /// Mixes the word in A into the hash in X.
    fn mix(&mut self) {
        self.push(XOR_X, 0);
        self.push(MULTIPLY, MULTIPLIER);
        self.push(A_TO_X, 0);
    }

    /// Ends with the fate that the hash in X decides.
    fn draw(&mut self, threshold: u32) {
        let [first, second] = FINAL_MULTIPLIERS;
        self.push(X_TO_A, 0);
        self.push(SHIFT_RIGHT, 15);
        self.push(XOR_X, 0);
        self.push(MULTIPLY, first);
        self.push(A_TO_X, 0);
        self.push(SHIFT_RIGHT, 13);
        self.push(XOR_X, 0);
        self.push(MULTIPLY, second);
        self.push(SHIFT_RIGHT, 16);
        self.branch(JUMP_IF_AT_LEAST, threshold, 1, 0);
        self.push(RETURN, PASS);
        self.push(RETURN, DROP);
    }

    fn unless_v4(&mut self) -> Jump {
        self.push(LOAD_BYTE, IP_HEADER);
        self.push(AND, VERSION_MASK);
        self.branch(JUMP_IF_EQUAL, VERSION_4, 1, 0);
        self.jump()
    }

    fn unless_method(&mut self, method: u32) -> Jump {
        self.push(LOAD, PAYLOAD as u32);
        self.branch(JUMP_IF_EQUAL, method, 1, 0);
        self.jump()
    }

    /// The kernel drops a datagram when the program loads what is beyond its end.
    fn unless_as_long_as(&mut self, bytes: usize) -> Jump {
        self.push(LOAD_LENGTH, 0);
        self.branch(JUMP_IF_AT_LEAST, bytes as u32, 1, 0);
        self.jump()
    }

    fn jump(&mut self) -> Jump {
        self.push(JUMP, 0);
        Jump {
            at: self.0.len() - 1,
        }
    }

    fn land(&mut self, jump: Jump) {
        self.0[jump.at].k = (self.0.len() - jump.at - 1) as u32;
    }

    fn push(&mut self, code: u16, k: u32) {
        self.branch(code, k, 0, 0);
    }

    fn branch(&mut self, code: u16, k: u32, jt: u8, jf: u8) {
        self.0.push(Instruction { code, jt, jf, k });
    }
}
