//! Tokens for the admin API on TCP, and `sipyard token`, which makes them.

use std::{
    fmt::Write as _,
    io::{self, Write},
    process::ExitCode,
    str::FromStr,
};

use clap::Args;
use rustix::rand::{GetRandomFlags, getrandom};
use settings::value::choice;
use sha2::{Digest, Sha256};

/// The length of a SHA-256 hash in hexadecimal digits.
const HASH_DIGITS: usize = 64;
const TOKEN_BYTES: usize = 32;

/// What a client of the admin API may do. A later role may do all that an earlier one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Read the status and the metrics, and ask for explanations.
    Read,
    /// Change the node, and read and change its users.
    Operate,
}

impl Role {
    const ALL: [(Self, &'static str); 2] = [(Self::Read, "read"), (Self::Operate, "operate")];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        choice("role", text, &Self::ALL.map(|(role, name)| (name, role)))
    }
}

/// A token as the configuration has it: the role, and the hash of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) role: Role,
    /// SHA-256 in lower-case hexadecimal digits. The texts are long and random, so nothing can be
    /// guessed from it.
    hash: String,
}

impl Token {
    fn of(role: Role, text: &[u8]) -> Self {
        let hash = hex(&Sha256::digest(text));
        Self { role, hash }
    }

    /// The beginning of its hash, by which the log tells tokens apart.
    pub(crate) fn beginning(&self) -> &str {
        &self.hash[..8]
    }

    /// Whether this is the token's text.
    pub(crate) fn is(&self, text: &[u8]) -> bool {
        Self::of(self.role, text) == *self
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (role, hash) = text.split_once(':').unwrap_or_default();
        if hash.len() != HASH_DIGITS || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(
                "expected ROLE:HASH, as `sipyard token ROLE` prints it beside the token".into(),
            );
        }
        Ok(Self {
            role: role.parse()?,
            hash: hash.to_ascii_lowercase(),
        })
    }
}

/// Make a token for the admin API: role read, or operate, which may change the node and its users
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard token read
  SIPYARD_TOKEN=TOKEN sipyard ctl --admin http://10.0.0.2:8060 status
  curl -H 'Authorization: Bearer TOKEN' http://10.0.0.2:8060/metrics

The configuration gets only the hash of the token. On the node's own machine, `sipyard ctl` and
`sipyard user` need no token: they use the Unix socket. Without `tls` in [admin] tokens go over the
network in the clear: then use them on closed networks or through a tunnel.")]
pub(crate) struct MakeToken {
    /// read or operate
    role: Role,
}

impl MakeToken {
    /// Prints a new token and the line of the configuration that lets it in.
    pub(crate) fn run(&self) -> ExitCode {
        match self.make() {
            Ok(text) => {
                // A reader that has gone away wants no token.
                let _ = write!(io::stdout(), "{text}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                let _ = writeln!(io::stderr(), "can't make a token: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn make(&self) -> io::Result<String> {
        let mut bytes = [0; TOKEN_BYTES];
        if getrandom(&mut bytes[..], GetRandomFlags::empty())? < TOKEN_BYTES {
            return Err(io::Error::other("the system has too few random bytes"));
        }
        let text = hex(&bytes);
        let Token { role, hash } = Token::of(self.role, text.as_bytes());
        Ok(format!(
            "the token, for the client: {text}\n\
             in [admin] of the node's configuration: tokens = [\"{}:{hash}\"]\n",
            role.as_str()
        ))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `printf secret | sha256sum`.
    const HASH: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    #[test]
    fn a_token_is_known_by_its_hash() {
        for hash in [HASH.to_owned(), HASH.to_ascii_uppercase()] {
            let token: Token = format!("operate:{hash}").parse().unwrap();
            assert_eq!(token.role, Role::Operate);
            assert!(token.is(b"secret"));
            assert!(!token.is(b"secrets") && !token.is(b"") && !token.is(HASH.as_bytes()));
        }
        let short = &HASH[1..];
        for text in [
            "",
            HASH,
            "read:",
            &format!("read:{short}"),
            &format!("write:{HASH}"),
        ] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
