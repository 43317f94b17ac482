//! What is wrong with the files that the operator named.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// A file that can't be used: which, why, and what helps.
#[derive(Debug)]
pub struct Error {
    /// The file; none for what is not in one.
    pub path: Option<PathBuf>,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The file can't be read.
    Unreadable(io::Error),
    /// The file is not PEM.
    NotPem(String),
    /// There is no certificate in the file.
    NoCertificate,
    /// A certificate can't be understood.
    BadCertificate(String),
    /// There is no private key in the file.
    NoKey,
    /// The private key needs a password.
    EncryptedKey,
    /// The private key can't be used.
    BadKey(String),
    /// The private key is that of another certificate.
    OtherKey,
    /// The certificate is not valid any more, since this date.
    Expired(String),
    /// The certificate is not valid before this date.
    NotYetValid(String),
    /// The system has no certificates that could be trusted.
    NoRoots(String),
    /// A list of revoked certificates can't be understood.
    BadRevocations(String),
    /// A server's name is neither a domain nor an address.
    BadName(String),
    /// There is no certificate to show to clients.
    NoIdentity,
    /// What rustls says.
    Other(String),
}

impl Error {
    pub(crate) fn of(path: &Path, problem: Problem) -> Self {
        Self {
            path: Some(path.to_owned()),
            problem,
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self {
            path: None,
            problem,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        self.problem.fmt(f)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => {
                write!(f, "can't be read: {error}; ")?;
                f.write_str(match error.kind() {
                    io::ErrorKind::PermissionDenied => "let the node's user read it",
                    io::ErrorKind::NotFound => "check the path",
                    _ => "check the file",
                })
            }
            Self::NotPem(why) => write!(f, "is not PEM ({why}); convert it, as with `openssl x509 -inform der`"),
            Self::NoCertificate => f.write_str(
                "has no certificate; it must have a section that begins with -----BEGIN CERTIFICATE-----",
            ),
            Self::BadCertificate(why) => {
                write!(f, "has a certificate that can't be understood ({why}); have it issued again")
            }
            Self::NoKey => f.write_str(
                "has no private key; it must have a section that begins with -----BEGIN PRIVATE KEY-----",
            ),
            Self::EncryptedKey => f.write_str(
                "has a private key that needs a password; decrypt it, as with `openssl pkey`, and protect the file",
            ),
            Self::BadKey(why) => {
                write!(f, "has a private key that can't be used ({why}); RSA, ECDSA and Ed25519 can be")
            }
            Self::OtherKey => f.write_str("has a private key that is not the certificate's; name the key that it was issued for"),
            Self::Expired(date) => write!(f, "has a certificate that expired on {date}; renew it"),
            Self::NotYetValid(date) => {
                write!(f, "has a certificate that is not valid before {date}; check the clock")
            }
            Self::NoRoots(why) => {
                write!(f, "the system has no certificates to trust ({why}); install ca-certificates, or name a file")
            }
            Self::BadRevocations(why) => {
                write!(f, "has no list of revoked certificates that can be understood ({why}); it must be X509 CRL in PEM")
            }
            Self::BadName(name) => write!(f, "\"{name}\" is neither a domain nor an address"),
            Self::NoIdentity => f.write_str("there is no certificate to show; name at least one"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}
