//! What the DNS says that carries messages.

/// What carries messages to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A stream.
    Tcp,
    /// A stream that nobody else can read.
    Tls,
}

impl Transport {
    /// All of them, those first that are tried first if the DNS does not say.
    pub(crate) const ALL: [Self; 3] = [Self::Udp, Self::Tcp, Self::Tls];

    /// Its service in NAPTR records. RFC 3263 §4.1
    pub(crate) const fn in_naptr(self) -> &'static str {
        ["SIP+D2U", "SIP+D2T", "SIPS+D2T"][self as usize]
    }

    /// What the names of its SRV records begin with. RFC 3263 §4.2
    pub(crate) const fn in_srv(self) -> &'static str {
        ["_sip._udp", "_sip._tcp", "_sips._tcp"][self as usize]
    }

    /// The port of a server without SRV records.
    pub(crate) const fn default_port(self) -> u16 {
        [5060, 5060, 5061][self as usize]
    }
}
