//! What is measured: the floor, Kamailio, Sipyard; how each is set up.

use std::{
    env, fs, io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::process::Process;

/// The core of the program that is measured.
pub(crate) const CORE: usize = 0;

/// The core of the load.
pub(crate) const CORE_OF_LOAD: usize = 1;

/// Names the `sipyard` that this one is compared with, if any.
pub(crate) const BEFORE: &str = "BEFORE";

/// Names the `sipyard` that is measured, if it is not to be built.
pub(crate) const SIPYARD: &str = "SIPYARD";

pub(crate) const KAMAILIO: &str = "/usr/sbin/kamailio";

/// A program, in one of its ways of working.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Subject {
    Floor,
    KamailioStateless,
    KamailioCallLoad,
    Sipyard,
    /// Another build of Sipyard, which the variable [`BEFORE`] names.
    Before,
}

/// A subject that runs.
pub(crate) struct Running {
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    _files: tempfile::TempDir,
}

impl Subject {
    pub(crate) const ALL: [Self; 5] = [
        Self::Floor,
        Self::KamailioStateless,
        Self::KamailioCallLoad,
        Self::Sipyard,
        Self::Before,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::KamailioStateless => "Kamailio, stateless, Call-ID hash",
            Self::KamailioCallLoad => "Kamailio, stateful, call load",
            Self::Sipyard => "Sipyard, tlwl",
            Self::Before => "Sipyard before, tlwl",
        }
    }

    /// Why it cannot be measured here, if so.
    pub(crate) fn missing(self) -> Option<String> {
        let program = self.program();
        if self == Self::Before && program.as_os_str().is_empty() {
            return Some(format!("{BEFORE} names no other sipyard"));
        }
        if !program.exists() {
            return Some(format!("{} is not there", program.display()));
        }
        let serves = || {
            let mut command = Command::new(&program);
            command
                .args(["serve", "--help"])
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        (matches!(self, Self::Sipyard | Self::Before) && !serves())
            .then(|| format!("{} cannot serve", program.display()))
    }

    /// Starts it before these servers. It may take a moment until it takes calls.
    pub(crate) fn start(self, servers: &[SocketAddr]) -> io::Result<Running> {
        let files = tempfile::tempdir()?;
        let address = free_address()?;
        let program = self.program();
        let listen = address.to_string();
        let process = match self {
            Self::Floor => {
                let servers = servers
                    .iter()
                    .map(SocketAddr::to_string)
                    .collect::<Vec<_>>()
                    .join(",");
                Process::start(
                    CORE,
                    &program,
                    &["--listen", &listen, "--servers", &servers],
                )
            }
            Self::KamailioStateless => {
                let config = include_str!("../peers/kamailio-stateless.cfg");
                dispatcher(files.path(), config, &listen, servers, "")
            }
            Self::KamailioCallLoad => {
                let config = include_str!("../peers/kamailio-call-load.cfg");
                dispatcher(files.path(), config, &listen, servers, ";maxload=1000000")
            }
            Self::Sipyard | Self::Before => {
                return edge_of(&program, "tlwl", "stateless", servers);
            }
        };
        Ok(Running {
            process: process?,
            address,
            _files: files,
        })
    }

    fn program(self) -> PathBuf {
        match self {
            Self::Floor => beside_us("floor"),
            Self::KamailioStateless | Self::KamailioCallLoad => PathBuf::from(KAMAILIO),
            Self::Sipyard => sipyard(),
            Self::Before => env::var_os(BEFORE).unwrap_or_default().into(),
        }
    }
}

/// Builds what of ours is measured, where this program itself was built.
pub(crate) fn build() -> io::Result<()> {
    if env::var_os(SIPYARD).is_some() {
        return Ok(());
    }
    let here = beside_us("");
    let target = here.parent().map(Path::to_path_buf).unwrap_or_default();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--package",
            "bench",
            "--package",
            "sipyard",
            "--bins",
        ])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other("the programs do not build"))
    }
}

/// Starts Sipyard before these servers, with this policy.
pub(crate) fn edge(policy: &str, servers: &[SocketAddr]) -> io::Result<Running> {
    edge_of(&sipyard(), policy, "stateless", servers)
}

/// The same as a stateful proxy.
pub(crate) fn stateful_edge(policy: &str, servers: &[SocketAddr]) -> io::Result<Running> {
    edge_of(&sipyard(), policy, "stateful", servers)
}

/// Starts Sipyard as one of several nodes in series, in this mode. It believes what is on 127.0.0.1.
pub(crate) fn node_in_series(state: &str, next: SocketAddr) -> io::Result<Running> {
    let config = config_of_edge("tlwl", state, &[next]);
    serve(
        &sipyard(),
        &format!("{config}\n[trust]\npeers = [\"127.0.0.1/32\"]\n"),
    )
}

fn edge_of(
    program: &Path,
    policy: &str,
    state: &str,
    servers: &[SocketAddr],
) -> io::Result<Running> {
    serve(program, &config_of_edge(policy, state, servers))
}

fn config_of_edge(policy: &str, state: &str, servers: &[SocketAddr]) -> String {
    let servers = servers.iter().map(|it| format!("{{ address = \"{it}\" }}"));
    let servers: Vec<_> = servers.collect();
    include_str!("../peers/sipyard.toml")
        .replace("@POLICY@", policy)
        .replace("@STATE@", state)
        .replace("@SERVERS@", &servers.join(", "))
}

/// Starts Sipyard as strangers may reach it: before these servers, and as the registrar of a domain whose
/// users prove who they are.
pub(crate) fn public_edge(servers: &[SocketAddr]) -> io::Result<Running> {
    let servers = servers.iter().map(|it| format!("{{ address = \"{it}\" }}"));
    let servers: Vec<_> = servers.collect();
    let config = include_str!("../peers/sipyard-public.toml");
    serve(
        &sipyard(),
        &config.replace("@SERVERS@", &servers.join(", ")),
    )
}

/// Starts Sipyard as a registrar that keeps its bindings in memory, or in a file.
pub(crate) fn registrar(in_file: bool) -> io::Result<Running> {
    let store = if in_file {
        "file:location.db"
    } else {
        "memory"
    };
    let config = include_str!("../peers/sipyard-registrar.toml");
    serve(&sipyard(), &config.replace("@STORE@", store))
}

/// Starts our node in an architecture on these cores. If it is meek, it has them only while no other program wants them.
pub(crate) fn architecture(
    name: &str,
    mode: &str,
    workers: usize,
    servers: &[SocketAddr],
    (cores, is_meek): (&[usize], bool),
) -> io::Result<Running> {
    let address = free_address()?;
    let servers: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
    let program = beside_us("architectures").display().to_string();
    let (workers, listen) = (workers.to_string(), address.to_string());
    let meek = ["--idle", "0", &program];
    let own = [name, "--mode", mode, "--workers", &workers];
    let with = ["--listen", &listen, "--servers", &servers.join(",")];
    let process = match is_meek {
        true => Process::start_on(cores, Path::new("chrt"), &[&meek[..], &own, &with].concat()),
        false => Process::start_on(cores, Path::new(&program), &[&own[..], &with].concat()),
    };
    Ok(Running {
        process: process?,
        address,
        _files: tempfile::tempdir()?,
    })
}

/// Starts Kamailio as a registrar that keeps its bindings in memory.
pub(crate) fn kamailio_registrar() -> io::Result<Running> {
    let files = tempfile::tempdir()?;
    let address = free_address()?;
    let config = include_str!("../peers/kamailio-registrar.cfg");
    Ok(Running {
        process: kamailio(files.path(), config, &address.to_string())?,
        address,
        _files: files,
    })
}

/// Starts Sipyard in a mode of SERvartuka's Figure 1, which the words that are filled in say. The users of a table may call.
pub(crate) fn sipyard_in_mode(
    server: SocketAddr,
    filled: &[(&str, String)],
    users: &str,
) -> io::Result<Running> {
    let files = tempfile::tempdir()?;
    let table = written(files.path(), "users.csv", users)?;
    let store = format!("file:{}", files.path().join("location.db").display());
    let import = ["user", "import", "--store", &store, &table];
    let imported = Command::new(sipyard()).args(import).output()?;
    if !imported.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&imported.stderr)));
    }
    let config = include_str!("../peers/sipyard-modes.toml")
        .replace("@SERVERS@", &format!("{{ address = \"{server}\" }}"));
    let fill = |config: String, (word, by): &(&str, String)| config.replace(word, by);
    serve_in(files, &sipyard(), &filled.iter().fold(config, fill))
}

/// Starts Kamailio in the mode that these definitions say.
pub(crate) fn kamailio_in_mode(server: SocketAddr, definitions: &[&str]) -> io::Result<Running> {
    let files = tempfile::tempdir()?;
    let address = free_address()?;
    let definitions = definitions.iter().map(|it| format!("#!define {it}\n"));
    let config = include_str!("../peers/kamailio-modes.cfg")
        .replace("@MODE@\n", &definitions.collect::<String>());
    let config = with_list(files.path(), &config, &[server], "")?;
    Ok(Running {
        process: kamailio(files.path(), &config, &address.to_string())?,
        address,
        _files: files,
    })
}

/// Starts Sipyard with a configuration that leaves its own addresses open.
fn serve(program: &Path, config: &str) -> io::Result<Running> {
    serve_in(tempfile::tempdir()?, program, config)
}

/// The same beside files that are there already.
fn serve_in(files: tempfile::TempDir, program: &Path, config: &str) -> io::Result<Running> {
    let address = free_address()?;
    let config = config
        .replace("@LISTEN@", &address.to_string())
        .replace("@ADMIN@", &free_address()?.to_string());
    let path = written(files.path(), "sipyard.toml", &config)?;
    let process = Process::start(CORE, program, &["serve", "--config", &path])?;
    Ok(Running {
        process,
        address,
        _files: files,
    })
}

/// Starts Kamailio as a stateful balancer, which refuses more new calls in a second than `limit_per_s`, if there is one.
/// It has the receive buffer that it takes by default: a longer queue of what is too late is no help in overload.
pub(crate) fn kamailio_call_load(
    servers: &[SocketAddr],
    limit_per_s: Option<u32>,
) -> io::Result<Running> {
    let files = tempfile::tempdir()?;
    let address = free_address()?;
    let config = match limit_per_s {
        None => include_str!("../peers/kamailio-call-load.cfg").to_owned(),
        Some(limit) => {
            include_str!("../peers/kamailio-pipelimit.cfg").replace("@LIMIT@", &limit.to_string())
        }
    };
    let config = with_list(files.path(), &config, servers, ";maxload=1000000")?;
    Ok(Running {
        process: kamailio_with(files.path(), &config, &address.to_string(), 256 << 10)?,
        address,
        _files: files,
    })
}

/// Kamailio before servers that its dispatcher knows with these attributes.
fn dispatcher(
    files: &Path,
    config: &str,
    listen: &str,
    servers: &[SocketAddr],
    attributes: &str,
) -> io::Result<Process> {
    let config = with_list(files, config, servers, attributes)?;
    kamailio(files, &config, listen)
}

/// The configuration with the list of the dispatcher's servers.
fn with_list(
    files: &Path,
    config: &str,
    servers: &[SocketAddr],
    attributes: &str,
) -> io::Result<String> {
    let line = |(number, server)| format!("1 sip:{server} 0 0 duid=s{number}{attributes}\n");
    let list: String = (1..).zip(servers).map(line).collect();
    let list = written(files, "dispatcher.list", &list)?;
    Ok(config.replace("@LIST@", &list))
}

/// Kamailio with the buffer limit of the other programs; its own default may lose datagrams.
fn kamailio(files: &Path, config: &str, listen: &str) -> io::Result<Process> {
    kamailio_with(files, config, listen, 4 << 20)
}

fn kamailio_with(
    files: &Path,
    config: &str,
    listen: &str,
    buffer_bytes: u32,
) -> io::Result<Process> {
    let config = config.replace("@LISTEN@", listen);
    let config = written(files, "kamailio.cfg", &config)?;
    let pid = files.join("pid").display().to_string();
    let buffer = buffer_bytes.to_string();
    // With the allocator that it has by default (`qm`), half of its time goes there.
    let args = [
        "-f", &config, "-m", "1024", "-M", "32", "-x", "tlsf", "-X", "tlsf", "-b", &buffer, "-DD",
        "-E", "-P", &pid,
    ];
    Process::start(CORE, Path::new(KAMAILIO), &args)
}

fn written(files: &Path, name: &str, text: &str) -> io::Result<String> {
    let path = files.join(name);
    fs::write(&path, text)?;
    Ok(path.display().to_string())
}

/// An address that nobody used a moment ago.
fn free_address() -> io::Result<SocketAddr> {
    free_addresses(1)
}

/// The first of so many addresses, one port after another, that nobody used a moment ago.
pub(crate) fn free_addresses(ports: u16) -> io::Result<SocketAddr> {
    const ATTEMPTS: u32 = 100;
    let mut last = io::Error::other("no ports are free");
    for _ in 0..ATTEMPTS {
        let first = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = first.local_addr()?;
        let next =
            |place| UdpSocket::bind((Ipv4Addr::LOCALHOST, address.port().saturating_add(place)));
        match (1..ports).map(next).collect::<io::Result<Vec<_>>>() {
            Ok(_) => return Ok(address),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Waits until these addresses are bound.
pub(crate) fn wait_for_sockets(addresses: &[SocketAddr]) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let began = Instant::now();
    let is_bound =
        |table: &str, address: &SocketAddr| table.contains(&format!(":{:04X} ", address.port()));
    loop {
        let table = fs::read_to_string("/proc/net/udp")?;
        if addresses.iter().all(|address| is_bound(&table, address)) {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("nobody binds {addresses:?}")));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The command that users run.
pub(crate) fn sipyard() -> PathBuf {
    env::var_os(SIPYARD).map_or_else(|| beside_us("sipyard"), PathBuf::from)
}

/// A program in the folder of this one.
fn beside_us(name: &str) -> PathBuf {
    env::current_exe().unwrap_or_default().with_file_name(name)
}
