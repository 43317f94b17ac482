//! `sipyard init`: writes a first configuration, from four answers.

use std::{
    fs::{self, OpenOptions},
    io::{self, BufRead, IsTerminal, Write},
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use rustix::rand::{GetRandomFlags, getrandom};
use settings::{Problem, refuse};

use crate::config;

const SECRET_BYTES: usize = 32;

/// Write a first configuration: asks four questions, or takes the answers as options
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard init
  sipyard init --role edge --listen 192.0.2.10:5060 --servers 10.0.0.11:5060,10.0.0.12:5060 --probe yes
  sipyard init --role registrar --listen 192.0.2.10:5060 --domains example.com --store memory

It also writes a new secret beside the configuration, and overwrites nothing.
Exit code: 0 if both are written, 2 if an answer is missing or wrong.")]
pub(crate) struct Init {
    /// What the node does
    #[arg(long)]
    role: Option<Role>,
    /// Where it listens
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<SocketAddr>,
    /// The servers that take the calls of an edge
    #[arg(long, value_name = "SERVER", value_delimiter = ',')]
    servers: Vec<String>,
    /// Whether they answer OPTIONS
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    probe: Option<bool>,
    /// The domains of a registrar's users
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',')]
    domains: Vec<String>,
    /// Where a registrar keeps users and phones: file:PATH, redis://HOST:PORT or memory
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Where to write the configuration
    #[arg(long, value_name = "FILE", default_value = "sipyard.toml")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    /// It places calls on servers
    Edge,
    /// Phones register with it, and it calls them
    Registrar,
}

impl Init {
    pub(crate) fn run(self) -> ExitCode {
        let out = self.out.clone();
        match self.write() {
            Ok(next) => {
                // A reader that has gone away wants no more lines.
                let _ = write!(io::stdout(), "{next}");
                ExitCode::SUCCESS
            }
            Err(problem) => refuse([format!("{}: {problem}", out.display())]),
        }
    }

    fn write(self) -> Result<String, String> {
        if self.out.exists() {
            return Err("the file is there: choose another by --out, or remove it".to_owned());
        }
        let role = match self.role {
            Some(role) => role,
            None => ask(
                "--role",
                "What does this node do, edge or registrar?",
                "edge",
            )
            .and_then(|text| Role::from_str(&text, true))?,
        };
        let listen = match self.listen {
            Some(address) => address,
            None => ask("--listen", "Where does it listen?", &own_address())?
                .parse()
                .map_err(|_| "that is not IP:PORT, such as 192.0.2.10:5060".to_owned())?,
        };
        let body = match role {
            Role::Edge => edge(self.servers, self.probe)?,
            Role::Registrar => registrar(self.domains, self.store)?,
        };
        let text = format!("{}{body}", head(role, listen));
        write_new(&self.out, &text)?;
        let secret = self.out.with_file_name("secret");
        let is_new = write_secret(&secret)?;
        match config::load(&self.out) {
            Ok(_) => Ok(next(role, &self.out)),
            Err(problems) => {
                let told: Vec<&str> = problems.iter().map(Problem::message).collect();
                for file in [Some(&self.out), is_new.then_some(&secret)] {
                    let removed = file.map_or(Ok(()), fs::remove_file);
                    removed.map_err(|error| error.to_string())?;
                }
                Err(told.join("\n"))
            }
        }
    }
}

fn head(role: Role, listen: SocketAddr) -> String {
    let name = match role {
        Role::Edge => "edge-1",
        Role::Registrar => "registrar-1",
    };
    let advertise = match listen.ip().is_unspecified() {
        true => format!(
            "advertise = \"{}\"  # what others reach; an address of this machine\n",
            own_address().replace(":5060", &format!(":{}", listen.port()))
        ),
        false => String::new(),
    };
    format!(
        "# Every key, with its unit, default and reason, is in the reference; `sipyard check` finds mistakes.\n\n\
         [node]\nname = \"{name}\"\nsecret = \"file:secret\"  # nodes that back each other up have the same\n\n\
         [[listen]]\ntransport = \"udp\"\naddress = \"{listen}\"\n{advertise}"
    )
}

fn edge(servers: Vec<String>, probe: Option<bool>) -> Result<String, String> {
    let servers = given(
        servers,
        "--servers",
        "Which servers take the calls? (IP:PORT, with commas)",
    )?;
    let probe = match probe {
        Some(probe) => probe,
        None => yes_or_no(&ask(
            "--probe",
            "Do they answer OPTIONS, yes or no?",
            "yes",
        )?)?,
    };
    let servers: Vec<String> = servers
        .iter()
        .map(|server| {
            format!(
                "    {{ address = {server:?} }},  # capacity = 2.0 for one that is twice as fast\n"
            )
        })
        .collect();
    let probe = match probe {
        true => "",
        false => "probe = false  # calls alone tell which server is down\n",
    };
    Ok(format!(
        "\n[pool.app]\npolicy = \"tlwl\"  # the least work left\nservers = [\n{}]\n{probe}\n\
         [[route]]  # the first that matches wins; this one takes all\nto = \"app\"\n",
        servers.concat()
    ))
}

fn registrar(domains: Vec<String>, store: Option<String>) -> Result<String, String> {
    let domains = given(domains, "--domains", "Which domains have the users?")?;
    let store = match store {
        Some(store) => store,
        None => ask(
            "--store",
            "Where are users and phones kept?",
            "file:location.db",
        )?,
    };
    Ok(format!(
        "\n[registrar]\ndomains = {domains:?}\nstore = {store:?}  # `sipyard user add` adds users\n\n\
         [[route]]\nhosts = {domains:?}\nto = \"registrar\"\n"
    ))
}

fn next(role: Role, out: &Path) -> String {
    let out = out.display();
    let last = match role {
        Role::Edge => "Then point your callers at the listener.".to_owned(),
        Role::Registrar => format!("Add users by: sipyard user add --config {out} USER@DOMAIN"),
    };
    format!(
        "wrote {out} and a secret beside it. Next:\n  sipyard check {out}\n  \
         sipyard serve --config {out}\n  sipyard ctl status\n{last}\n"
    )
}

fn given(list: Vec<String>, option: &str, question: &str) -> Result<Vec<String>, String> {
    if !list.is_empty() {
        return Ok(list);
    }
    let answer = ask(option, question, "")?;
    let items = answer.split([',', ' ']).filter(|item| !item.is_empty());
    Ok(items.map(str::to_owned).collect())
}

/// Asks on the terminal. Without one, the option must be there.
fn ask(option: &str, question: &str, default: &str) -> Result<String, String> {
    if !io::stdin().is_terminal() {
        return Err(format!(
            "{question} Write {option}: there is no terminal to ask on"
        ));
    }
    let shown = match default {
        "" => String::new(),
        default => format!(" [{default}]"),
    };
    let mut out = io::stderr().lock();
    let asked = write!(out, "{question}{shown} ").and_then(|()| out.flush());
    asked.map_err(|error| error.to_string())?;
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| error.to_string())?;
    Ok(match line.trim() {
        "" => default.to_owned(),
        answer => answer.to_owned(),
    })
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "y" => Ok(true),
        "no" | "n" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

/// The address from which this machine would send to the internet; nothing is sent.
fn own_address() -> String {
    let found = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 5060))?;
        socket.local_addr()
    });
    let ip = found.map_or_else(|_| Ipv4Addr::LOCALHOST.into(), |address| address.ip());
    SocketAddr::new(ip, 5060).to_string()
}

/// Writes a file that is not there yet.
pub(crate) fn write_new(path: &Path, text: &str) -> Result<(), String> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a new secret that only this user can read, unless there is one; whether it did.
pub(crate) fn write_secret(path: &Path) -> Result<bool, String> {
    if path.exists() {
        return Ok(false);
    }
    let mut random = [0; SECRET_BYTES];
    getrandom(&mut random, GetRandomFlags::empty()).map_err(|error| error.to_string())?;
    let digits: Vec<String> = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    file.and_then(|mut file| writeln!(file, "{}", digits.concat()))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(true)
}
