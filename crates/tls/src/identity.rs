//! Certificates: who they are of, and until when.

use std::{fs, net::IpAddr, path::Path, sync::Arc, time::Duration};

use rustls::{crypto::aws_lc_rs, sign::CertifiedKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject};
use x509_parser::{
    certificate::X509Certificate,
    extensions::GeneralName,
    prelude::{ASN1Time, FromDer},
};

use crate::{Error, Problem};

/// A certificate with its chain and its private key: what we show to peers.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) key: Arc<CertifiedKey>,
    path: Box<Path>,
    names: Names,
    subject: String,
    issuer: String,
    /// When it begins and ends.
    valid: [ASN1Time; 2],
}

/// The names that a certificate has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The hosts of its SIP URIs that name no user, in lower case.
    pub sip: Vec<String>,
    /// Its domain names in lower case, wildcards included.
    pub dns: Vec<String>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

impl Identity {
    /// Reads a chain of certificates, the own one first, and the private key. Both may be in one file.
    ///
    /// # Errors
    /// Which file can't be used, and why. That a certificate is out of date is none:
    /// see [`problem`](Self::problem).
    pub fn load(certificates: &Path, key: &Path) -> Result<Self, Error> {
        let chain = read_certificates(certificates)?;
        let own = parse(&chain[0]);
        let own = own.map_err(|problem| Error::of(certificates, problem))?;
        let (names, valid) = (names(&own), own.validity());
        let (subject, issuer) = (own.subject().to_string(), own.issuer().to_string());
        let valid = [valid.not_before, valid.not_after];
        let private_key = read_key(key)?;
        let signer = aws_lc_rs::sign::any_supported_type(&private_key);
        let signer = signer.map_err(|error| Error::of(key, Problem::BadKey(error.to_string())))?;
        let certified = CertifiedKey::new(chain, signer);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(_) => return Err(Error::of(key, Problem::OtherKey)),
        }
        Ok(Self {
            key: Arc::new(certified),
            path: certificates.into(),
            names,
            subject,
            issuer,
            valid,
        })
    }

    /// The certificate's names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Whom the certificate is of, as it says itself: text of whoever made it.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Who issued it, as it says itself.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The file that it was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When the certificate begins: the time since 1970.
    #[must_use]
    pub fn not_before(&self) -> Duration {
        since_1970(self.valid[0])
    }

    /// When the certificate ends: the time since 1970.
    #[must_use]
    pub fn not_after(&self) -> Duration {
        since_1970(self.valid[1])
    }

    /// What is wrong with the certificate's dates, as of a time since 1970.
    #[must_use]
    pub fn problem(&self, wall: Duration) -> Option<Error> {
        let [from, until] = self.valid;
        let problem = if wall < since_1970(from) {
            Problem::NotYetValid(from.to_string())
        } else if wall > since_1970(until) {
            Problem::Expired(until.to_string())
        } else {
            return None;
        };
        Some(Error::of(&self.path, problem))
    }
}

impl Names {
    /// The names in a certificate that a peer has shown.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        parse(certificate).map_or_else(|_| Self::default(), |certificate| names(&certificate))
    }

    /// The SIP domains that they prove. RFC 5922 §7.1: domain names count only where no SIP URI is.
    #[must_use]
    pub fn domains(&self) -> &[String] {
        if self.sip.is_empty() {
            &self.dns
        } else {
            &self.sip
        }
    }

    /// Whether they prove this SIP domain, or address. RFC 5922 §7.2: wildcards and suffixes prove nothing.
    #[must_use]
    pub fn prove(&self, domain: &str) -> bool {
        if let Ok(ip) = domain.parse::<IpAddr>() {
            return self.addresses.contains(&ip);
        }
        let domain = domain.strip_suffix('.').unwrap_or(domain);
        let mut domains = self.domains().iter();
        domains.any(|name| name.eq_ignore_ascii_case(domain))
    }
}

/// Reads all certificates of a file; there is at least one.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| not_pem(path, &error))?;
    if certificates.is_empty() {
        return Err(Error::of(path, Problem::NoCertificate));
    }
    Ok(certificates)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound if contains(&text, b"ENCRYPTED") => {
            Error::of(path, Problem::EncryptedKey)
        }
        pem::Error::NoItemsFound => Error::of(path, Problem::NoKey),
        error => not_pem(path, &error),
    })
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| Error::of(path, Problem::Unreadable(error)))
}

pub(crate) fn not_pem(path: &Path, error: &pem::Error) -> Error {
    Error::of(path, Problem::NotPem(error.to_string()))
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Problem> {
    match X509Certificate::from_der(certificate) {
        Ok((_, certificate)) => Ok(certificate),
        Err(error) => Err(Problem::BadCertificate(error.to_string())),
    }
}

fn names(certificate: &X509Certificate<'_>) -> Names {
    let mut names = Names::default();
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else {
        return names;
    };
    for name in &alternatives.value.general_names {
        match name {
            GeneralName::URI(uri) => names.sip.extend(sip_host(uri)),
            GeneralName::DNSName(name) => names.dns.push(name.to_ascii_lowercase()),
            GeneralName::IPAddress(bytes) => names.addresses.extend(address(bytes)),
            _ => {}
        }
    }
    names
}

/// The host of a SIP URI that names no user. RFC 5922 §7.1
fn sip_host(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once(':')?;
    let is_domain = scheme.eq_ignore_ascii_case("sip") && !rest.contains('@');
    let host = rest.split([':', ';', '?']).next()?;
    (is_domain && !host.is_empty()).then(|| host.to_ascii_lowercase())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

fn since_1970(time: ASN1Time) -> Duration {
    Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sip_uris_name_domains() {
        let cases = [
            ("sip:Example.com", Some("example.com")),
            ("SIP:example.com:5061;transport=tls", Some("example.com")),
            ("sip:bob@example.com", None),
            ("sips:example.com", None),
            ("https://example.com", None),
            ("sip:", None),
        ];
        for (uri, host) in cases {
            assert_eq!(sip_host(uri).as_deref(), host, "{uri}");
        }
    }
}
