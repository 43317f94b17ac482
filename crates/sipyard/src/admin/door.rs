//! Takes the connections of the admin API on TCP: by TLS or in the clear, as the configuration in force says.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::places::Place;
use crate::{serve::Control, view::Refused};

/// Clients that are in their handshake at a time. Others wait in the kernel's queue.
const HANDSHAKES_MAX: usize = 256;
/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// The pause when the system has no descriptors.
const PAUSE: Duration = Duration::from_secs(1);
/// What TLS begins with: a handshake record. RFC 8446 §5.1
const HANDSHAKE_RECORD: u8 = 22;
/// As much of a request in the clear is read, so that its client reads the answer.
const REQUEST_BYTES: u64 = 64 * 1024;

/// A connection that requests may come by.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// A connection that has a place.
pub(super) struct Seated {
    stream: Box<dyn Connection>,
    _place: Place,
}

/// Hands over the connections whose handshake is done.
pub(super) struct Door {
    entered: mpsc::Receiver<(Seated, SocketAddr)>,
    address: SocketAddr,
}

impl Door {
    /// Takes the listener's connections from now on.
    pub(super) fn open(control: &Arc<Control>, listener: TcpListener) -> Self {
        let (sender, entered) = mpsc::channel(1);
        let address = control.admin().address;
        tokio::spawn(let_in(Arc::clone(control), listener, sender));
        Self { entered, address }
    }
}

impl Listener for Door {
    type Io = Seated;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        match self.entered.recv().await {
            Some(entered) => entered,
            // It goes on as long as the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn let_in(
    control: Arc<Control>,
    listener: TcpListener,
    sender: mpsc::Sender<(Seated, SocketAddr)>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(handshake) = Arc::clone(&handshakes).acquire_owned().await else {
            return;
        };
        let (stream, remote) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_of_peer(&error) => continue,
            Err(_) => {
                sleep(PAUSE).await;
                continue;
            }
        };
        let Some(place) = control.places().take(remote.ip()) else {
            tracing::debug!("admin: {remote} did not get in: too many are there");
            continue;
        };
        let (control, sender) = (Arc::clone(&control), sender.clone());
        tokio::spawn(async move {
            let entered = timeout(HANDSHAKE_MAX, enter(&control, stream)).await;
            drop(handshake);
            match entered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                // The receiver lives as long as the runtime.
                Ok(stream) => {
                    let seated = Seated {
                        stream,
                        _place: place,
                    };
                    drop(sender.send((seated, remote)).await);
                }
                Err(error) => tracing::debug!("admin: {remote} did not get in: {error}"),
            }
        });
    }
}

impl AsyncRead for Seated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Seated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Whether the peer has gone away, rather than that the system lacks something.
fn is_of_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// The connection as requests come by it.
async fn enter(control: &Control, mut stream: TcpStream) -> io::Result<Box<dyn Connection>> {
    let admin = control.admin();
    let Some(server) = admin.tls else {
        return Ok(Box::new(stream));
    };
    let mut first = [0];
    stream.peek(&mut first).await?;
    if first[0] != HANDSHAKE_RECORD {
        refuse(&mut stream).await?;
        return Err(io::Error::other("it speaks no TLS"));
    }
    let acceptor = TlsAcceptor::from(server.config());
    Ok(Box::new(acceptor.accept(stream).await?))
}

/// Tells somebody who speaks HTTP what is spoken here.
async fn refuse(stream: &mut TcpStream) -> io::Result<()> {
    let address = stream.local_addr()?;
    let problem = format!("this address speaks HTTPS alone: write https://{address}");
    let problems = vec![problem];
    let body = serde_json::to_string(&Refused { problems }).unwrap_or_default();
    let length = body.len() + 1;
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}\n"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(REQUEST_BYTES);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}
