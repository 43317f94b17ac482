//! The paper's two systems: captures with the times of its Tables 1 and 2 show those times, and make its models.

#![allow(clippy::unwrap_used)]

mod common;

use std::{net::SocketAddr, time::Duration};

use capture::{Machines, Options, Role, Study, Trace};
use common::{Dialog, Row, message, ms};

/// What the paper's server does with an INVITE: three more INVITEs back to the driver's ports, the last of which is accepted.
/// Each step: the message, whether it goes to the server, the driver's port.
const FLOW: [(&str, bool, u16); 11] = [
    ("INVITE", true, 5060),
    ("100 Trying", false, 5060),
    ("INVITE", false, 5071),
    ("300 Multiple Choices", true, 5071),
    ("ACK", false, 5071),
    ("INVITE", false, 5076),
    ("300 Multiple Choices", true, 5076),
    ("ACK", false, 5076),
    ("INVITE", false, 5074),
    ("200 OK", true, 5074),
    ("200 OK", false, 5060),
];

/// What happens between a message's arrival and the next message, in milliseconds: server and driver take turns.
struct Times {
    /// From the message that comes in to each that goes out.
    server: [&'static [f64]; 4],
    driver: [f64; 3],
    /// A balancer's, of each message, in either direction.
    balancer: Option<[f64; 11]>,
}

/// Means over calls are these values: the calls differ by as much up as down.
fn capture(times: &Times, ways: &[f64], calls: usize) -> Vec<common::File> {
    let mut row = Row::new(&ways.iter().map(|&way| ms(way)).collect::<Vec<_>>());
    for call in 0..calls {
        let factor = 1.0 + 0.1 * (call as f64 - (calls - 1) as f64 / 2.0);
        run(&mut row, times, ms(1_000.0 * call as f64), call, factor);
    }
    row.files()
}

fn run(row: &mut Row, times: &Times, start: Duration, call: usize, factor: f64) {
    let call_id = format!("{call}@driver");
    let last = row.ways.len();
    let mut now = start;
    let (mut to_server, mut to_driver) = (0, 0);
    for (step, &(text, is_up, port)) in FLOW.iter().enumerate() {
        let begin = match (step, is_up) {
            (0, _) => start,
            (_, true) => {
                to_driver += 1;
                now + ms(times.driver[to_driver - 1] * factor)
            }
            (_, false) => now,
        };
        // Every message has a branch of its own on each hop.
        let mut at = begin;
        let nodes: Vec<usize> = if is_up {
            (0..=last).collect()
        } else {
            (0..=last).rev().collect()
        };
        let send_from_server = |sent: usize| ms(times.server[to_server][sent] * factor);
        if !is_up {
            let before = FLOW[..step]
                .iter()
                .rev()
                .take_while(|(_, is_up, _)| !is_up)
                .count();
            at = begin + send_from_server(before);
        }
        for pair in nodes.windows(2) {
            let dialog = Dialog {
                call_id: &call_id,
                from_tag: "caller",
            };
            let bytes = message(
                text,
                dialog,
                "1 INVITE",
                &format!("{call}x{step}x{}", pair[0]),
            );
            let ends = (address(pair[0], last, port), address(pair[1], last, port));
            let arrival = row.send(at, ends, (pair[0], pair[1]), &bytes);
            let relay = times.balancer.as_ref().map_or(0.0, |relay| relay[step]);
            at = arrival + ms(relay * factor);
            if pair[1] == *nodes.last().unwrap() {
                at = arrival;
            }
        }
        let next_is_up = FLOW.get(step + 1).is_some_and(|next| next.1);
        // The server goes on from where it was; whoever receives goes on from the arrival.
        if is_up {
            now = at;
        } else if next_is_up {
            now = at;
            to_server += 1;
        }
    }
}

fn address(node: usize, last: usize, driver_port: u16) -> SocketAddr {
    let port = if node == 0 { driver_port } else { 5060 };
    assert!(node <= last);
    SocketAddr::from(([10, 0, 0, 1 + node as u8], port))
}

fn study(files: &[common::File]) -> Study {
    let mut trace = Trace::default();
    for (number, file) in files.iter().enumerate() {
        let name = ["one", "two", "three"][number];
        trace.read(name, file.bytes.as_slice(), |_| {}).unwrap();
    }
    Study::new(&trace, &Options::default()).unwrap()
}

/// Table 1: server (b), driver (a); a packet takes 0.0648 ms.
const STANDALONE: Times = Times {
    server: [&[0.4, 1.345], &[0.3, 0.481], &[0.2, 0.336], &[0.433]],
    driver: [0.060, 0.056, 0.053],
    balancer: None,
};

/// Table 2: server (b), driver (a), balancer (c), its synchronous times in two halves; packets take 0.0616 and 0.0381 ms.
const CLUSTER: Times = Times {
    server: [&[0.4, 1.211], &[0.3, 0.552], &[0.2, 0.428], &[0.402]],
    driver: [0.062, 0.062, 0.044],
    balancer: Some([
        0.2455, 0.177, 0.2455, 0.0925, 0.093, 0.0925, 0.088, 0.091, 0.088, 0.0715, 0.0715,
    ]),
};

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 2e-4, "{value} is not {expected}");
}

#[test]
fn the_standalone_systems_times_are_table_1() {
    let study = study(&capture(&STANDALONE, &[0.0648], 3));
    let of = |role: Role| study.rows.iter().filter(move |row| row.role == role);
    let server: Vec<f64> = of(Role::Server).map(|row| row.time_ms.mean()).collect();
    for (value, expected) in server.iter().zip([1.345, 0.481, 0.336, 0.433]) {
        near(*value, expected);
    }
    let pairs: Vec<_> = of(Role::Server).map(|row| (row.from, row.to)).collect();
    assert_eq!(
        pairs,
        [(1, Some(3)), (4, Some(6)), (7, Some(9)), (10, Some(11))]
    );
    let link = &study.links[0];
    near(link.packet_ms.as_ref().unwrap().mean(), 0.0648);
    assert_eq!(link.packets, 11);
}

#[test]
fn the_standalone_model_has_the_papers_entries_and_calls() {
    let study = study(&capture(&STANDALONE, &[0.0648], 3));
    let machines = Machines {
        network_utilisation: vec![(None, 0.4)],
        threads: vec![(Role::Server, 10)],
        customers: Some(3),
        ..Machines::default()
    };
    let text = study.model("standalone", &machines).unwrap().to_text();
    for line in [
        "s User 0.169 -1",
        "s server1 1.345 -1",
        "s server4 0.433 -1",
        "s net_driver_server 0.0648 0.0972 -1",
        "y User net_driver_server 8 -1",
        "y server1 net_driver_server 1 -1",
        "y User server4 1 -1",
        "z server1 port1 1 -1",
        "z server3 port3 1 -1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let demands = study.demands(&machines);
    near(demands[0].demand_ms, 2.595);
    near(demands[1].demand_ms, 1.782);
    near(demands[0].calls_per_s, 385.3565);
}

#[test]
fn the_clusters_times_are_table_2() {
    let study = study(&capture(&CLUSTER, &[0.0616, 0.0381], 3));
    let roles: Vec<String> = study
        .places
        .iter()
        .map(|place| place.role.to_string())
        .collect();
    assert_eq!(roles, ["driver", "balancer", "server"]);
    let points: Vec<&str> = study
        .places
        .iter()
        .map(|place| place.points[0].as_str())
        .collect();
    assert_eq!(points, ["one", "two", "three"]);
    near(study.links[0].packet_ms.as_ref().unwrap().mean(), 0.0616);
    near(study.links[1].packet_ms.as_ref().unwrap().mean(), 0.0381);
    let machines = Machines {
        network_utilisation: vec![(None, 0.4), (Some((Role::Balancer(1), Role::Server)), 0.2)],
        ..Machines::default()
    };
    let text = study.model("cluster", &machines).unwrap().to_text();
    for line in [
        "s c1 0.491 -1",
        "s c2 0.185 -1",
        "s c3 0.176 -1",
        "s c4 0.143 -1",
        "s server1 1.211 -1",
        "s server4 0.402 -1",
        "s net_driver_balancer 0.0616 0.0924 -1",
        "s net_balancer_server 0.0381 0.1524 -1",
        "y User net_driver_balancer 8 -1",
        "y up1 net_balancer_server 2 -1",
        "y server1 net_balancer_server 1 -1",
        "y up1 c1 1 -1",
        "y up1 server1 1 -1",
        "z server1 dn_a1 1 -1",
        "y dn_a1 r_a1 1 -1",
        "s r_a1 0.177 -1",
        "y dn_a1 net_driver_balancer 1 -1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    // All 22 packets: the literal network allows no more than 263.9 calls a second.
    let network = study.demands(&machines).pop().unwrap();
    near(network.demand_ms, 3.7895);
}

#[test]
fn points_may_come_in_any_order() {
    let mut files = capture(&CLUSTER, &[0.0616, 0.0381], 3);
    files.rotate_left(1);
    let study = study(&files);
    let points: Vec<&str> = study
        .places
        .iter()
        .map(|place| place.points[0].as_str())
        .collect();
    assert_eq!(points, ["three", "one", "two"]);
    near(study.links[1].packet_ms.as_ref().unwrap().mean(), 0.0381);
}

#[test]
fn the_ladder_shows_the_flow() {
    let study = study(&capture(&STANDALONE, &[0.0648], 3));
    let ladder = study.ladder_text();
    let lines: Vec<&str> = ladder.lines().collect();
    assert_eq!(lines.len(), 12, "{ladder}");
    assert!(
        lines[1].contains("1 INVITE") && lines[1].ends_with(">|"),
        "{ladder}"
    );
    assert!(
        lines[2].contains("<") && lines[2].contains("2 100 Trying (INVITE)"),
        "{ladder}"
    );
}
