//! Messages as user agents write and read them, independent of the code under test.

use std::{fmt, net::SocketAddr};

/// A message, and the address it is sent from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Msg {
    pub(crate) from: SocketAddr,
    pub(crate) start: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Msg {
    pub(crate) fn new(from: SocketAddr, start: String) -> Self {
        let headers = Vec::new();
        Self {
            from,
            start,
            headers,
        }
    }

    pub(crate) fn parse(from: SocketAddr, text: &str) -> Self {
        let head = text.split("\r\n\r\n").next().unwrap();
        let mut lines = head.split("\r\n");
        let mut message = Self::new(from, lines.next().unwrap().to_owned());
        for line in lines {
            let (name, value) = line.split_once(':').unwrap();
            message = message.with(name, value.trim());
        }
        message
    }

    /// With one more header field below all others.
    pub(crate) fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub(crate) fn set(self, name: &str, value: impl fmt::Display) -> Self {
        self.without(name).with(name, value)
    }

    pub(crate) fn from(mut self, address: &str) -> Self {
        self.from = address.parse().unwrap();
        self
    }

    /// The values of a header, topmost first.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.headers
            .iter()
            .filter(|(known, _)| known == name)
            .flat_map(|(_, value)| value.split(','))
            .map(str::trim)
            .collect()
    }

    /// The topmost value of a header; empty when there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.all(name).first().copied().unwrap_or_default()
    }

    /// The value of a header as a whole, with its commas.
    pub(crate) fn whole(&self, name: &str) -> &str {
        let mut fields = self.headers.iter();
        let found = fields.find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn status(&self) -> u16 {
        match self.start.strip_prefix("SIP/2.0 ") {
            Some(rest) => rest[..3].parse().unwrap(),
            None => 0,
        }
    }

    /// A request's method, or that of a response's CSeq.
    pub(crate) fn method(&self) -> &str {
        self.get("CSeq").split(' ').nth(1).unwrap()
    }

    pub(crate) fn is_request(&self) -> bool {
        self.status() == 0
    }

    pub(crate) fn uri(&self) -> &str {
        self.start.split(' ').nth(1).unwrap()
    }

    /// The branch of the topmost Via.
    pub(crate) fn branch(&self) -> &str {
        param(self.get("Via"), "branch").unwrap_or_default()
    }

    /// The same request with another method and the same branch, as CANCEL and the ACK of a
    /// failure are. RFC 3261 §9.1, §17.1.1.3
    fn same_transaction(&self, method: &str) -> Self {
        let number = self.get("CSeq").split(' ').next().unwrap();
        let mut message = Self::new(self.from, format!("{method} {} SIP/2.0", self.uri()))
            .with("Via", self.get("Via"))
            .with("Max-Forwards", 70)
            .with("From", self.get("From"))
            .with("To", self.get("To"))
            .with("Call-ID", self.get("Call-ID"))
            .with("CSeq", format!("{number} {method}"));
        for route in self.all("Route") {
            message = message.with("Route", route);
        }
        message
    }

    pub(crate) fn cancel(&self) -> Self {
        self.same_transaction("CANCEL")
    }

    /// The ACK for a failure of this INVITE.
    pub(crate) fn ack_of(&self, failure: &Self) -> Self {
        self.same_transaction("ACK").set("To", failure.get("To"))
    }

    /// The request anew after a challenge: RFC 3261 §8.1.3.5.
    pub(crate) fn again(&self, number: u32, branch: &str) -> Self {
        let method = self.method().to_owned();
        let via = format!("SIP/2.0/UDP {};rport;branch=z9hG4bK-{branch}", self.from);
        self.clone()
            .set("Via", via)
            .set("CSeq", format!("{number} {method}"))
            .with("Proxy-Authorization", "Digest username=\"alice\"")
    }

    /// A response by whoever listens at `by`, with this To tag.
    pub(crate) fn response(&self, by: SocketAddr, status: u16, tag: &str) -> Self {
        let mut response = Self::new(by, format!("SIP/2.0 {status} Reason"));
        for (name, value) in &self.headers {
            let is_copied = ["Via", "From", "Call-ID", "CSeq", "Record-Route"].contains(&&**name);
            if is_copied {
                response = response.with(name, value);
            } else if name == "To" {
                let is_tagged = param(value, "tag").is_some() || status == 100;
                let tag = if is_tagged {
                    String::new()
                } else {
                    format!(";tag={tag}")
                };
                response = response.with("To", format!("{value}{tag}"));
            }
        }
        if (101..300).contains(&status) {
            response = response.with("Contact", format!("<sip:{tag}@{by}>"));
        }
        response
    }
}

impl fmt::Display for Msg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\r\n", self.start)?;
        for (name, value) in &self.headers {
            write!(f, "{name}: {value}\r\n")?;
        }
        f.write_str("Content-Length: 0\r\n\r\n")
    }
}

/// A parameter of a header value.
pub(crate) fn param<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    value.split(';').skip(1).find_map(|param| {
        let (known, value) = param.split_once('=')?;
        (known == name).then_some(value)
    })
}

/// What stands between angle brackets.
pub(crate) fn uri_of(value: &str) -> &str {
    let inside = value.split_once('<').unwrap().1;
    inside.split_once('>').unwrap().0
}

/// A request outside any dialog to `sip:{user}@example.com`; all that identifies it is made of
/// `call`.
pub(crate) fn request(method: &str, from: &str, call: &str) -> Msg {
    let from = from.parse().unwrap();
    Msg::new(from, format!("{method} sip:service@example.com SIP/2.0"))
        .with(
            "Via",
            format!("SIP/2.0/UDP {from};rport;branch=z9hG4bK-{call}-1"),
        )
        .with("Max-Forwards", 70)
        .with("From", format!("<sip:alice@example.com>;tag={call}-caller"))
        .with("To", "<sip:service@example.com>")
        .with("Call-ID", format!("{call}@test"))
        .with("CSeq", format!("1 {method}"))
        .with("Contact", format!("<sip:alice@{from}>"))
}

/// One side of a dialog. RFC 3261 §12
#[derive(Clone, Debug)]
pub(crate) struct Dialog {
    pub(crate) us: SocketAddr,
    call_id: String,
    local: String,
    remote: String,
    target: String,
    pub(crate) routes: Vec<String>,
    pub(crate) cseq: u32,
    invite_cseq: u32,
}

impl Dialog {
    /// The side that sent the request and got the response.
    pub(crate) fn of_caller(request: &Msg, response: &Msg) -> Self {
        let routes = response.all("Record-Route");
        let cseq = request
            .get("CSeq")
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        Self {
            us: request.from,
            call_id: request.get("Call-ID").to_owned(),
            local: request.get("From").to_owned(),
            remote: response.get("To").to_owned(),
            target: uri_of(response.get("Contact")).to_owned(),
            routes: routes.into_iter().rev().map(str::to_owned).collect(),
            cseq,
            invite_cseq: cseq,
        }
    }

    /// The side that got the request and sent the response.
    pub(crate) fn of_callee(request: &Msg, response: &Msg) -> Self {
        let routes = request.all("Record-Route");
        Self {
            us: response.from,
            call_id: request.get("Call-ID").to_owned(),
            local: response.get("To").to_owned(),
            remote: request.get("From").to_owned(),
            target: uri_of(request.get("Contact")).to_owned(),
            routes: routes.into_iter().map(str::to_owned).collect(),
            cseq: 100,
            invite_cseq: 0,
        }
    }

    /// The next request in the dialog. RFC 3261 §12.2.1.1
    pub(crate) fn request(&mut self, method: &str) -> Msg {
        self.cseq += 1;
        self.with_cseq(self.cseq, method)
    }

    /// The ACK for the 2xx of the request that began the dialog. RFC 3261 §13.2.2.4
    pub(crate) fn ack(&self) -> Msg {
        self.with_cseq(self.invite_cseq, "ACK")
    }

    /// The ACK for the 2xx of a request within the dialog.
    pub(crate) fn ack_latest(&self) -> Msg {
        self.with_cseq(self.cseq, "ACK")
    }

    fn with_cseq(&self, number: u32, method: &str) -> Msg {
        let tag = param(&self.local, "tag").unwrap();
        let remote = param(&self.remote, "tag").unwrap_or_default();
        let branch = format!("z9hG4bK-{tag}-{remote}-{number}-{method}");
        let mut message = Msg::new(self.us, format!("{method} {} SIP/2.0", self.target))
            .with(
                "Via",
                format!("SIP/2.0/UDP {};rport;branch={branch}", self.us),
            )
            .with("Max-Forwards", 70)
            .with("From", &self.local)
            .with("To", &self.remote)
            .with("Call-ID", &self.call_id)
            .with("CSeq", format!("{number} {method}"))
            .with("Contact", format!("<sip:{}>", self.us));
        for route in &self.routes {
            message = message.with("Route", route);
        }
        message
    }
}
