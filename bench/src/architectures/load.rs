//! The load: calls or REGISTERs in a closed loop.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use load::{Arrivals, Service};
use serde::{Deserialize, Serialize};

use crate::{generator::Generator, register::queue};

/// Servers are on 127.0.0.1, and who has a server's address is no stranger.
const STRANGERS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// A user of each place in the window is followed by so many others.
const TURNS: u32 = 8;

/// A REGISTER without an answer is sent again then.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the node does, which decides what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    Stateless,
    Stateful,
    Registrar,
}

/// Who sends, and who answers calls.
pub(super) enum Load {
    Calls(Box<Generator>),
    Registers(Registers),
}

/// What was done so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Calls that were answered and ended; REGISTERs that were granted.
    pub(super) carried: u64,
    /// Calls and REGISTERs that failed or had to be repeated.
    pub(super) failed: u64,
}

/// REGISTERs that wait for their answers.
pub(super) struct Registers {
    sockets: Vec<(UdpSocket, SocketAddr)>,
    /// By place in the window: the number of the REGISTER that is on its way, and when it was sent.
    sent: Vec<(u32, Instant)>,
    registrar: SocketAddr,
    took: Vec<Duration>,
    granted: u64,
    failed: u64,
}

impl Mode {
    pub(super) const ALL: [Self; 3] = [Self::Stateless, Self::Stateful, Self::Registrar];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Stateless => "Stateless proxy",
            Self::Stateful => "Stateful proxy",
            Self::Registrar => "Registrar",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stateless => "stateless",
            Self::Stateful => "stateful",
            Self::Registrar => "registrar",
        }
    }
}

impl Load {
    /// Senders with so many ports. They are silent until [`Self::begin`].
    pub(super) fn new(mode: Mode, senders: usize, seed: u64) -> io::Result<Self> {
        let bind = |_| traffic::bind(SocketAddr::new(STRANGERS, 0));
        Ok(match mode {
            Mode::Stateless | Mode::Stateful => {
                let sockets = (0..senders).map(bind).collect::<io::Result<_>>()?;
                let calls = Generator::calling_from(sockets, seed, Service::NONE)?;
                Self::Calls(Box::new(calls))
            }
            Mode::Registrar => Self::Registers(Registers::new(senders)?),
        })
    }

    /// Where calls are to go.
    pub(super) fn servers(&self) -> Vec<SocketAddr> {
        match self {
            Self::Calls(calls) => calls.callee_addresses(),
            Self::Registers(_) => vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 9))],
        }
    }

    /// Keeps so many in progress from here on; those before are forgotten.
    pub(super) fn begin(&mut self, node: SocketAddr, window: u32) {
        match self {
            Self::Calls(calls) => calls.call(node, Arrivals::Window(window as usize), u64::MAX),
            Self::Registers(registers) => registers.begin(node, window),
        }
    }

    /// Takes what has come, sends what is next.
    pub(super) fn turn(&mut self) {
        match self {
            Self::Calls(calls) => calls.turn(),
            Self::Registers(registers) => registers.turn(),
        }
    }

    pub(super) fn done(&mut self) -> Done {
        match self {
            Self::Calls(calls) => {
                let stats = calls.caller().stats();
                let failed: u64 = stats.failed.values().sum();
                Done {
                    carried: stats.carried,
                    failed: failed + stats.retransmissions,
                }
            }
            Self::Registers(registers) => Done {
                carried: registers.granted,
                failed: registers.failed,
            },
        }
    }

    /// The 99 % quantile from a request to its 2xx.
    pub(super) fn answer_ms_p99(&mut self) -> f64 {
        match self {
            Self::Calls(calls) => {
                let answers = &calls.caller().stats().answer_ns;
                answers.value_at_quantile(0.99) as f64 / 1e6
            }
            Self::Registers(registers) => {
                let took = &mut registers.took;
                took.sort_unstable();
                let place = took.len() * 99 / 100;
                took.get(place).map_or(0.0, |took| 1e3 * took.as_secs_f64())
            }
        }
    }
}

impl Registers {
    fn new(senders: usize) -> io::Result<Self> {
        let open = |_| {
            let socket = UdpSocket::bind(SocketAddr::new(STRANGERS, 0))?;
            socket.set_nonblocking(true)?;
            let own = socket.local_addr()?;
            Ok((socket, own))
        };
        Ok(Self {
            sockets: (0..senders).map(open).collect::<io::Result<_>>()?,
            sent: Vec::new(),
            registrar: SocketAddr::from((Ipv4Addr::LOCALHOST, 9)),
            took: Vec::new(),
            granted: 0,
            failed: 0,
        })
    }

    fn begin(&mut self, registrar: SocketAddr, window: u32) {
        self.registrar = registrar;
        self.took.clear();
        (self.granted, self.failed) = (0, 0);
        // The place of a number is its rest.
        let last = self.sent.iter().map(|(number, _)| *number).max();
        let first = last.unwrap_or(1).next_multiple_of(window) + window;
        self.sent = (0..window)
            .map(|place| (first + place, Instant::now()))
            .collect();
        (0..window as usize).for_each(|place| self.send(place));
    }

    fn turn(&mut self) {
        let mut response = [0; 2_048];
        for socket in 0..self.sockets.len() {
            while let Ok(length) = self.sockets[socket].0.recv(&mut response) {
                self.hear(&response[..length]);
            }
        }
        for place in 0..self.sent.len() {
            if self.sent[place].1.elapsed() > PATIENCE {
                self.failed += 1;
                self.send(place);
            }
        }
    }

    fn hear(&mut self, response: &[u8]) {
        let window = self.sent.len() as u32;
        let Some(number) = queue::number(response).filter(|_| window > 0) else {
            return;
        };
        let place = (number % window) as usize;
        let (awaited, at) = self.sent[place];
        if awaited != number {
            return;
        }
        match response.starts_with(b"SIP/2.0 200 ") {
            true => self.granted += 1,
            false => self.failed += 1,
        }
        self.took.push(at.elapsed());
        self.sent[place].0 = number + window;
        self.send(place);
    }

    fn send(&mut self, place: usize) {
        let window = self.sent.len() as u32;
        let (number, at) = &mut self.sent[place];
        *at = Instant::now();
        let number = *number;
        let (socket, own) = &self.sockets[place % self.sockets.len()];
        let user = number % (TURNS * window);
        let request = queue::request(*own, user, number);
        match socket.send_to(request.as_bytes(), self.registrar) {
            Ok(_) => {}
            // It is sent again when the patience ends.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.failed += 1,
        }
    }
}
