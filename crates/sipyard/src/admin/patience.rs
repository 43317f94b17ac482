//! Serves connections for as long as their clients do their part.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{Router, serve::Listener};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// How long a client may take for the head of a request, its first and each that follows, and may read nothing of its
/// answer. A connection takes a place, and nobody else has it meanwhile.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Answers the requests of all connections, each until its client takes longer than that.
pub(super) async fn serve(mut listener: impl Listener, routes: Router, patience: Duration) {
    // axum's own server has no timer.
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(patience);
    loop {
        let (stream, _) = listener.accept().await;
        let stream = TokioIo::new(Patient {
            stream,
            patience,
            stalled: None,
        });
        let service = TowerToHyperService::new(routes.clone());
        let connection = server.serve_connection(stream, service);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("admin: a connection ended: {error}");
            }
        });
    }
}

/// A connection that fails if its client reads nothing for too long.
struct Patient<T> {
    stream: T,
    patience: Duration,
    /// There is something to write, and the client takes none of it.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T: Unpin> Patient<T> {
    /// What came of writing, or that it takes too long.
    fn watch<R>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let written = write(Pin::new(&mut self.stream), cx);
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = &mut self.stalled;
        let stalled = stalled.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.watch(cx, |stream, cx| stream.poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watch(cx, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watch(cx, AsyncWrite::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::{body::Body, routing::get};
    use futures_util::stream;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
        sync::oneshot,
        time::timeout,
    };

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(20);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// A connection to a server that answers with this.
    async fn connect(answer: impl FnOnce() -> Body + Send + 'static) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it has one");
        let answer = Arc::new(Mutex::new(Some(answer)));
        let answer = || async move {
            let answer = answer.lock().expect("nobody panics").take();
            answer.map_or_else(Body::empty, |answer| answer())
        };
        let routes = Router::new().route("/", get(answer));
        tokio::spawn(serve(listener, routes, SHORT));
        TcpStream::connect(address).await.expect("it listens")
    }

    /// All that comes until the server closes.
    async fn rest(mut client: TcpStream) -> String {
        let mut rest = String::new();
        let read = timeout(LONG, client.read_to_string(&mut rest)).await;
        read.expect("it is closed").expect("in peace");
        rest
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("the system has room").block_on(test);
    }

    /// Clients that said nothing kept their places for ever: four hosts kept everybody off the admin address.
    #[test]
    fn a_client_that_asks_nothing_is_closed() {
        run(async {
            let silent = connect(Body::empty).await;
            assert_eq!(rest(silent).await, "");
            let mut slow = connect(Body::empty).await;
            slow.write_all(&REQUEST[..20]).await.expect("it is open");
            assert_eq!(rest(slow).await, "");
            let mut idle = connect(Body::empty).await;
            idle.write_all(REQUEST).await.expect("it is open");
            assert!(rest(idle).await.starts_with("HTTP/1.1 200 OK\r\n"));
        });
    }

    #[test]
    fn an_answer_may_take_its_time() {
        run(async {
            let (goes_on, waits) = oneshot::channel::<&str>();
            let answer = || Body::from_stream(stream::once(waits));
            let mut client = connect(answer).await;
            client.write_all(REQUEST).await.expect("it is open");
            let silent = connect(Body::empty).await;
            assert_eq!(rest(silent).await, "");
            goes_on.send("late").expect("it waits");
            assert!(rest(client).await.contains("late"));
        });
    }

    /// A client that read nothing of its answer kept its place for ever.
    #[test]
    fn a_client_that_does_not_read_is_closed() {
        run(async {
            let (guard, is_dropped) = oneshot::channel::<()>();
            let endless = stream::repeat_with(move || {
                let _ = &guard;
                Ok::<_, io::Error>(vec![b'x'; 65_536])
            });
            let mut client = connect(move || Body::from_stream(endless)).await;
            client.write_all(REQUEST).await.expect("it is open");
            let dropped = timeout(LONG, is_dropped).await;
            assert!(dropped.expect("it is closed").is_err());
        });
    }
}
