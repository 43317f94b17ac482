//! `sipyard load` in tests.

use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Instant,
};

use serde_json::Value;

use super::{Settings, eventually, free_address, sipyard};

/// Runs `sipyard load` to its end.
pub fn load(arguments: &[&str]) -> Output {
    sipyard().arg("load").args(arguments).output().unwrap()
}

/// Runs `sipyard load call` to its end, with JSON on its standard output.
pub fn call(to: SocketAddr, arguments: &[&str]) -> Output {
    let to = to.to_string();
    load(&[&["call", "--to", &to, "--json", "-"], arguments].concat())
}

/// Lets a registrar that is not running know user-0@example.com and so on, whose passwords are
/// secret-user-0 and so on; the table.
pub fn users(settings: &Settings, number: usize) -> PathBuf {
    let lines = (0..number).map(|user| format!("user-{user},example.com,secret-user-{user}\n"));
    let table = "username,domain,password\n".to_owned() + &lines.collect::<String>();
    let path = settings.path().with_file_name("users.csv");
    fs::write(&path, table).unwrap();
    let mut import = sipyard();
    import.args(["user", "import", "--config"]);
    let output = import.arg(settings.path()).arg(&path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    path
}

/// Sends a signal to a process of the test's own.
pub fn signal(process: u32, name: &str) {
    let process = process.to_string();
    let status = Command::new("kill").args(["-s", name, &process]).status();
    assert!(status.unwrap().success());
}

/// A registrar that grants so many requests a second and refuses the others. Its thread ends with the test
/// program.
pub struct Limited {
    /// Where it is.
    pub address: SocketAddr,
}

impl Limited {
    /// On a free port.
    pub fn start(per_s: u32) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        thread::spawn(move || serve(&socket, f64::from(per_s)));
        Self { address }
    }
}

/// At most so many requests of one moment are granted.
const AT_ONCE: f64 = 20.0;

fn serve(socket: &UdpSocket, per_s: f64) {
    let (mut left, mut last) = (AT_ONCE, Instant::now());
    let mut bytes = [0; 2048];
    while let Ok((length, from)) = socket.recv_from(&mut bytes) {
        let now = Instant::now();
        left = AT_ONCE.min(left + per_s * (now - last).as_secs_f64());
        last = now;
        let (status, cost) = if left >= 1.0 { (200, 1.0) } else { (503, 0.0) };
        left -= cost;
        let message = sip::Message::parse(&bytes[..length], 64).unwrap();
        let mut out = Vec::new();
        sip::write_reply(&message, status, "Any", Some("r"), from, &[], &mut out);
        socket.send_to(&out, from).unwrap();
    }
}

/// A `sipyard load serve`; killed when it is dropped.
pub struct Serving {
    child: Option<Child>,
    /// The first server's address.
    pub address: SocketAddr,
}

impl Serving {
    /// Servers on free ports.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_at(free_address(), arguments)
    }

    /// Servers, the first of which is here.
    pub fn start_at(address: SocketAddr, arguments: &[&str]) -> Self {
        let child = sipyard()
            .args(["load", "serve", "--address", &address.to_string()])
            .args(["--json", "-"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let serving = Self {
            child: Some(child),
            address,
        };
        let port = format!(":{:04X} ", address.port());
        let sockets = match arguments.contains(&"--transport") {
            true => ["/proc/net/tcp", "/proc/net/tcp6"],
            false => ["/proc/net/udp", "/proc/net/udp6"],
        };
        eventually("the emulated servers' sockets", || {
            sockets
                .iter()
                .any(|sockets| fs::read_to_string(sockets).unwrap().contains(&port))
        });
        serving
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// CPU time that it has used, in ticks of 10 ms.
    pub fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split(' ').collect();
        [fields[12], fields[13]]
            .iter()
            .map(|ticks| ticks.parse::<u64>().unwrap())
            .sum()
    }

    /// Ends it; what it reports of each server.
    pub fn end(mut self) -> Vec<Value> {
        self.signal("INT");
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
