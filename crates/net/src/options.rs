//! How UDP sockets are set up.

use socket::udp::Options;

/// The size of each socket's receive buffer, if the system grants it: about 3,500 messages by the
/// kernel's count. This covers 30 ms in which a busy worker gets no core.
const RECV_BUFFER_BYTES: usize = 4 << 20;

/// The size of each socket's send buffer, if the system grants it.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// The options of all UDP sockets.
pub(crate) fn udp_options() -> Options {
    Options {
        recv_buffer: Some(RECV_BUFFER_BYTES),
        send_buffer: Some(SEND_BUFFER_BYTES),
        ..Options::default()
    }
}
