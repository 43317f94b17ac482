//! Where datagrams come from.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

/// An IPv4 address, or an IPv6 network of 64 bits: one host or site has at least so many addresses.
/// RFC 6177
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source(IpAddr);

const INTERFACE_BITS: u32 = 64;

impl Source {
    /// Its address; of an IPv6 network the first.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.0
    }

    /// Its address as 16 bytes, no other source's.
    #[must_use]
    pub fn octets(self) -> [u8; 16] {
        match self.0 {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        }
    }
}

impl From<IpAddr> for Source {
    fn from(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V6(ip) => {
                let network = ip.to_bits() >> INTERFACE_BITS << INTERFACE_BITS;
                Self(Ipv6Addr::from_bits(network).into())
            }
            ip => Self(ip),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(ip) => write!(f, "{ip}"),
            IpAddr::V6(ip) => write!(f, "{ip}/{INTERFACE_BITS}"),
        }
    }
}

impl FromStr for Source {
    type Err = std::net::AddrParseError;

    /// Reads an address, or a network as it is displayed.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_network = text.contains(':') && text.ends_with("/64");
        let address = text.strip_suffix("/64").filter(|_| is_network);
        Ok(address.unwrap_or(text).parse::<IpAddr>()?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_source_is_a_network_of_64_bits() {
        for (address, source) in [
            ("203.0.113.9", "203.0.113.9"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("2001:db8:1:2::/64", "2001:db8:1:2::/64"),
            ("::1", "::/64"),
        ] {
            let read: Source = address.parse().unwrap();
            assert_eq!(read.to_string(), source, "{address}");
            assert_eq!(source.parse(), Ok(read));
        }
        for bad in ["", "203.0.113.9/64", "2001:db8::/48", "all"] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }
}
