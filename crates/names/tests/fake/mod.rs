//! A DNS server of the test's own: what it says, and whether it says anything, changes while it runs.

use std::{
    collections::HashMap,
    net::{SocketAddr, UdpSocket},
    str::FromStr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use hickory_resolver::proto::{
    op::{Message, OpCode, ResponseCode},
    rr::{
        Name, RData, Record, RecordType,
        rdata::{A, AAAA, NAPTR, SOA, SRV},
    },
};

/// What the server does when it is asked.
#[derive(Clone)]
pub(crate) enum Reply {
    Records(u32, Vec<RData>),
    /// There is no such name; with how long that is good, if it says.
    None(Option<u32>),
    Fail,
    Silence,
}

pub(crate) struct Dns {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    replies: Mutex<HashMap<(String, RecordType), Reply>>,
    is_silent: AtomicBool,
    queries: AtomicUsize,
    is_over: AtomicBool,
}

impl Dns {
    /// A server that knows no name.
    pub(crate) fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let state = Arc::new(State::default());
        let run = Arc::clone(&state);
        Self {
            address,
            state,
            thread: Some(thread::spawn(move || run.serve(&socket))),
        }
    }

    pub(crate) fn set(&self, name: &str, kind: RecordType, reply: Reply) {
        let key = (name.to_owned(), kind);
        self.state.replies.lock().unwrap().insert(key, reply);
    }

    pub(crate) fn host(&self, name: &str, ttl: u32, ips: &[&str]) {
        let of_kind = |v4: bool| {
            let ips = ips.iter().filter(move |ip| ip.contains('.') == v4);
            ips.map(move |ip| match v4 {
                true => RData::A(A::from_str(ip).unwrap()),
                false => RData::AAAA(AAAA::from_str(ip).unwrap()),
            })
        };
        for (kind, v4) in [(RecordType::A, true), (RecordType::AAAA, false)] {
            self.set(name, kind, Reply::Records(ttl, of_kind(v4).collect()));
        }
    }

    /// Priority, weight, port and target of each.
    pub(crate) fn service(&self, name: &str, ttl: u32, servers: &[(u16, u16, u16, &str)]) {
        let srv = |&(priority, weight, port, target): &(u16, u16, u16, &str)| {
            RData::SRV(SRV::new(priority, weight, port, self::name(target)))
        };
        let records = servers.iter().map(srv).collect();
        self.set(name, RecordType::SRV, Reply::Records(ttl, records));
    }

    /// Order, preference, service and replacement of each.
    pub(crate) fn naptr(&self, name: &str, ttl: u32, rules: &[(u16, u16, &str, &str)]) {
        let naptr = |&(order, preference, service, replacement): &(u16, u16, &str, &str)| {
            let [flags, service, regexp] = ["s", service, ""].map(|text| text.as_bytes().into());
            let replacement = self::name(replacement);
            RData::NAPTR(NAPTR::new(
                order,
                preference,
                flags,
                service,
                regexp,
                replacement,
            ))
        };
        let records = rules.iter().map(naptr).collect();
        self.set(name, RecordType::NAPTR, Reply::Records(ttl, records));
    }

    pub(crate) fn be_silent(&self, is_silent: bool) {
        self.state.is_silent.store(is_silent, Relaxed);
    }

    pub(crate) fn queries(&self) -> usize {
        self.state.queries.load(Relaxed)
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.state.is_over.store(true, Relaxed);
        let waker = UdpSocket::bind("127.0.0.1:0").unwrap();
        let _ = waker.send_to(b"", self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

impl State {
    fn serve(&self, socket: &UdpSocket) {
        let mut bytes = [0; 4096];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            if self.is_over.load(Relaxed) {
                return;
            }
            self.queries.fetch_add(1, Relaxed);
            if let Some(answer) = self.answer(&bytes[..len]) {
                let _ = socket.send_to(&answer, from);
            }
        }
    }

    fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        let query = Message::from_vec(query).unwrap();
        let asked = &query.queries[0];
        let key = (
            asked.name().to_string().to_ascii_lowercase(),
            asked.query_type(),
        );
        let known = self.replies.lock().unwrap().get(&key).cloned();
        let reply = known.unwrap_or(Reply::None(None));
        if self.is_silent.load(Relaxed) {
            return None;
        }
        let mut answer = Message::response(query.metadata.id, OpCode::Query);
        answer.add_query(asked.clone());
        match reply {
            Reply::Records(ttl, records) => {
                let record = |data| Record::from_rdata(asked.name().clone(), ttl, data);
                answer.add_answers(records.into_iter().map(record));
            }
            Reply::None(ttl) => {
                answer.metadata.response_code = ResponseCode::NXDomain;
                if let Some(ttl) = ttl {
                    let soa = SOA::new(name("ns."), name("me."), 1, 60, 60, 60, ttl);
                    answer.add_authority(Record::from_rdata(name("."), ttl, RData::SOA(soa)));
                }
            }
            Reply::Fail => answer.metadata.response_code = ResponseCode::ServFail,
            Reply::Silence => return None,
        }
        Some(answer.to_vec().unwrap())
    }
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}
