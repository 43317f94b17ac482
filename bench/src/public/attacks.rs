//! What strangers send to an edge.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};
use serde::{Deserialize, Serialize};

/// The stranger's address. The honest callers have others.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Attack {
    /// INVITEs of a program that looks for holes, each to another user.
    Scanner,
    /// ICMP errors about datagrams that the edge never sent to its servers.
    ForgedIcmp,
    /// Requests with the stranger's own token and its tags turned round.
    TurnedToken,
    /// INVITEs with one Call-ID and a rising CSeq, whose calls are not acknowledged.
    RisingCseq,
    /// Responses to nothing, with the edge's Via and a third host's below it.
    StrayResponse,
    /// CANCELs of INVITEs that never were.
    OrphanedCancel,
    /// REGISTERs of users that there may be, with wrong credentials.
    Guessing,
    /// REGISTERs with two contacts of thousands of parameters.
    LongContacts,
    /// Requests with more header fields than the limit.
    ManyHeaders,
    /// Bytes that are no SIP.
    Rubbish,
}

impl Attack {
    pub(crate) const ALL: [Self; 10] = [
        Self::Scanner,
        Self::ForgedIcmp,
        Self::TurnedToken,
        Self::RisingCseq,
        Self::StrayResponse,
        Self::OrphanedCancel,
        Self::Guessing,
        Self::LongContacts,
        Self::ManyHeaders,
        Self::Rubbish,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Scanner => "a scanner's INVITEs",
            Self::ForgedIcmp => "forged ICMP errors",
            Self::TurnedToken => "tokens turned round",
            Self::RisingCseq => "one Call-ID, rising CSeq",
            Self::StrayResponse => "stray responses",
            Self::OrphanedCancel => "CANCELs of nothing",
            Self::Guessing => "guessed passwords",
            Self::LongContacts => "contacts of 7 KB",
            Self::ManyHeaders => "500 header fields",
            Self::Rubbish => "rubbish",
        }
    }

    fn message(self, stranger: &Stranger, number: u64) -> Vec<u8> {
        let text = match self {
            Self::Scanner => stranger.request("INVITE", number, "User-Agent: friendly-scanner\r\n"),
            Self::TurnedToken => stranger.turned(number),
            Self::RisingCseq => {
                let invite = stranger.request("INVITE", 0, "");
                let invite = invite.replace("CSeq: 1 ", &format!("CSeq: {} ", number + 1));
                invite.replace("z9hG4bK-0", &format!("z9hG4bK-{number}"))
            }
            Self::StrayResponse => format!(
                "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKsy0A{number:016x}\r\n\
                 Via: SIP/2.0/UDP 127.0.0.99:5060;branch=z9hG4bK-x\r\nFrom: <sip:a@b>;tag=1\r\n\
                 To: <sip:c@d>;tag=2\r\nCall-ID: stray-{number}\r\nCSeq: 1 INVITE\r\n\
                 Content-Length: 0\r\n\r\n",
                stranger.edge
            ),
            Self::OrphanedCancel => stranger.request("CANCEL", number, ""),
            Self::Guessing => stranger.request(
                "REGISTER",
                number,
                "Authorization: Digest username=\"alice\", realm=\"users.example\", nonce=\"6\", \
                 uri=\"sip:users.example\", response=\"0123456789abcdef0123456789abcdef\"\r\n",
            ),
            Self::LongContacts => {
                let long = ";a=b".repeat(1_700);
                let contacts =
                    format!("Contact: <sip:x@127.0.0.66{long}>, <sip:y@127.0.0.66{long}>\r\n");
                stranger.request("REGISTER", number, &contacts)
            }
            Self::ManyHeaders => stranger.request("OPTIONS", number, &"X: y\r\n".repeat(500)),
            Self::Rubbish => format!("{number:032x} is no SIP, whatever it may look like\r\n\r\n"),
            Self::ForgedIcmp => return stranger.icmp(number),
        };
        text.into_bytes()
    }
}

/// A stranger who sends at a steady rate.
pub(crate) struct Stranger {
    socket: UdpSocket,
    raw: rustix::fd::OwnedFd,
    edge: SocketAddr,
    servers: Vec<SocketAddr>,
    /// The Route and the To tag of a call of its own.
    own_call: (String, String),
    sent: u64,
}

impl Stranger {
    /// Places a call of its own first, through a proxy before servers that answer at once.
    pub(crate) fn new(
        edge: SocketAddr,
        servers: Vec<SocketAddr>,
        mut serve: impl FnMut(),
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind((STRANGER, 0))?;
        socket.set_nonblocking(true)?;
        let raw = socket_of_icmp()?;
        let mut stranger = Self {
            socket,
            raw,
            edge,
            servers,
            own_call: Default::default(),
            sent: 0,
        };
        let invite = stranger.request("INVITE", u64::MAX, "");
        stranger.socket.send_to(invite.as_bytes(), edge)?;
        let mut buffer = [0; 4096];
        for _ in 0..1_000_000 {
            serve();
            let Ok(length) = stranger.socket.recv(&mut buffer) else {
                continue;
            };
            let answer = String::from_utf8_lossy(&buffer[..length]);
            if answer.starts_with("SIP/2.0 200") {
                let line = |name: &str| {
                    let found = answer.lines().find_map(|line| line.strip_prefix(name));
                    found.unwrap_or_default().to_owned()
                };
                stranger.own_call = (line("Record-Route: "), line("To: "));
                return Ok(stranger);
            }
        }
        Err(io::Error::other("nobody answers the stranger's call"))
    }

    /// Sends what is due after so long at this rate, and throws away what came back; returns how many
    /// messages were sent so far.
    pub(crate) fn turn(&mut self, attack: Attack, rate: f64, after: Duration) -> u64 {
        let due = (after.as_secs_f64() * rate) as u64;
        for _ in self.sent..due.min(self.sent + 64) {
            let message = attack.message(self, self.sent);
            // What the edge has no room for is lost, as on any network.
            let _ = match attack {
                Attack::ForgedIcmp => {
                    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                    sendto(&self.raw, &message, SendFlags::DONTWAIT, &to).map_err(io::Error::from)
                }
                _ => self.socket.send_to(&message, self.edge),
            };
            self.sent += 1;
        }
        let mut buffer = [0; 4096];
        while self.socket.recv(&mut buffer).is_ok() {}
        self.sent
    }

    pub(crate) fn begin(&mut self) {
        self.sent = 0;
    }

    fn request(&self, method: &str, number: u64, more: &str) -> String {
        let from = self.socket.local_addr().expect("it is bound");
        format!(
            "{method} sip:{number}@{} SIP/2.0\r\nVia: SIP/2.0/UDP {from};rport;branch=z9hG4bK-{number}\r\n\
             From: <sip:stranger@users.example>;tag=stranger\r\nTo: <sip:{number}@users.example>\r\n\
             Call-ID: attack-{number}\r\nCSeq: 1 {method}\r\nMax-Forwards: 70\r\n\
             Contact: <sip:stranger@{from}>\r\n{more}Content-Length: 0\r\n\r\n",
            if method == "REGISTER" {
                "users.example".to_owned()
            } else {
                self.edge.to_string()
            }
        )
    }

    fn turned(&self, number: u64) -> String {
        let (route, to) = &self.own_call;
        self.request("MESSAGE", number, &format!("Route: {route}\r\n"))
            .replace(
                &format!("Call-ID: attack-{number}"),
                &format!("Call-ID: attack-{}", u64::MAX),
            )
            .replace(
                "From: <sip:stranger@users.example>;tag=stranger",
                &format!("From: {to}"),
            )
            .replace(
                &format!("To: <sip:{number}@users.example>"),
                "To: <sip:stranger@users.example>;tag=stranger",
            )
    }

    /// "Port unreachable", about a datagram to one of the servers. RFC 792
    fn icmp(&self, number: u64) -> Vec<u8> {
        let server = self.servers[number as usize % self.servers.len()];
        let quoted = format!(
            "INVITE sip:{number}@{server} SIP/2.0\r\nVia: SIP/2.0/UDP {}",
            self.edge
        );
        let length = |bytes: usize| (bytes as u16).to_be_bytes();
        let mut ip = vec![0x45, 0];
        ip.extend(length(28 + quoted.len()));
        ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        let mut udp = [self.edge.port(), server.port()]
            .map(u16::to_be_bytes)
            .concat();
        udp.extend(length(8 + quoted.len()));
        udp.extend([0, 0]);
        let mut icmp = vec![3, 3, 0, 0, 0, 0, 0, 0];
        for part in [&ip, &udp, quoted.as_bytes()] {
            icmp.extend(part);
        }
        let sum = checksum(&icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        icmp
    }
}

fn socket_of_icmp() -> io::Result<rustix::fd::OwnedFd> {
    Ok(socket(
        AddressFamily::INET,
        SocketType::RAW,
        Some(ipproto::ICMP),
    )?)
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) as u16 + (folded >> 16) as u16)
}
