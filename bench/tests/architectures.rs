//! Each architecture carries a call, takes a REGISTER, and keeps the node's timers.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "it starts processes")]

use std::{
    net::{SocketAddr, UdpSocket},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long a program may take to do what is expected.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running program, which is killed on drop.
struct Program {
    child: Child,
    address: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn start(architecture: &str, mode: &str, server: SocketAddr) -> Program {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let child = Command::new(env!("CARGO_BIN_EXE_architectures"))
        .args([architecture, "--mode", mode, "--workers", "2"])
        .args(["--listen", &address.to_string()])
        .args(["--servers", &server.to_string()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Program { child, address }
}

fn socket(ip: &str) -> UdpSocket {
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    let step = Duration::from_millis(20);
    socket.set_read_timeout(Some(step)).unwrap();
    socket
}

fn request(method: &str, from: SocketAddr) -> String {
    format!(
        "{method} sip:bob@example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP {from};branch=z9hG4bK-{method};rport\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:bob@example.com>;tag=one\r\n\
         To: <sip:bob@example.com>\r\n\
         Call-ID: {method}-of-a-test\r\n\
         CSeq: 1 {method}\r\n\
         Contact: <sip:bob@{from}>\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn receive(socket: &UdpSocket) -> Option<String> {
    let mut bytes = [0; 4_096];
    let length = socket.recv(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// Sends a request, again from time to time, until something comes that is wanted.
fn answer(
    caller: &UdpSocket,
    program: &Program,
    method: &str,
    mut wanted: impl FnMut() -> Option<String>,
) -> String {
    let began = Instant::now();
    let mut sent = None;
    let text = request(method, caller.local_addr().unwrap());
    loop {
        let is_due = sent.is_none_or(|at: Instant| at.elapsed() > Duration::from_millis(100));
        if is_due {
            caller.send_to(text.as_bytes(), program.address).unwrap();
            sent = Some(Instant::now());
        }
        if let Some(found) = wanted() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "no answer to {method}");
    }
}

/// The 200 to an INVITE that has passed the node.
fn granted(invite: &str) -> String {
    let kept = invite.lines().filter(|line| {
        let names = ["Via:", "From:", "To:", "Call-ID:", "CSeq:", "Record-Route:"];
        names.iter().any(|name| line.starts_with(name))
    });
    let kept: String = kept.map(|line| format!("{line}\r\n")).collect();
    format!("SIP/2.0 200 OK\r\n{kept}Content-Length: 0\r\n\r\n")
        .replace("example.com>\r\nCall", "example.com>;tag=two\r\nCall")
}

fn carries_calls(architecture: &str) {
    let (caller, server) = (socket("127.0.0.2"), socket("127.0.0.1"));
    let program = start(architecture, "stateful", server.local_addr().unwrap());
    let mut invites = 0;
    answer(&caller, &program, "INVITE", || {
        let invite = receive(&server)?;
        assert!(invite.starts_with("INVITE "), "{invite}");
        invites += 1;
        // The first one is lost: Timer A sends the second.
        (invites == 2).then(|| {
            server
                .send_to(granted(&invite).as_bytes(), program.address)
                .unwrap();
            invite
        })
    });
    answer(&caller, &program, "INVITE", || {
        receive(&caller).filter(|answer| answer.starts_with("SIP/2.0 200 "))
    });
}

fn takes_registers(architecture: &str) {
    let caller = socket("127.0.0.2");
    let program = start(architecture, "registrar", "127.0.0.1:9".parse().unwrap());
    let answer = answer(&caller, &program, "REGISTER", || receive(&caller));
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert!(answer.contains("Contact: <sip:bob@127.0.0.2:"), "{answer}");
}

macro_rules! architectures {
    ($($test:ident $name:literal,)*) => {$(
        #[test]
        fn $test() {
            carries_calls($name);
            takes_registers($name);
        }
    )*};
}

architectures! {
    an_event_loop_works "event-loop",
    processes_work "processes",
    two_stages_work "two-stage",
    shared_threads_work "shared",
    threads_of_transactions_work "thread-per-transaction",
}
