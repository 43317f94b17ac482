//! Semaphores and locks of readers and writers: known sums, balance equations, random models, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;
use lqn::{
    Builder, CallOrder, Locking, Method, Model, Multiplicity, Results, Scheduling,
    SimulationSettings,
};

fn simulate(model: &Model, events: u64) -> Results {
    let settings = SimulationSettings { events };
    // The solver's own simulations have seed 1.
    lqn::simulate(model, &settings, &mut Rng::with_seed(2), |_| {})
}

fn throughput(model: &Model, results: &Results, task: &str) -> f64 {
    let task = model.task_named(task).unwrap();
    results.task(task).throughput.value
}

fn utilization(model: &Model, results: &Results, task: &str) -> f64 {
    let task = model.task_named(task).unwrap();
    results.task(task).utilization.value
}

#[track_caller]
fn assert_near(what: &str, found: f64, expected: f64, bound: f64) {
    let off = found / expected - 1.0;
    assert!(off.abs() < bound, "{what}: {found} is not {expected}");
}

/// Customers who think for 1 and wait, work for 0.5 and signal. The semaphore's own work is 0.2 and 0.1.
fn guarded(customers: u32, semaphore: &str) -> String {
    format!(
        "P 0\n p desk i\n p section i\n p cpu i\n-1\n\
         T 0\n t users r call -1 desk z 1 m {customers}\n t critical i work -1 section\n\
         \u{20}t gate S pass back -1 cpu{semaphore}\n-1\n\
         E 0\n s call 0 -1\n f call 1 -1\n y call pass 1 -1\n y call work 1 -1\n y call back 1 -1\n\
         \u{20}s work 0.5 -1\n V pass\n s pass 0.2 -1\n P back\n s back 0.1 -1\n-1\n"
    )
}

#[test]
fn a_customer_takes_the_computed_time() {
    let model = Model::from_text(&guarded(1, "")).unwrap();
    let results = simulate(&model, 300_000);
    let cycle = 1.0 + 0.2 + 0.5 + 0.1;
    assert_near(
        "cycles",
        throughput(&model, &results, "users"),
        1.0 / cycle,
        0.01,
    );
    // The token is taken until the signal was served.
    assert_near(
        "token",
        utilization(&model, &results, "gate"),
        0.8 / cycle,
        0.01,
    );
    assert_eq!(lqn::solve(&model).method, Method::Simulation);
}

/// Two customers and a token are a repairman with two machines.
#[test]
fn two_customers_wait_for_each_other() {
    let text = guarded(2, "")
        .replace("s pass 0.2", "s pass 0")
        .replace("s back 0.1", "s back 0");
    let model = Model::from_text(&text).unwrap();
    let results = simulate(&model, 600_000);
    let load: f64 = 0.5;
    let idle = 1.0 / (1.0 + 2.0 * load + 2.0 * load * load);
    let found = throughput(&model, &results, "users");
    assert_near("cycles", found, (1.0 - idle) / 0.5, 0.01);
    assert_near(
        "token",
        utilization(&model, &results, "gate"),
        1.0 - idle,
        0.01,
    );
}

/// The critical section has no thread limit and a processor for each of its threads, so only the semaphore keeps
/// customers out of it.
#[test]
fn no_more_are_inside_than_there_are_tokens() {
    for tokens in [1, 2, 5] {
        let text = guarded(40, &format!(" m {tokens}")).replace("z 1", "z 0.1");
        let model = Model::from_text(&text).unwrap();
        let results = simulate(&model, 200_000);
        let inside = utilization(&model, &results, "critical");
        let most = f64::from(tokens);
        assert_near("inside", inside, most * 0.5 / 0.8, 0.02);
        assert!(utilization(&model, &results, "gate") <= most * (1.0 + 1e-9));
    }
}

/// A buffer of one place: whoever fills it and whoever empties it take turns, so their times add up.
#[test]
fn tokens_may_be_missing_at_first() {
    let text = "P 0\n p desk i\n p cpu i\n-1\n\
        T 0\n t source r fill -1 desk\n t sink r empty -1 desk\n t full S stored taken -1 cpu T 0\n\
        \u{20}t room S reserve leave -1 cpu\n-1\n\
        E 0\n s fill 0 0.6 0 -1\n f fill 1 1 1 -1\n y fill reserve 1 -1\n z fill stored 0 0 1 -1\n\
        \u{20}s empty 0 0.8 0 -1\n f empty 1 1 1 -1\n y empty taken 1 -1\n z empty leave 0 0 1 -1\n\
        \u{20}P stored\n V taken\n V reserve\n P leave\n-1\n";
    let model = Model::from_text(text).unwrap();
    let results = simulate(&model, 400_000);
    for task in ["source", "sink"] {
        assert_near(
            task,
            throughput(&model, &results, task),
            1.0 / (0.6 + 0.8),
            0.01,
        );
    }
    let lost: f64 = results.entries.iter().map(|entry| entry.lost.value).sum();
    assert_eq!(lost, 0.0);
}

#[test]
fn a_signal_that_gives_nothing_back_is_lost() {
    let text = guarded(1, "").replace("y call work 1 -1", "y call back 1 -1\n y call work 1 -1");
    let model = Model::from_text(&text).unwrap();
    let results = simulate(&model, 200_000);
    let cycle = 1.0 + 0.2 + 0.5 + 0.1;
    let found = throughput(&model, &results, "users");
    assert_near("cycles", found, 1.0 / cycle, 0.01);
    let back = model.entry_named("back").unwrap();
    assert_near("lost", results.entry(back).lost.value, found, 0.01);
}

#[test]
fn a_deadlock_does_not_settle() {
    let text = "P 0\n p desk i\n-1\n\
        T 0\n t one r a -1 desk\n t other r b -1 desk\n t left S l lb -1 desk\n t right S r rb -1 desk\n-1\n\
        E 0\n s a 1 -1\n f a 1 -1\n y a l 1 -1\n y a r 1 -1\n y a rb 1 -1\n y a lb 1 -1\n\
        \u{20}s b 1 -1\n f b 1 -1\n y b r 1 -1\n y b l 1 -1\n y b lb 1 -1\n y b rb 1 -1\n\
        \u{20}V l\n P lb\n V r\n P rb\n-1\n";
    let model = Model::from_text(text).unwrap();
    let results = simulate(&model, 100_000);
    assert_eq!(throughput(&model, &results, "one"), 0.0);
    assert!(!results.converged);
}

/// Customers who read or write.
#[derive(Clone, Copy)]
struct Kind {
    customers: u32,
    think_time: f64,
    hold_time: f64,
}

fn shared(readers: Kind, writers: Kind, readers_max: u32) -> Model {
    let mut builder = Builder::new("shared");
    builder.processor("desk", Scheduling::Delay);
    let lock = builder.read_write_lock("lock", "desk");
    lock.multiplicity(Multiplicity::Finite(readers_max));
    for (name, locking) in [
        ("rl", Locking::ReadLock),
        ("ru", Locking::ReadUnlock),
        ("wl", Locking::WriteLock),
        ("wu", Locking::WriteUnlock),
    ] {
        builder.entry(name, "lock").locking(locking);
    }
    for (users, kind, begin, end) in [
        ("readers", readers, "rl", "ru"),
        ("writers", writers, "wl", "wu"),
    ] {
        let (call, section, work) = (
            format!("{users}.e"),
            format!("{users}.s"),
            format!("{users}.w"),
        );
        builder
            .reference(users, "desk")
            .multiplicity(Multiplicity::Finite(kind.customers))
            .think_time(kind.think_time);
        let entry = builder.entry(&call, users);
        entry
            .calls(begin, &[1.0])
            .calls(&work, &[1.0])
            .calls(end, &[1.0]);
        entry.order(&[CallOrder::Deterministic]);
        let task = builder.task(&section, "desk");
        task.multiplicity(Multiplicity::Infinite);
        builder.entry(&work, &section).service(&[kind.hold_time]);
    }
    builder.build().unwrap()
}

/// Readers and writers inside, then those that wait (whether they write), in the order in which they came.
type State = (u32, u32, VecDeque<bool>);

/// Lets in whom there is room for.
fn let_in((mut reading, mut writing, mut waiting): State, readers_max: u32) -> State {
    while let Some(&writes) = waiting.front() {
        if writing > 0 || writes && reading > 0 || reading == readers_max {
            break;
        }
        waiting.pop_front();
        reading += u32::from(!writes);
        writing += u32::from(writes);
    }
    (reading, writing, waiting)
}

/// The throughputs of readers and writers by balance equations.
fn balanced(readers: Kind, writers: Kind, readers_max: u32) -> [f64; 2] {
    let mut states = vec![(0, 0, VecDeque::new())];
    let mut ids = BTreeMap::from([(states[0].clone(), 0)]);
    let mut moves = Vec::new();
    let mut from = 0;
    while let Some((reading, writing, waiting)) = states.get(from).cloned() {
        let queued = |writes| waiting.iter().filter(|it| **it == writes).count() as u32;
        let mut found = Vec::new();
        for (writes, kind, inside) in [(false, readers, reading), (true, writers, writing)] {
            let thinking = kind.customers - inside - queued(writes);
            let mut with_one_more = waiting.clone();
            with_one_more.push_back(writes);
            let rate = f64::from(thinking) / kind.think_time;
            found.push(((reading, writing, with_one_more), rate));
            let left = (
                reading.saturating_sub(u32::from(!writes)),
                writing.saturating_sub(u32::from(writes)),
                waiting.clone(),
            );
            found.push((left, f64::from(inside) / kind.hold_time));
        }
        for (state, rate) in found.into_iter().filter(|it| it.1 > 0.0) {
            let state = let_in(state, readers_max);
            let next = states.len();
            let to = *ids.entry(state).or_insert_with_key(|state| {
                states.push(state.clone());
                next
            });
            moves.push((from, to, rate));
        }
        from += 1;
    }
    let mut chances = vec![1.0 / states.len() as f64; states.len()];
    for _ in 0..5_000 {
        let before = chances.clone();
        for &(from, to, rate) in &moves {
            chances[from] -= 0.02 * rate * before[from];
            chances[to] += 0.02 * rate * before[from];
        }
    }
    let mut inside = [0.0; 2];
    for ((reading, writing, _), chance) in states.iter().zip(&chances) {
        inside[0] += chance * f64::from(*reading);
        inside[1] += chance * f64::from(*writing);
    }
    [inside[0] / readers.hold_time, inside[1] / writers.hold_time]
}

#[test]
fn readers_and_a_writer_keep_the_balance_equations() {
    let kind = |customers, think_time, hold_time| Kind {
        customers,
        think_time,
        hold_time,
    };
    let (readers, writers) = (kind(3, 1.0, 0.7), kind(2, 2.0, 0.4));
    for readers_max in [1, 2, 3] {
        let model = shared(readers, writers, readers_max);
        let results = simulate(&model, 500_000);
        let expected = balanced(readers, writers, readers_max);
        let mut held = 0.0;
        for ((task, kind), expected) in [("readers", readers), ("writers", writers)]
            .into_iter()
            .zip(expected)
        {
            assert_near(task, throughput(&model, &results, task), expected, 0.015);
            held += expected * kind.hold_time;
        }
        assert_near("lock", utilization(&model, &results, "lock"), held, 0.01);
    }
}

#[test]
fn writers_are_alone() {
    let kind = Kind {
        customers: 20,
        think_time: 0.1,
        hold_time: 0.5,
    };
    let nobody = Kind {
        customers: 1,
        think_time: 1e6,
        hold_time: 1.0,
    };
    let model = shared(nobody, kind, 20);
    let inside = utilization(&model, &simulate(&model, 100_000), "writers.s");
    assert!((0.98..=1.0 + 1e-9).contains(&inside), "{inside}");
    let model = shared(kind, nobody, 20);
    let inside = utilization(&model, &simulate(&model, 100_000), "readers.s");
    assert_near("readers", inside, 20.0 * 0.5 / 0.6, 0.02);
}

#[test]
fn both_formats_keep_semaphores_and_locks() {
    let kind = Kind {
        customers: 2,
        think_time: 1.0,
        hold_time: 1.0,
    };
    let semaphore = Model::from_text(&guarded(2, " 4 m 3 T 0")).unwrap();
    let text = shared(kind, kind, 4).to_text();
    for model in [semaphore, Model::from_text(&text).unwrap()] {
        assert_eq!(Model::from_text(&model.to_text()).unwrap(), model);
        let xml = Model::from_xml(&model.to_xml()).unwrap();
        assert_eq!(Model::from_xml(&xml.to_xml()).unwrap(), xml);
        assert_eq!(xml.tasks().len(), model.tasks().len());
        for task in model.tasks() {
            let other = &xml[xml.task_named(&task.name).unwrap()];
            assert_eq!(
                (other.role, other.multiplicity),
                (task.role, task.multiplicity)
            );
        }
        for entry in model.entries() {
            let other = &xml[xml.entry_named(&entry.name).unwrap()];
            assert_eq!(other.locking, entry.locking);
        }
    }
}

#[test]
fn what_is_refused_says_why() {
    let cases = [
        (
            " P back\n",
            "",
            "line 9: entries of task gate: a semaphore has two entries",
        ),
        (
            " P back\n",
            " V back\n",
            "line 9: entries of task gate: a semaphore has two entries",
        ),
        (
            "gate S",
            "gate W",
            "line 9: entries of task gate: a lock has four entries",
        ),
        (
            "gate S",
            "gate n",
            "line 9: entry pass waits, signals, locks or unlocks, but task gate is neither",
        ),
        (
            "-1 cpu",
            "-1 cpu T 2",
            "line 9: semaphore gate begins with 2 of its 1 tokens: write at most 1",
        ),
        (
            "-1 cpu",
            "-1 cpu i",
            "line 9: task gate never keeps a request waiting: write a number of tokens",
        ),
        (
            " y call pass",
            " z call pass",
            "line 9: entry pass gets requests that nobody waits for",
        ),
        (
            " y call back 1 -1\n",
            "",
            "line 9: entry pass is called and entry back is not",
        ),
    ];
    for (good, bad, expected) in cases {
        let text = guarded(1, "");
        let changed = text.replacen(good, bad, 1);
        assert_ne!(changed, text, "{good}");
        let problems = Model::from_text(&changed).unwrap_err();
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(
            texts.iter().any(|text| text.starts_with(expected)),
            "{expected}: {texts:#?}"
        );
    }
    let xml = Model::from_text(&guarded(1, "")).unwrap().to_xml();
    let changed = xml.replace("semaphore=\"signal\"", "semaphore=\"up\"");
    let problems = Model::from_xml(&changed).unwrap_err();
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let told = "semaphore=\"up\": write wait or signal";
    assert!(texts.iter().any(|text| text.contains(told)), "{texts:?}");
}

/// Two kinds of customers at a semaphore; and the same with a task of as many threads in its place.
fn drawn(rng: &mut Rng) -> [Model; 2] {
    let mut time = || 0.05 + 0.5 * rng.f64();
    let times: Vec<f64> = (0..7).map(|_| time()).collect();
    let [wait, signal, first, second, other, read, _] = times[..] else {
        panic!()
    };
    let (tokens, servers) = (rng.u32(1..=3), rng.u32(1..=2));
    let customers = [rng.u32(1..=5), rng.u32(1..=5)];
    let think_times = [1.0 + 3.0 * rng.f64(), 1.0 + 3.0 * rng.f64()];
    let reads = rng.u32(0..=2);
    let model = |gate: &str, called: [&str; 2], entries: &str| {
        let users = |kind: usize| {
            let (number, think_time) = (customers[kind], think_times[kind]);
            format!(" t users{kind} r call{kind} -1 desk z {think_time} m {number}\n")
        };
        let calls = |kind: usize, names: &str| -> String {
            let calls = names
                .split(' ')
                .map(|name| format!(" y call{kind} {name} 1 -1\n"));
            format!(" s call{kind} 0 -1\n f call{kind} 1 -1\n") + &calls.collect::<String>()
        };
        let text = format!(
            "P 0\n p desk i\n p cpu f m {servers}\n p disk f\n-1\n\
             T 0\n{}{} t section i work0 work1 other -1 cpu\n t disk f read -1 disk\n{gate}-1\n\
             E 0\n{}{} s work0 {first} -1\n f work0 1 -1\n y work0 read {reads} -1\n\
             \u{20}s work1 {second} -1\n s other {other} -1\n s read {read} -1\n\
             \u{20}s pass {wait} -1\n s back {signal} -1\n{entries}-1\n",
            users(0),
            users(1),
            calls(0, called[0]),
            calls(1, called[1]),
        );
        Model::from_text(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"))
    };
    let guarded = model(
        &format!(" t gate S pass back -1 cpu m {tokens}\n"),
        ["other pass work0 back", "pass work1 back other"],
        " V pass\n P back\n",
    );
    let inner = |kind: usize| {
        format!(
            " s inside{kind} 0 -1\n f inside{kind} 1 -1\n y inside{kind} pass 1 -1\n\
             \u{20}y inside{kind} work{kind} 1 -1\n y inside{kind} back 1 -1\n"
        )
    };
    let threaded = model(
        &format!(" t gate n inside0 inside1 -1 desk m {tokens}\n t work i pass back -1 cpu\n"),
        ["other inside0", "inside1 other"],
        &(inner(0) + &inner(1)),
    );
    [guarded, threaded]
}

/// The farthest that two figures of a kind are from each other.
#[derive(Default)]
struct Farthest {
    throughput: f64,
    utilisation: f64,
}

impl Farthest {
    fn throughput(&mut self, found: f64, expected: f64) {
        self.throughput = self.throughput.max((found / expected - 1.0).abs());
    }

    fn utilisation(&mut self, found: f64, expected: f64) {
        if expected > 0.01 {
            self.utilisation = self.utilisation.max((found / expected - 1.0).abs());
        }
    }

    #[expect(
        clippy::print_stdout,
        reason = "it prints how far they are from each other"
    )]
    fn check(&self, what: &str) {
        println!(
            "{what}: throughput {:.1} %, utilisation {:.1} % off at most",
            100.0 * self.throughput,
            100.0 * self.utilisation
        );
        assert!(self.throughput < 0.03 && self.utilisation < 0.05, "{what}");
    }
}

fn models() -> u32 {
    std::env::var("MODELS").map_or(2, |number| number.parse().unwrap())
}

/// `MODELS=30 cargo test -p lqn --test locks agree -- --nocapture`
#[test]
fn semaphores_and_threads_agree() {
    let mut rng = Rng::with_seed(18);
    let (mut semaphores, mut threads) = (Farthest::default(), Farthest::default());
    for _ in 0..models() {
        let [guarded, threaded] = drawn(&mut rng);
        let expected = simulate(&threaded, 1_000_000);
        for (farthest, model) in [(&mut semaphores, &guarded), (&mut threads, &threaded)] {
            let solved = lqn::solve(model);
            for users in ["users0", "users1"] {
                farthest.throughput(
                    throughput(model, &solved, users),
                    throughput(&threaded, &expected, users),
                );
            }
            farthest.utilisation(
                utilization(model, &solved, "gate"),
                utilization(&threaded, &expected, "gate"),
            );
            for (one, other) in solved.processors.iter().zip(&expected.processors) {
                farthest.utilisation(one.utilization.value, other.utilization.value);
            }
        }
    }
    semaphores.check("semaphores");
    threads.check("as many threads");
}

/// `MODELS=30 cargo test -p lqn --test locks agree -- --nocapture`
#[test]
fn locks_and_balance_equations_agree() {
    let mut rng = Rng::with_seed(18);
    let mut farthest = Farthest::default();
    for _ in 0..models() {
        let mut kind = || Kind {
            customers: rng.u32(1..=4),
            think_time: 0.5 + 3.0 * rng.f64(),
            hold_time: 0.1 + rng.f64(),
        };
        let kinds = [kind(), kind()];
        let readers_max = rng.u32(1..=4);
        let model = shared(kinds[0], kinds[1], readers_max);
        let solved = lqn::solve(&model);
        let expected = balanced(kinds[0], kinds[1], readers_max);
        let mut held = 0.0;
        for ((task, kind), expected) in ["readers", "writers"].into_iter().zip(kinds).zip(expected)
        {
            farthest.throughput(throughput(&model, &solved, task), expected);
            held += expected * kind.hold_time;
        }
        farthest.utilisation(utilization(&model, &solved, "lock"), held);
    }
    farthest.check("locks");
}
