use std::{borrow::Cow, net::SocketAddr, time::Duration};

use transaction::Transport;

use crate::{Rate, Retransmission, Stream, template::User};

/// The phones that register.
#[derive(Clone, Debug)]
pub struct PhonesConfig {
    /// The addresses to register from, in turn. They are in Via.
    pub sockets: Vec<SocketAddr>,
    /// What carries the messages. It is in Via and Contact.
    pub transport: Transport,
    /// The contacts that the phones register, in turn.
    pub contacts: Vec<SocketAddr>,
    /// The address that gets the REGISTERs.
    pub registrar: SocketAddr,
    /// The domain of the users.
    pub domain: String,
    /// The users of the phones.
    pub accounts: Accounts,
    /// Which phone registers next.
    pub turns: Turns,
    /// How many phones register per second.
    pub rate: Rate,
    /// How their turns are spaced.
    pub stream: Stream,
    /// The expiry that REGISTERs ask for, in whole seconds.
    pub expires: Duration,
    /// The share of the granted time after which a phone registers again.
    pub refresh: f64,
    /// Whether requests are retransmitted.
    pub retransmission: Retransmission,
}

/// Users who have a phone each.
#[derive(Clone, Debug)]
pub enum Accounts {
    /// `user-0`, `user-1` and so on.
    Numbered {
        /// How many there are; at least 1.
        users: u32,
        /// Their passwords, with the user's name where `{user}` stands; none: they have none.
        password: Option<String>,
    },
    /// These, at least one.
    Listed(Vec<Account>),
}

/// A user with a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user part of the URI and the user name for authentication. It must need no escapes in
    /// either.
    pub user: String,
    /// The password, for digest authentication (RFC 7616).
    pub password: String,
}

/// How phones take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Each phone comes up once, registers again before its time is over, and may leave later.
    Once,
    /// Each turn a user is drawn, and a new phone of theirs registers once. That is SIPstone's test of
    /// registrars.
    Drawn,
}

impl Accounts {
    /// This many users without passwords.
    #[must_use]
    pub fn open(users: u32) -> Self {
        Self::Numbered {
            users,
            password: None,
        }
    }

    /// How many users there are.
    #[must_use]
    pub fn users(&self) -> u32 {
        match self {
            Self::Numbered { users, .. } => *users,
            Self::Listed(accounts) => u32::try_from(accounts.len()).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn user(&self, number: u32) -> User<'_> {
        match self {
            Self::Numbered { .. } => User::Numbered(number),
            Self::Listed(accounts) => User::Named(&accounts[number as usize].user),
        }
    }

    pub(super) fn password(&self, number: u32) -> Option<Cow<'_, str>> {
        match self {
            Self::Numbered { password, .. } => {
                let name = self.user(number).to_string();
                Some(password.as_ref()?.replace("{user}", &name).into())
            }
            Self::Listed(accounts) => Some((&*accounts[number as usize].password).into()),
        }
    }
}
