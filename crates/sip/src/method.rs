//! Methods.

/// A request's method (RFC 3261 §7.1); methods are case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Method<'a> {
    Invite,
    Ack,
    Bye,
    Cancel,
    Options,
    Register,
    Prack,
    Update,
    Info,
    Subscribe,
    Notify,
    Refer,
    Message,
    Publish,
    /// Any other token.
    Other(&'a [u8]),
}

impl<'a> Method<'a> {
    /// The method with this name.
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        match bytes {
            b"INVITE" => Self::Invite,
            b"ACK" => Self::Ack,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"OPTIONS" => Self::Options,
            b"REGISTER" => Self::Register,
            b"PRACK" => Self::Prack,
            b"UPDATE" => Self::Update,
            b"INFO" => Self::Info,
            b"SUBSCRIBE" => Self::Subscribe,
            b"NOTIFY" => Self::Notify,
            b"REFER" => Self::Refer,
            b"MESSAGE" => Self::Message,
            b"PUBLISH" => Self::Publish,
            _ => Self::Other(bytes),
        }
    }

    /// The name of the method, as in a message.
    pub const fn as_bytes(&self) -> &'a [u8] {
        match self {
            Self::Invite => b"INVITE",
            Self::Ack => b"ACK",
            Self::Bye => b"BYE",
            Self::Cancel => b"CANCEL",
            Self::Options => b"OPTIONS",
            Self::Register => b"REGISTER",
            Self::Prack => b"PRACK",
            Self::Update => b"UPDATE",
            Self::Info => b"INFO",
            Self::Subscribe => b"SUBSCRIBE",
            Self::Notify => b"NOTIFY",
            Self::Refer => b"REFER",
            Self::Message => b"MESSAGE",
            Self::Publish => b"PUBLISH",
            Self::Other(bytes) => bytes,
        }
    }
}
