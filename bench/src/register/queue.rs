//! Users who register all the time, a window of them at once, and never send anything twice.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

/// An answer that takes longer is lost, and the measurement with it.
const PATIENCE: Duration = Duration::from_secs(2);

/// What became of it.
pub(super) struct Answered {
    pub granted: u64,
    pub refused: u64,
    pub took: Duration,
}

/// Registers these users in turn with the same contact, `window` of them at once.
pub(super) fn register(
    registrar: SocketAddr,
    users: u32,
    window: u32,
    count: u32,
) -> io::Result<Answered> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(registrar)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let own = socket.local_addr()?;
    let send = |number: u32| socket.send(request(own, number % users, number + 1).as_bytes());
    let began = Instant::now();
    let (mut granted, mut refused, mut response) = (0, 0, [0; 2_048]);
    for number in 0..window {
        send(number)?;
    }
    for number in window..count + window {
        let length = socket.recv(&mut response)?;
        match response[..length].starts_with(b"SIP/2.0 200 ") {
            true => granted += 1,
            false => refused += 1,
        }
        if number < count {
            send(number)?;
        }
    }
    Ok(Answered {
        granted,
        refused,
        took: began.elapsed(),
    })
}

/// The REGISTER of a user; `number` is in its CSeq, as phones count.
fn request(own: SocketAddr, user: u32, number: u32) -> String {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP {own};branch=z9hG4bK-{number};rport\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:user-{user}@example.com>;tag=queue\r\n\
         To: <sip:user-{user}@example.com>\r\n\
         Call-ID: queue-{user}\r\n\
         CSeq: {number} REGISTER\r\n\
         Contact: <sip:user-{user}@{own}>\r\n\
         Expires: 300\r\n\
         Content-Length: 0\r\n\r\n"
    )
}
