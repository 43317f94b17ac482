//! What a WebSocket of any bytes must withstand. Run by the fuzz target and by the tests.

use stream::{Layer, Plain, Said, Why};
use websocket::WebSocket;

pub const MESSAGE_BYTES: usize = 1000;

pub const REQUEST: &str = "GET / HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

/// What a server heard, said, and why it ended.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    pub messages: Vec<Vec<u8>>,
    pub signs: usize,
    pub said: Vec<u8>,
    pub end: Option<Why>,
}

/// A server that is shown bytes in steps.
pub fn serve(bytes: &[u8], step: usize) -> Outcome {
    let mut socket = WebSocket::server(Plain, MESSAGE_BYTES);
    let mut outcome = Outcome::default();
    for piece in bytes.chunks(step) {
        let taken = socket.receive(piece, &mut |said| match said {
            Said::Message(bytes) => outcome.messages.push(bytes.to_vec()),
            Said::Alive => outcome.signs += 1,
            Said::Bytes(_) | Said::Remote(_) => panic!("a WebSocket has messages"),
        });
        socket.write_own(&mut outcome.said);
        // Twice, as memory grows in powers of two, from 8 bytes on.
        assert!(socket.held_bytes() <= 2 * bytes.len().clamp(8, 16_384) + 4 * step);
        if let Err(why) = taken {
            outcome.end = Some(why);
            assert!(!socket.is_open());
            assert_eq!(
                socket.receive(piece, &mut |_| panic!("it is closed")),
                Ok(())
            );
            break;
        }
    }
    outcome
}

/// Shows frames to a server in two ways, and expects the same.
pub fn websocket(frames: &[u8], step: usize) {
    let request = format!("{REQUEST}Sec-WebSocket-Protocol: sip\r\n\r\n");
    let bytes = [request.as_bytes(), frames].concat();
    let whole = serve(&bytes, bytes.len());
    assert_eq!(serve(&bytes, step), whole);
    assert!(
        whole
            .messages
            .iter()
            .all(|message| message.len() <= MESSAGE_BYTES)
    );
    assert!(whole.said.starts_with(b"HTTP/1.1 101 "));
    serve(frames, step);
}
