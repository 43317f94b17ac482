//! Users who register all the time, a window of them at once, and never send anything twice.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

/// What became of it.
pub(crate) struct Answered {
    pub granted: u64,
    pub refused: u64,
    /// Those without an answer.
    pub lost: u64,
    pub took: Duration,
}

/// Registers these users in turn with the same contact, `window` of them at once, as long as there `is_more`, given how
/// many were sent. If nothing comes for as long as their `patience` lasts, what they wait for is lost.
pub(crate) fn register(
    registrar: SocketAddr,
    users: u32,
    window: u32,
    patience: Duration,
    mut is_more: impl FnMut(u32) -> bool,
) -> io::Result<Answered> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(registrar)?;
    socket.set_read_timeout(Some(patience))?;
    let own = socket.local_addr()?;
    let send = |number: u32| socket.send(request(own, number % users, number + 1).as_bytes());
    let began = Instant::now();
    let (mut granted, mut refused, mut lost, mut response) = (0, 0, 0, [0; 2_048]);
    let (mut sent, mut waiting) = (0, 0);
    loop {
        while waiting < window && is_more(sent) {
            send(sent)?;
            sent += 1;
            waiting += 1;
        }
        if waiting == 0 {
            break;
        }
        match socket.recv(&mut response) {
            Ok(length) if response[..length].starts_with(b"SIP/2.0 200 ") => granted += 1,
            Ok(_) => refused += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                lost += u64::from(waiting);
                waiting = 1;
            }
            Err(error) => return Err(error),
        }
        waiting = waiting.saturating_sub(1);
    }
    Ok(Answered {
        granted,
        refused,
        lost,
        took: began.elapsed(),
    })
}

/// The number of the REGISTER that a response answers.
pub(crate) fn number(response: &[u8]) -> Option<u32> {
    let response = str::from_utf8(response).ok()?;
    let cseq = response
        .lines()
        .find_map(|line| line.strip_prefix("CSeq: "))?;
    cseq.split(' ').next()?.parse().ok()
}

/// The REGISTER of a user; `number` is in its CSeq, as phones count.
pub(crate) fn request(own: SocketAddr, user: u32, number: u32) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_tells_which_register_it_answers() {
        let own = SocketAddr::from(([127, 0, 0, 1], 5060));
        assert_eq!(number(request(own, 3, 4711).as_bytes()), Some(4711));
        assert_eq!(number(b"SIP/2.0 200 OK\r\n\r\n"), None);
    }
}
