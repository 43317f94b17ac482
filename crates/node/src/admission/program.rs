//! Rules in the kernel's classic BPF. A program has two registers, A and X, and few words of memory; its conditional
//! jumps skip at most 255 instructions.

use ipnet::IpNet;

use super::{
    lane::{
        BYTES_MIN, GROUP_BYTES, GROUP_WORDS, INVITE, LOWERED, Lane, OF_CALLS, REGISTER,
        SCANNED_BYTES, Steering, TAG_PARTS, word,
    },
    sieve::{FINAL_MULTIPLIERS, HASHED_BYTES, MULTIPLIER, Sieve, address_words},
    urgent::{ENDS, FOR_HELP, SCHEME, SCHEMES, URN},
};

/// One instruction of the kernel's classic BPF: the operation, how many instructions to skip if its condition holds and
/// if not, and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are named as the kernel names them")]
pub struct Instruction {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

/// The kernel's limit.
const INSTRUCTIONS_MAX: usize = 4096;

const KNOWN_MAX: usize = 256;

/// The UDP header's length: a filter sees it before the payload.
const UDP_HEADER: usize = 8;

/// Loads from here on are from the IP header on.
const IP_HEADER: u32 = -0x10_0000_i32 as u32;

/// Where the source address is.
const SOURCE_V4: u32 = IP_HEADER + 12;
const SOURCE_V6: u32 = IP_HEADER + 8;

/// Where a filter finds the source port.
const PORT: [u32; 2] = [0; 2];
/// Where else it is, over IPv4 without options and over IPv6.
const PORT_BEHIND_IP: [u32; 2] = [IP_HEADER + 20, IP_HEADER + 40];

/// The high half of the first byte of an IP header is its version.
const VERSION_MASK: u32 = 0xf0;
const VERSION_4: u32 = 0x40;

/// Places in the memory.
const TAGS: u32 = 0;
const FIRST: u32 = 1;

const LOAD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_LENGTH: u16 = 0x80;
const LOAD_CONSTANT: u16 = 0x00;
const LOAD_MEMORY: u16 = 0x60;
const STORE: u16 = 0x02;
const SET_X: u16 = 0x01;
const LOAD_X: u16 = 0x61;
const A_TO_X: u16 = 0x07;
const X_TO_A: u16 = 0x87;
const ADD: u16 = 0x04;
const ADD_X: u16 = 0x0c;
const MULTIPLY: u16 = 0x24;
const REMAINDER: u16 = 0x94;
const OR: u16 = 0x44;
const AND: u16 = 0x54;
const SHIFT_RIGHT: u16 = 0x74;
const XOR_X: u16 = 0xac;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const RETURN_A: u16 = 0x16;

/// What a filter returns.
const PASS: u32 = u32::MAX;
const DROP: u32 = 0;

/// See [`Steering::program`].
pub(super) fn steer(rule: &Steering<'_>, workers: u32) -> Option<Vec<Instruction>> {
    if rule.known.len() > KNOWN_MAX {
        return None;
    }
    let mut program = Program::default();
    let (mut to_first, mut to_lanes) = (Vec::new(), Vec::new());
    let unruly: Vec<_> = rule.unruly.iter().copied().map(IpNet::from).collect();
    program.networks(&unruly, &mut to_lanes);
    program.networks(rule.known, &mut to_first);
    to_lanes.into_iter().for_each(|jump| program.land(jump));
    let mut of_calls = program.of_calls();
    program.push(LOAD, 0);
    let to_registers = program.if_equal(REGISTER);
    program.count_tags();
    program.with_to_tag(&mut of_calls);
    program.push(LOAD, 0);
    let to_calls = program.if_equal(INVITE);
    program.place(Lane::Others, workers);
    let mut ends = vec![program.jump()];
    program.land(to_calls);
    let mut to_urgent = Vec::new();
    program.urgent(rule.urgent, &mut to_urgent);
    program.place(Lane::Calls, workers);
    ends.push(program.jump());
    program.land(to_registers);
    program.place(Lane::Registers, workers);
    ends.push(program.jump());
    to_urgent.into_iter().for_each(|jump| program.land(jump));
    program.place(Lane::Urgent, workers);
    ends.push(program.jump());
    of_calls.into_iter().for_each(|jump| program.land(jump));
    program.networks(&unruly, &mut to_first);
    program.place(Lane::OfCalls, workers);
    ends.push(program.jump());
    to_first.into_iter().for_each(|jump| program.land(jump));
    program.push(LOAD_CONSTANT, 0);
    ends.into_iter().for_each(|jump| program.land(jump));
    program.spread(workers);
    program.done()
}

/// The program that only spreads.
pub(super) fn spread(workers: u32) -> Vec<Instruction> {
    let mut program = Program::default();
    program.push(LOAD_CONSTANT, 0);
    program.spread(workers);
    program.0
}

/// See [`Sieve::program`].
pub(super) fn sift(sieve: &Sieve, lane: Lane) -> Option<Vec<Instruction>> {
    let mut program = Program::default();
    program.push(SET_X, sieve.salt);
    match lane {
        Lane::Calls => program.hash_bytes(),
        Lane::Registers => program.hash_source(PORT),
        Lane::Others | Lane::Urgent | Lane::OfCalls => return None,
    }
    program.draw(sieve.threshold(lane));
    program.done()
}

#[derive(Default)]
struct Program(Vec<Instruction>);

/// A forward jump whose target isn't written yet.
#[must_use]
struct Jump {
    at: usize,
}

impl Program {
    fn done(self) -> Option<Vec<Instruction>> {
        (self.0.len() <= INSTRUCTIONS_MAX).then_some(self.0)
    }

    /// Jumps if it belongs to a call by its first bytes.
    fn of_calls(&mut self) -> Vec<Jump> {
        let mut jumps = vec![self.unless_as_long_as(BYTES_MIN)];
        self.push(LOAD, 0);
        jumps.extend(OF_CALLS.map(|first| self.if_equal(first)));
        jumps
    }

    /// Jumps if the source is in one of these networks.
    fn networks(&mut self, known: &[IpNet], jumps: &mut Vec<Jump>) {
        let (mut v4, mut v6): (Vec<_>, Vec<_>) = known
            .iter()
            .partition(|network| matches!(network, IpNet::V4(_)));
        // Hosts follow each other then, and share a load.
        v4.sort_unstable();
        v6.sort_unstable();
        let to_v6 = self.unless_v4();
        self.networks_of(SOURCE_V4, &v4, jumps);
        let end = self.jump();
        self.land(to_v6);
        self.networks_of(SOURCE_V6, &v6, jumps);
        self.land(end);
    }

    fn networks_of(&mut self, source: u32, networks: &[&IpNet], jumps: &mut Vec<Jump>) {
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
            jumps.push(self.jump());
            for miss in misses {
                self.0[miss].jf = (self.0.len() - miss - 1) as u8;
            }
            loaded = count == 1 && mask[0] == u32::MAX;
        }
    }

    /// Jumps if an INVITE is a call for help, or to one of these users.
    fn urgent(&mut self, users: &[String], jumps: &mut Vec<Jump>) {
        self.push(LOAD, SCHEME.start as u32);
        self.push(OR, LOWERED);
        let to_urn = self.if_equal(URN);
        let [sip, tel] = SCHEMES;
        self.branch(JUMP_IF_EQUAL, sip, 2, 0);
        self.branch(JUMP_IF_EQUAL, tel, 1, 0);
        let mut to_end = vec![self.jump()];
        for user in users {
            self.user(user.as_bytes(), jumps);
        }
        to_end.push(self.jump());
        self.land(to_urn);
        for (index, (word, mask)) in FOR_HELP.into_iter().enumerate() {
            self.push(LOAD, (SCHEME.end + 4 * index) as u32);
            self.push(OR, LOWERED);
            self.push(AND, mask);
            to_end.push(self.unless_equal(word));
        }
        jumps.push(self.jump());
        to_end.into_iter().for_each(|jump| self.land(jump));
    }

    /// Jumps if this user follows the scheme. It is short enough to be within the shortest request.
    fn user(&mut self, user: &[u8], jumps: &mut Vec<Jump>) {
        let mut misses = Vec::new();
        for (index, part) in user.chunks(4).enumerate() {
            let shift = 8 * (4 - part.len());
            self.push(LOAD, (SCHEME.end + 4 * index) as u32);
            if shift > 0 {
                self.push(AND, u32::MAX << shift);
            }
            misses.push(self.unless_equal(word(part) << shift));
        }
        self.push(LOAD_BYTE, (SCHEME.end + user.len()) as u32);
        for (index, end) in ENDS.into_iter().enumerate() {
            let others = (ENDS.len() - index) as u8;
            self.branch(JUMP_IF_EQUAL, end.into(), others, 0);
        }
        misses.push(self.jump());
        jumps.push(self.jump());
        misses.into_iter().for_each(|jump| self.land(jump));
    }

    fn count_tags(&mut self) {
        self.push(LOAD_CONSTANT, 0);
        self.push(STORE, TAGS);
        let mut ends = Vec::new();
        for group in (0..SCANNED_BYTES).step_by(GROUP_BYTES) {
            ends.push(self.unless_as_long_as(group + GROUP_BYTES));
            for word in 0..GROUP_WORDS {
                self.push(LOAD, (group + 4 * word) as u32);
                self.push(OR, LOWERED);
                self.count_tag();
            }
        }
        for end in ends {
            self.land(end);
        }
    }

    /// A holds the word.
    fn count_tag(&mut self) {
        let [whole, other, first, last] = TAG_PARTS;
        self.push(A_TO_X, 0);
        self.branch(JUMP_IF_EQUAL, whole.word, 6, 0);
        self.branch(JUMP_IF_EQUAL, other.word, 5, 0);
        self.push(AND, first.mask);
        self.branch(JUMP_IF_EQUAL, first.word, 3, 0);
        self.push(X_TO_A, 0);
        self.push(AND, last.mask);
        self.branch(JUMP_IF_EQUAL, last.word, 0, 3);
        self.push(LOAD_MEMORY, TAGS);
        self.push(ADD, 1);
        self.push(STORE, TAGS);
    }

    /// Jumps if the tags that were counted are those of a request with a To tag.
    fn with_to_tag(&mut self, jumps: &mut Vec<Jump>) {
        self.push(LOAD_MEMORY, TAGS);
        self.branch(JUMP_IF_AT_LEAST, 2, 0, 1);
        jumps.push(self.jump());
        let to_end = self.if_equal(1);
        self.push(LOAD_LENGTH, 0);
        self.branch(JUMP_IF_AT_LEAST, SCANNED_BYTES as u32, 0, 1);
        jumps.push(self.jump());
        self.land(to_end);
    }

    /// A becomes the place of the lane's first socket.
    fn place(&mut self, lane: Lane, workers: u32) {
        self.push(LOAD_CONSTANT, lane.place(workers));
    }

    /// Ends with A and the number of the worker that gets what comes from this source.
    fn spread(&mut self, workers: u32) {
        if workers > 1 {
            self.push(STORE, FIRST);
            self.push(SET_X, 0);
            self.hash_source(PORT_BEHIND_IP);
            self.push(X_TO_A, 0);
            self.push(SHIFT_RIGHT, 16);
            self.push(REMAINDER, workers);
            self.push(LOAD_X, FIRST);
            self.push(ADD_X, 0);
        }
        self.push(RETURN_A, 0);
    }

    /// X holds the hash.
    fn hash_bytes(&mut self) {
        let mut ends = Vec::new();
        for group in (UDP_HEADER..UDP_HEADER + HASHED_BYTES).step_by(GROUP_BYTES) {
            ends.push(self.unless_as_long_as(group + GROUP_BYTES));
            for word in 0..GROUP_WORDS {
                self.push(LOAD, (group + 4 * word) as u32);
                self.mix();
            }
        }
        for end in ends {
            self.land(end);
        }
    }

    /// X holds the hash.
    fn hash_source(&mut self, [port_v4, port_v6]: [u32; 2]) {
        let to_v6 = self.unless_v4();
        self.push(LOAD, SOURCE_V4);
        self.mix();
        self.push(LOAD_HALF, port_v4);
        let end = self.jump();
        self.land(to_v6);
        for word in 0..4 {
            self.push(LOAD, SOURCE_V6 + 4 * word);
            self.mix();
        }
        self.push(LOAD_HALF, port_v6);
        self.land(end);
        self.mix();
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
        self.unless_equal(VERSION_4)
    }

    /// The kernel ends a program with 0 if it loads what is beyond the datagram's end.
    fn unless_as_long_as(&mut self, bytes: usize) -> Jump {
        self.push(LOAD_LENGTH, 0);
        self.branch(JUMP_IF_AT_LEAST, bytes as u32, 1, 0);
        self.jump()
    }

    fn if_equal(&mut self, word: u32) -> Jump {
        self.branch(JUMP_IF_EQUAL, word, 0, 1);
        self.jump()
    }

    fn unless_equal(&mut self, word: u32) -> Jump {
        self.branch(JUMP_IF_EQUAL, word, 1, 0);
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
