//! A caller and a server of a test, message by message.

use std::net::{SocketAddr, UdpSocket};

use super::PATIENCE;

/// A socket that speaks SIP.
pub struct Phone {
    socket: UdpSocket,
}

impl Phone {
    pub fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket }
    }

    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    pub fn send(&self, to: SocketAddr, text: &str) {
        self.socket.send_to(text.as_bytes(), to).unwrap();
    }

    /// The next message that begins with this; others are passed over.
    pub fn expect(&self, beginning: &str) -> String {
        let mut bytes = [0; 65_535];
        loop {
            let (length, _) = self.socket.recv_from(&mut bytes).expect(beginning);
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if text.starts_with(beginning) {
                return text;
            }
        }
    }

    /// A request of `user` to the service.
    pub fn request(&self, method: &str, call: &str, user: &str, more: &str) -> String {
        let at = self.address();
        let to_tag = if more.is_empty() { "" } else { ";tag=b" };
        let number = if method == "BYE" { 2 } else { 1 };
        format!(
            "{method} sip:service@example.com SIP/2.0\r\n\
             Via: SIP/2.0/UDP {at};branch=z9hG4bK{call}{method};rport\r\n{more}\
             From: <sip:{user}@example.com>;tag=a\r\nTo: <sip:service@example.com>{to_tag}\r\n\
             Call-ID: {call}\r\nCSeq: {number} {method}\r\nContact: <sip:{user}@{at}>\r\n\
             Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        )
    }

    /// A call that a server answers and its caller ends.
    pub fn call(&self, edge: SocketAddr, server: &Self, call: &str, user: &str) {
        self.send(edge, &self.request("INVITE", call, user, ""));
        let invite = server.expect("INVITE");
        server.send(edge, &reply(&invite, "180 Ringing"));
        self.expect("SIP/2.0 180");
        server.send(edge, &reply(&invite, "200 OK"));
        let answer = self.expect("SIP/2.0 200");
        let recorded = answer
            .lines()
            .filter_map(|line| line.strip_prefix("Record-Route:"));
        let routes: Vec<String> = recorded.map(|route| format!("Route:{route}\r\n")).collect();
        let routes = routes.concat();
        self.send(edge, &self.request("ACK", call, user, &routes));
        server.expect("ACK");
        self.send(edge, &self.request("BYE", call, user, &routes));
        let bye = server.expect("BYE");
        server.send(edge, &reply(&bye, "200 OK"));
        self.expect("SIP/2.0 200");
    }
}

/// A server's response.
pub fn reply(request: &str, status: &str) -> String {
    let mut text = format!("SIP/2.0 {status}\r\n");
    for line in request.lines().take_while(|line| !line.is_empty()) {
        let copied = ["Via:", "Record-Route:", "From:", "Call-ID:", "CSeq:"];
        if copied.iter().any(|name| line.starts_with(name)) {
            text += &format!("{line}\r\n");
        } else if line.starts_with("To:") {
            let tag = if line.contains("tag=") { "" } else { ";tag=b" };
            text += &format!("{line}{tag}\r\n");
        }
    }
    text + "Content-Length: 0\r\n\r\n"
}
