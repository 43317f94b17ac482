//! Priorities at processors: exact formulas, balance equations, and random models.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use fastrand::Rng;
use lqn::{Builder, Method, Model, Multiplicity, Results, Scheduling, SimulationSettings};

const DISCIPLINES: [Scheduling; 2] = [Scheduling::HeadOfLine, Scheduling::PreemptiveResume];

fn simulate(model: &Model, events: u64) -> Results {
    let settings = SimulationSettings { events };
    // The solver's own simulations have seed 1.
    lqn::simulate(model, &settings, &mut Rng::with_seed(2), |_| {})
}

/// Streams of (rate, service time, squared coefficient of variation) to a processor, the most urgent first.
fn open(scheduling: Scheduling, servers: u32, streams: &[(f64, f64, f64)]) -> Model {
    let mut builder = Builder::new("open");
    builder.processor("host", scheduling).multiplicity(servers);
    for (&(rate, service, cvsq), priority) in streams.iter().zip((0..9).rev()) {
        let task = format!("t{priority}");
        builder
            .task(&task, "host")
            .multiplicity(Multiplicity::Infinite)
            .priority(priority);
        builder
            .entry(&format!("{task}.e"), &task)
            .service(&[service])
            .cvsq(&[cvsq])
            .open_arrivals(rate);
    }
    builder.build().unwrap()
}

#[track_caller]
fn assert_near(what: &str, found: f64, expected: f64, bound: f64) {
    let off = found / expected - 1.0;
    assert!(off.abs() < bound, "{what}: {found} is not {expected}");
}

/// Cobham 1954, and for preemption Conway, Maxwell and Miller 1967, §8-7.
#[test]
fn one_server_keeps_the_known_waits() {
    let streams = [(0.2, 1.0, 1.0), (0.15, 1.5, 0.25), (0.1, 2.0, 2.0)];
    for scheduling in DISCIPLINES {
        let results = simulate(&open(scheduling, 1, &streams), 4_000_000);
        let residual =
            |(rate, time, cvsq): (f64, f64, f64)| rate * time * time * (1.0 + cvsq) / 2.0;
        let all: f64 = streams.iter().copied().map(residual).sum();
        let (mut used, mut residuals) = (0.0, 0.0);
        for (place, &(rate, time, cvsq)) in streams.iter().enumerate() {
            let free_of_urgent = 1.0 - used;
            used += rate * time;
            residuals += residual((rate, time, cvsq));
            let expected = match scheduling {
                Scheduling::HeadOfLine => time + all / (free_of_urgent * (1.0 - used)),
                _ => (time + residuals / (1.0 - used)) / free_of_urgent,
            };
            let found = results.entries[place].service_time.value;
            assert_near(&format!("{scheduling:?} {place}"), found, expected, 0.02);
        }
    }
}

/// With equal service times the more urgent ones are an M/M/m queue of their own if they interrupt; if not, waits are
/// Cobham's with the chance that all servers are busy.
#[test]
fn several_servers_keep_the_known_waits() {
    const SERVERS: u32 = 2;
    let rates = [0.7, 0.8];
    let streams = rates.map(|rate| (rate, 1.0, 1.0));
    // Erlang's C for two servers.
    let all_busy = |load: f64| load * load / (2.0 + load);
    let present = |load: f64| load + all_busy(load) * load / (f64::from(SERVERS) - load);
    let [urgent, other] = rates;
    let wait = all_busy(urgent + other) / f64::from(SERVERS);
    let (free, left) = (1.0 - urgent / 2.0, 1.0 - (urgent + other) / 2.0);
    let expected = [
        [1.0 + wait / free, 1.0 + wait / (free * left)],
        [
            present(urgent) / urgent,
            (present(urgent + other) - present(urgent)) / other,
        ],
    ];
    for (scheduling, expected) in DISCIPLINES.into_iter().zip(expected) {
        let results = simulate(&open(scheduling, SERVERS, &streams), 4_000_000);
        for (place, expected) in expected.into_iter().enumerate() {
            let found = results.entries[place].service_time.value;
            assert_near(&format!("{scheduling:?} {place}"), found, expected, 0.02);
        }
    }
}

/// Rates that follow from each other took the place of counts, also where more comes than can be served.
#[test]
fn what_cannot_be_served_is_not_counted() {
    let streams = [(0.6, 1.0, 1.0), (0.9, 1.0, 1.0)];
    let solved = lqn::solve(&open(Scheduling::HeadOfLine, 1, &streams));
    let [urgent, other] = [0, 1].map(|entry| solved.entries[entry].throughput.value);
    assert_near("the urgent", urgent, 0.6, 0.02);
    assert_near("what is left", other, 0.4, 0.03);
    assert_near("busy", solved.processors[0].utilization.value, 1.0, 0.001);
}

/// Customers of two kinds: number, think time, service time.
const KINDS: [(u32, f64, f64); 2] = [(2, 2.0, 0.8), (3, 1.0, 0.5)];

fn closed(scheduling: Scheduling, priorities: [u32; 2]) -> Model {
    let mut builder = Builder::new("closed");
    builder.processor("desk", Scheduling::Delay);
    builder.processor("host", scheduling);
    for (kind, (customers, think_time, _)) in KINDS.into_iter().enumerate() {
        let users = format!("u{kind}");
        builder
            .reference(&users, "desk")
            .multiplicity(Multiplicity::Finite(customers))
            .think_time(think_time);
        builder
            .entry(&format!("{users}.e"), &users)
            .calls(&format!("s{kind}.e"), &[1.0])
            .order(&[lqn::CallOrder::Deterministic]);
    }
    for (kind, (_, _, service)) in KINDS.into_iter().enumerate() {
        let server = format!("s{kind}");
        builder
            .task(&server, "host")
            .multiplicity(Multiplicity::Infinite)
            .priority(priorities[kind]);
        builder
            .entry(&format!("{server}.e"), &server)
            .service(&[service]);
    }
    builder.build().unwrap()
}

/// The throughput of each kind by balance equations, if the first kind is the more urgent one. A state says how many
/// of each kind are at the server, and which kind it serves.
fn balanced(scheduling: Scheduling) -> [f64; 2] {
    let mut states = vec![(0, 0, 0)];
    for first in 0..=KINDS[0].0 {
        for second in 0..=KINDS[1].0 {
            let serves_first = first > 0;
            let serves_second = second > 0 && (first == 0 || scheduling == Scheduling::HeadOfLine);
            states.extend(serves_first.then_some((first, second, 0)));
            states.extend(serves_second.then_some((first, second, 1)));
        }
    }
    let place = |state| states.iter().position(|&other| other == state).unwrap();
    let mut moves = Vec::new();
    for (from, &(first, second, served)) in states.iter().enumerate() {
        let thinking = [KINDS[0].0 - first, KINDS[1].0 - second];
        let is_idle = first + second == 0;
        let interrupts = is_idle || scheduling == Scheduling::PreemptiveResume;
        let served_then = if interrupts { 0 } else { served };
        if thinking[0] > 0 {
            let rate = f64::from(thinking[0]) / KINDS[0].1;
            moves.push((from, place((first + 1, second, served_then)), rate));
        }
        if thinking[1] > 0 {
            let rate = f64::from(thinking[1]) / KINDS[1].1;
            let served = if is_idle { 1 } else { served };
            moves.push((from, place((first, second + 1, served)), rate));
        }
        if !is_idle {
            let (first, second) = match served {
                0 => (first - 1, second),
                _ => (first, second - 1),
            };
            let served_next = usize::from(first == 0 && second > 0);
            let rate = 1.0 / KINDS[served].2;
            moves.push((from, place((first, second, served_next)), rate));
        }
    }
    let mut chances = vec![1.0 / states.len() as f64; states.len()];
    for _ in 0..20_000 {
        let before = chances.clone();
        for &(from, to, rate) in &moves {
            chances[from] -= 0.05 * rate * before[from];
            chances[to] += 0.05 * rate * before[from];
        }
    }
    [0, 1].map(|kind| {
        let served = |state: &(u32, u32, usize)| state.0 + state.1 > 0 && state.2 == kind;
        let busy = states.iter().zip(&chances).filter(|it| served(it.0));
        busy.map(|it| it.1).sum::<f64>() / KINDS[kind].2
    })
}

#[test]
fn a_small_population_keeps_the_balance_equations() {
    for scheduling in DISCIPLINES {
        let model = closed(scheduling, [7, 3]);
        let solved = lqn::solve(&model);
        let simulated = simulate(&model, 600_000);
        assert_eq!(solved.method, Method::MarkovChain);
        for (kind, expected) in balanced(scheduling).into_iter().enumerate() {
            let users = model.task_named(&format!("u{kind}")).unwrap().0;
            let what = format!("{scheduling:?} {kind}");
            let of = |results: &Results| results.tasks[users].throughput.value;
            assert_near(&what, of(&solved), expected, 1e-4);
            assert_near(&what, of(&simulated), expected, 0.015);
        }
    }
}

/// LQNS's own test of priorities (34-priority) with the answers of its Petri net solver, petrisrvn 5.7. They say that
/// the higher number is the more urgent one.
#[test]
fn a_petri_net_has_the_same_throughputs() {
    let tasks = [
        ("a", 4, 0.2),
        ("b", 2, 0.174648),
        ("c", 2, 0.174648),
        ("d", 0, 0.140025),
    ];
    let mut builder = Builder::new("one customer of each priority");
    builder.processor("host", Scheduling::PreemptiveResume);
    for (name, priority, _) in tasks {
        builder
            .reference(name, "host")
            .think_time(4.0)
            .priority(priority);
        builder.entry(&format!("{name}.e"), name).service(&[1.0]);
    }
    let model = builder.build().unwrap();
    let solved = lqn::solve(&model);
    for (place, (name, _, expected)) in tasks.into_iter().enumerate() {
        assert_near(name, solved.tasks[place].throughput.value, expected, 1e-5);
    }
}

#[test]
fn equal_priorities_are_served_in_the_order_of_arrival() {
    let expected = lqn::solve(&closed(Scheduling::Fcfs, [0, 9]));
    for scheduling in DISCIPLINES {
        let model = closed(scheduling, [4, 4]);
        assert!(!model.has_priorities());
        assert_eq!(lqn::solve(&model), expected);
    }
}

#[test]
fn both_formats_keep_priorities() {
    for scheduling in DISCIPLINES {
        let model = closed(scheduling, [7, 0]);
        assert!(model.has_priorities());
        assert_eq!(Model::from_text(&model.to_text()).unwrap(), model);
        assert_eq!(Model::from_xml(&model.to_xml()).unwrap(), model);
        let schema = model.to_xml().replace("\"pri\"", "\"pp\"");
        assert_eq!(Model::from_xml(&schema).unwrap(), model);
    }
}

#[test]
fn activities_have_the_priority_of_their_task() {
    let text = "P 0\n p desk i\n p host h\n-1\n\
        T 0\n t users r call -1 desk z 1\n t server i work -1 host 3\n-1\n\
        E 0\n y call work 1 -1\n A work first\n-1\n\
        A server\n s first 0.2\n s last 0.1\n:\n first -> last[work]\n-1\n";
    let model = Model::from_text(text).unwrap();
    let host = model.processor_named("host").unwrap();
    let on_host = model.tasks().iter().filter(|task| task.processor == host);
    assert!(on_host.clone().count() > 1 && !model.has_priorities());
    assert!(on_host.clone().all(|task| task.priority == 3));
}

/// Two or three kinds of customers with servers of several priorities on one host, a disk below, and a log.
fn drawn(scheduling: Scheduling, rng: &mut Rng) -> Model {
    let mut builder = Builder::new("drawn");
    builder.processor("desk", Scheduling::Delay);
    builder
        .processor("host", scheduling)
        .multiplicity(rng.u32(1..=3));
    builder.processor("spindle", Scheduling::Fcfs);
    builder.task("disk", "spindle");
    builder
        .entry("read", "disk")
        .service(&[0.1 + 0.2 * rng.f64()]);
    builder
        .task("log", "host")
        .multiplicity(Multiplicity::Infinite);
    builder
        .entry("note", "log")
        .service(&[0.02 + 0.1 * rng.f64()]);
    for kind in 0..rng.u32(2..=3) {
        let (users, server) = (format!("u{kind}"), format!("s{kind}"));
        builder
            .reference(&users, "desk")
            .multiplicity(Multiplicity::Finite(rng.u32(1..=6)))
            .think_time(2.0 + 4.0 * rng.f64());
        let threads = if rng.bool() {
            Multiplicity::Infinite
        } else {
            Multiplicity::Finite(rng.u32(1..=4))
        };
        builder
            .task(&server, "host")
            .multiplicity(threads)
            .priority(rng.u32(0..4));
        let (call, work) = (format!("{users}.e"), format!("{server}.e"));
        builder.entry(&call, &users).calls(&work, &[1.0]);
        let entry = builder.entry(&work, &server);
        entry.service(&[0.1 + 0.6 * rng.f64()]);
        entry.cvsq(&[[0.5, 1.0, 1.0, 2.0][rng.usize(0..4)]]);
        if rng.bool() {
            entry.calls("read", &[0.2 + rng.f64()]);
        }
        if rng.u32(0..3) == 0 {
            entry.sends("note", &[rng.f64()]);
        }
    }
    builder.build().unwrap()
}

/// `MODELS=30 cargo test -p lqn --test priorities agree -- --nocapture`
#[test]
#[expect(
    clippy::print_stdout,
    reason = "it prints how far they are from each other"
)]
fn solver_and_simulator_agree() {
    let models = std::env::var("MODELS").map_or(2, |number| number.parse().unwrap());
    let mut rng = Rng::with_seed(18);
    for scheduling in DISCIPLINES {
        let (mut throughput, mut utilisation, mut chains) = (0.0_f64, 0.0_f64, 0);
        for _ in 0..models {
            let model = drawn(scheduling, &mut rng);
            let solved = lqn::solve(&model);
            chains += u32::from(solved.method == Method::MarkovChain);
            let simulated = simulate(&model, 1_000_000);
            let off = |one: f64, other: f64| (one / other - 1.0).abs();
            let tasks = model
                .tasks()
                .iter()
                .zip(&solved.tasks)
                .zip(&simulated.tasks);
            for ((_, one), other) in tasks.filter(|((task, _), _)| task.is_reference()) {
                let off = off(one.throughput.value, other.throughput.value);
                throughput = throughput.max(off);
            }
            for (one, other) in solved.processors.iter().zip(&simulated.processors) {
                if other.utilization.value > 0.01 {
                    utilisation =
                        utilisation.max(off(one.utilization.value, other.utilization.value));
                }
            }
        }
        println!(
            "{scheduling:?}: {chains} chains, throughput {:.1} %, utilisation {:.1} % off at most",
            100.0 * throughput,
            100.0 * utilisation
        );
        assert!(throughput < 0.03 && utilisation < 0.05, "{scheduling:?}");
    }
}
