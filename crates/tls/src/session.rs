//! One TLS session, as a layer of a connection.

use std::{
    fmt,
    io::{BufRead, Write},
    sync::Arc,
    time::Duration,
};

use rustls::{
    AlertDescription, CertificateError, Connection, HandshakeKind, time_provider::TimeProvider,
};
use rustls_pki_types::UnixTime;
use stream::{Layer, Said, Why};

use crate::Names;

/// How many bytes rustls may hold back in a session: one message fits, as it is taken out at once.
const BUFFER_BYTES: usize = 80 * 1024;

/// A record's type, version and length. RFC 8446 §5.1
const HEAD_BYTES: usize = 5;

/// Tells the time since 1970.
pub type Wall = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A TLS session with a peer.
pub struct Session {
    connection: Box<Connection>,
    records: Records,
    error: Option<Box<rustls::Error>>,
}

/// How much has come of a record that is not whole, which rustls keeps and does not tell.
#[derive(Default)]
struct Records {
    head: [u8; HEAD_BYTES],
    /// Bytes of the record so far, its head included.
    come: usize,
}

impl Session {
    pub(crate) fn new(mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(BUFFER_BYTES));
        let connection = Box::new(connection);
        Self {
            connection,
            records: Records::default(),
            error: None,
        }
    }

    /// The names in the certificate that the peer has proved to own; none if it showed none.
    #[must_use]
    pub fn peer(&self) -> Option<Names> {
        let certificates = self.connection.peer_certificates()?;
        certificates.first().map(Names::of)
    }

    /// Whether the handshake was spared by what a former session has left.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The protocol's version, for people; none before the handshake.
    #[must_use]
    pub fn version(&self) -> Option<&'static str> {
        self.connection.protocol_version()?.as_str()
    }

    /// Tells what has been decrypted.
    fn tell(&mut self, heard: &mut impl FnMut(Said<'_>)) {
        let mut reader = self.connection.reader();
        // An error says that there is nothing more.
        while let Ok(bytes @ [_, ..]) = reader.fill_buf() {
            heard(Said::Bytes(bytes));
            let length = bytes.len();
            reader.consume(length);
        }
    }

    fn fail(&mut self, error: rustls::Error) -> Why {
        let why = match &error {
            rustls::Error::InvalidCertificate(_)
            | rustls::Error::NoCertificatesPresented
            | rustls::Error::InvalidCertRevocationList(_) => Why::Certificate,
            rustls::Error::AlertReceived(alert) if is_of_certificate(*alert) => Why::Certificate,
            _ => Why::Tls,
        };
        self.error = Some(Box::new(error));
        why
    }
}

impl Records {
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let length = self.length();
            let (next, rest) = bytes.split_at(bytes.len().min(length - self.come));
            if let Some(head) = self.head.get_mut(self.come..self.come + next.len()) {
                head.copy_from_slice(next);
            }
            self.come += next.len();
            if self.come >= HEAD_BYTES && self.come == self.length() {
                self.come = 0;
            }
            bytes = rest;
        }
    }

    /// The length of the record, or of its head as long as that is not whole.
    fn length(&self) -> usize {
        let [.., high, low] = self.head;
        match self.come {
            ..HEAD_BYTES => HEAD_BYTES,
            _ => HEAD_BYTES + usize::from(u16::from_be_bytes([high, low])),
        }
    }
}

impl Layer for Session {
    fn receive(&mut self, bytes: &[u8], heard: &mut impl FnMut(Said<'_>)) -> Result<(), Why> {
        self.records.take(bytes);
        let mut rest = bytes;
        while !rest.is_empty() {
            let read = self.connection.read_tls(&mut rest);
            // An error says that rustls holds more than it wants to.
            if read.map_err(|_| Why::Tls)? == 0 {
                break;
            }
            let state = self.connection.process_new_packets();
            self.tell(heard);
            match state {
                Ok(state) if state.peer_has_closed() => return Err(Why::Peer),
                Ok(_) => {}
                Err(error) => return Err(self.fail(error)),
            }
        }
        Ok(())
    }

    fn send(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<(), Why> {
        let written = self.connection.writer().write_all(message);
        written.map_err(|_| Why::Tls)?;
        self.write_own(wire);
        Ok(())
    }

    fn write_own(&mut self, wire: &mut Vec<u8>) {
        while self.connection.wants_write() {
            let written = self.connection.write_tls(wire);
            written.expect("a Vec takes all");
        }
    }

    fn is_open(&self) -> bool {
        !self.connection.is_handshaking()
    }

    fn close(&mut self, wire: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.write_own(wire);
    }

    fn held_bytes(&self) -> usize {
        self.records.come
    }

    fn detail(&self) -> Option<String> {
        self.error.as_deref().map(explain)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Session");
        debug.field("error", &self.error).finish_non_exhaustive()
    }
}

/// What rustls is told of the time.
pub(crate) struct Clock(pub(crate) Wall);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch((self.0)()))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

const fn is_of_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
    )
}

/// What went wrong, in words that say who can mend it.
fn explain(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(of) => explain_certificate(of),
        rustls::Error::NoCertificatesPresented => {
            "the peer showed no certificate, and one is required".to_owned()
        }
        rustls::Error::AlertReceived(alert) if is_of_certificate(*alert) => {
            format!("the peer refuses our certificate: {alert:?}")
        }
        rustls::Error::AlertReceived(alert) => format!("the peer ended the handshake: {alert:?}"),
        rustls::Error::PeerIncompatible(why) => {
            format!("the peer's TLS and ours have nothing in common: {why:?}")
        }
        rustls::Error::InvalidMessage(_) => "what the peer sends is not TLS".to_owned(),
        other => other.to_string(),
    }
}

fn explain_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the peer's certificate has expired: it must be renewed there".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the peer's certificate is not valid yet: check both clocks".to_owned()
        }
        CertificateError::Revoked => "the peer's certificate was revoked".to_owned(),
        // An authority may have the name of another.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the peer's certificate was issued by an authority that is not trusted here".to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => format!(
            "the peer's certificate is not of {}, but of: {}",
            expected.to_str(),
            presented.join(", ")
        ),
        other => format!("the peer's certificate is not good: {other:?}"),
    }
}
