//! Hosts of a test's own: network namespaces, and NATs between them.

use std::{
    fs::{self, File},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::fd::{AsFd as _, AsRawFd as _},
    panic, process,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::command;

/// A host that runs what [`Host::run`] starts there. The kernel takes it away when it is dropped and
/// nothing runs there any more, also when the test is killed.
pub(crate) struct Host(File);

impl Host {
    /// One without a link to others, at these addresses.
    pub(crate) fn new(addresses: &[IpAddr]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        assert!(
            rustix::process::geteuid().is_root(),
            "network namespaces need root; `cargo test -- --skip nat::` leaves these tests out"
        );
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sipyard-{}-{number}", process::id());
        execute("ip", "iproute2", &format!("netns add {name}"));
        let namespace = File::open(format!("/run/netns/{name}"));
        // An open namespace needs no name.
        execute("ip", "iproute2", &format!("netns delete {name}"));
        let host = Self(namespace.unwrap());
        host.ip("link set lo up");
        for address in addresses {
            host.ip(&format!("address add {address}/32 dev lo"));
        }
        host
    }

    /// Does something there: sockets that it makes and processes that it starts stay there.
    pub(crate) fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let there = || {
            move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            act()
        };
        let done = thread::scope(|scope| scope.spawn(there).join());
        done.unwrap_or_else(|failed| panic::resume_unwind(failed))
    }

    fn ip(&self, arguments: &str) {
        self.run(|| execute("ip", "iproute2", arguments));
    }

    /// Links it to another by a cable whose ends have these names.
    fn link(&self, end: &str, other: &Self, other_end: &str) {
        let there = format!("/proc/{}/fd/{}", process::id(), other.0.as_raw_fd());
        self.ip(&format!(
            "link add {end} type veth peer name {other_end} netns {there}"
        ));
        self.ip(&format!("link set {end} up"));
        other.ip(&format!("link set {other_end} up"));
    }
}

/// A home network behind a NAT. All homes have the same private addresses.
pub(crate) struct Home {
    router: Host,
    hub: IpAddr,
    /// Where its phone is.
    pub(crate) phone: Host,
}

impl Home {
    /// What a phone has at home.
    pub(crate) const PHONE: SocketAddr =
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 168, 1, 2)), 5060);
    const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);

    /// The `number`th home; it reaches `hub` at this address, and nobody else.
    pub(crate) fn new(hub: &Host, address: IpAddr, number: u8) -> Self {
        let home = Self {
            router: Host::new(&[]),
            hub: address,
            phone: Host::new(&[]),
        };
        let port = format!("home{number}");
        let public = Ipv4Addr::new(203, 0, 113, number);
        hub.link(&port, &home.router, "public");
        hub.ip(&format!("route add {public} dev {port}"));
        let (router, phone) = (Self::ROUTER, Self::PHONE.ip());
        home.router.link("home", &home.phone, "eth0");
        home.router.ip(&format!("address add {router}/24 dev home"));
        home.phone.ip(&format!("address add {phone}/24 dev eth0"));
        home.phone.ip(&format!("route add default via {router}"));
        home.router
            .run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1"))
            .unwrap();
        home.router.ip(&format!("address add {public} dev public"));
        home.connect();
        home
    }

    /// The router starts over: its NAT knows no flow any more, and draws a port for each that comes.
    pub(crate) fn restart_router(&self) {
        self.router.ip("link set public down");
        self.connect();
    }

    fn connect(&self) {
        let nat = "flush ruleset; table ip nat { chain out { type nat hook postrouting priority 100; \
                   oifname public meta l4proto udp masquerade to :40000-59999 fully-random; }; }";
        self.router.run(|| execute("nft", "nftables", nat));
        self.router.ip("link set public up");
        self.router
            .ip(&format!("route add {} dev public", self.hub));
    }
}

/// Runs a program of Debian's `package` to its end.
fn execute(program: &str, package: &str, arguments: &str) {
    let output = command(program, package)
        .args(arguments.split(' '))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {said}");
}
