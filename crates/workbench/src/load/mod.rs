//! `sipyard load`: makes calls, registers phones, or emulates servers, and measures.

mod call;
mod carrier;
mod credentials;
mod drive;
mod ends;
mod html;
mod outcome;
mod peak;
mod refusal;
mod register;
mod serve;
mod signals;
mod sipstone;
mod sockets;
mod values;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use settings::refuse;

use self::refusal::Refusal;

/// Make calls, register phones, or emulate servers, and measure
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard load serve --address 127.0.0.1:7000 --servers 4
  sipyard load call --to 127.0.0.1:5060 --rate 1000 --duration 30s
  sipyard load register --to 127.0.0.1:5060 --users 10000 --rate 500
  sipyard load sipstone proxy-200 --to 127.0.0.1:5060 --users 1000")]
pub struct Load {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Call(Box<call::Call>),
    Register(Box<register::Register>),
    Serve(Box<serve::Serve>),
    Sipstone(sipstone::Sipstone),
}

impl Load {
    /// Runs to the end of the load or until a signal, and returns the exit code.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        let outcome = match &self.what {
            What::Call(call) => call.run(),
            What::Register(register) => register.run(),
            What::Serve(serve) => serve.run(),
            What::Sipstone(sipstone) => sipstone.run(),
        };
        match outcome {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(Refusal::File(problems)) => refuse(problems),
            Err(Refusal::Arguments(text)) => refuse([format!("sipyard load: {text}")]),
            Err(Refusal::System(error)) => {
                // With nowhere to say why, the exit code still tells.
                let _ = writeln!(io::stderr(), "sipyard load: {error}");
                ExitCode::FAILURE
            }
        }
    }
}
