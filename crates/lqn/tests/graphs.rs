//! Activity graphs: read from both formats, simulated, and solved.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use fastrand::Rng;
use lqn::{
    Builder, CallOrder, Method, Model, Multiplicity, Scheduling, SimulationSettings, simulate,
    solve,
};

/// A customer who thinks for 1 and asks a server whose work is a graph.
fn model(customers: u32, graph: &str) -> String {
    format!(
        "P 0\n p desk i\n p host f\n p disk f\n p net f\n-1\n\
         T 0\n t users r call -1 desk z 1 m {customers}\n t server i work -1 host\n\
         \u{20}t disk f read -1 disk\n t net f send -1 net\n-1\n\
         E 0\n s call 0 -1\n f call 1 -1\n y call work 1 -1\n A work first\n s read 0.5 -1\n s send 0.3 -1\n-1\n\
         A server\n s first 0.2\n{graph}-1\n"
    )
}

#[track_caller]
fn throughput(text: &str, events: u64) -> f64 {
    let model = Model::from_text(text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    let settings = SimulationSettings { events };
    let results = simulate(&model, &settings, &mut Rng::with_seed(1), |_| {});
    results.tasks[model.task_named("users").unwrap().0]
        .throughput
        .value
}

/// With a customer there is no queue, so times add up.
#[test]
fn a_customer_takes_the_computed_time() {
    let (a, b) = (0.5, 0.3);
    let least = 1.0 / (1.0 / a + 1.0 / b);
    let most = a + b - least;
    let cases = [
        (
            "sequence",
            " s last 0.1\n:\n first -> last;\n last[work]\n",
            0.1,
        ),
        (
            "choice",
            " s one 1\n s two 2\n s last 0.1\n:\n first -> (0.25) one + (0.75) two;\n\
             \u{20}one + two -> last[work]\n",
            0.1 + 0.25 + 1.5,
        ),
        (
            "loop",
            " s body 0.4\n s more 0.1\n s last 0.1\n:\n first -> 3 * body, last;\n body -> more; last[work]\n",
            1.6,
        ),
        (
            "loop of a mean number",
            " s body 0.4\n s last 0.1\n:\n first -> 2.5 * body, last;\n last[work]\n",
            1.1,
        ),
        (
            "fork",
            " s one 0\n y one read 1\n f one 1\n s two 0\n y two send 1\n f two 1\n s last 0.1\n:\n\
             \u{20}first -> one & two;\n one & two -> last[work]\n",
            most + 0.1,
        ),
        (
            "quorum",
            " s one 0\n y one read 1\n f one 1\n s two 0\n y two send 1\n f two 1\n s last 0.1\n:\n\
             \u{20}first -> one & two;\n one & two (1) -> last[work]\n",
            least + 0.1,
        ),
        (
            "branches on one processor",
            " s one 0.5\n s two 0.3\n s last 0.1\n:\n first -> one & two;\n one & two -> last[work]\n",
            a + b + 0.1,
        ),
        ("early reply", " s last 0.1\n:\n first[work] -> last\n", 0.0),
    ];
    for (what, graph, after_first) in cases {
        let found = throughput(&model(1, graph), 1_000_000);
        let expected = 1.0 / (1.0 + 0.2 + after_first);
        // What goes on after the reply may still hold a processor when the customer is back.
        let bound = match what {
            "early reply" | "quorum" => 0.03,
            _ => 0.006,
        };
        assert!(
            (found / expected - 1.0).abs() < bound,
            "{what}: {found} is not {expected}"
        );
    }
}

#[test]
fn both_formats_say_the_same() {
    let text = model(
        2,
        " s one 0\n y one read 1\n s two 0.1\n s last 0.1\n:\n first -> one & two;\n one & two -> last[work]\n",
    );
    let xml = r#"<lqn-model name="m">
  <processor name="desk" scheduling="inf"><task name="users" scheduling="ref" multiplicity="2" think-time="1">
    <entry name="call" type="PH1PH2"><entry-phase-activities>
      <activity name="c" phase="1" host-demand-mean="0"><synch-call dest="work" calls-mean="1"/></activity>
    </entry-phase-activities></entry></task></processor>
  <processor name="host" scheduling="fcfs"><task name="server" scheduling="inf">
    <entry name="work" type="NONE"/>
    <task-activities>
      <activity name="first" bound-to-entry="work" host-demand-mean="0.2"/>
      <activity name="one" host-demand-mean="0"><synch-call dest="read" calls-mean="1"/></activity>
      <activity name="two" host-demand-mean="0.1"/>
      <activity name="last" host-demand-mean="0.1"/>
      <precedence><pre><activity name="first"/></pre>
        <post-and><activity name="one"/><activity name="two"/></post-and></precedence>
      <precedence><pre-and><activity name="one"/><activity name="two"/></pre-and>
        <post><activity name="last"/></post></precedence>
      <reply-entry name="work"><reply-activity name="last"/></reply-entry>
    </task-activities></task></processor>
  <processor name="disk" scheduling="fcfs"><task name="disk" scheduling="fcfs">
    <entry name="read" type="PH1PH2"><entry-phase-activities><activity name="r" phase="1" host-demand-mean="0.5"/>
    </entry-phase-activities></entry></task></processor>
</lqn-model>"#;
    let (text, xml) = (
        Model::from_text(&text).unwrap(),
        Model::from_xml(xml).unwrap(),
    );
    let names = |model: &Model| {
        let names = model.entries().iter().map(|entry| entry.name.clone());
        let mut names: Vec<String> = names.filter(|name| name != "send").collect();
        names.sort();
        names
    };
    assert_eq!(names(&text), names(&xml));
    let found = [&text, &xml].map(solve);
    let of = |place: usize, model: &Model| {
        found[place].tasks[model.task_named("users").unwrap().0]
            .throughput
            .value
    };
    assert!((of(0, &text) / of(1, &xml) - 1.0).abs() < 0.02);
}

#[test]
fn forks_are_written_and_read_back() {
    let graph = " s one 0\n y one read 1\n s two 0.1\n s last 0.1\n:\n first -> one & two;\n one & two (1) -> last[work]\n";
    let model = Model::from_text(&model(2, graph)).unwrap();
    let again = [
        Model::from_text(&model.to_text()),
        Model::from_xml(&model.to_xml()),
    ];
    let throughput = |model: &Model| {
        let users = model.task_named("users").unwrap();
        solve(model).tasks[users.0].throughput.value
    };
    for again in again {
        let again = again.unwrap_or_else(|problems| panic!("{problems:?}\n{}", model.to_xml()));
        let ratio = throughput(&again) / throughput(&model);
        assert!((ratio - 1.0).abs() < 0.02, "{ratio}\n{}", model.to_text());
    }
}

/// A run takes what the awaited branch takes, and not the other one's three times as long.
#[test]
fn branches_that_are_only_sent_are_not_awaited() {
    let mut builder = Builder::new("fork");
    builder.processor("desk", Scheduling::Delay);
    builder.reference("users", "desk");
    builder
        .entry("run", "users")
        .calls("ask", &[1.0])
        .order(&[CallOrder::Deterministic]);
    for task in ["proxy", "one", "two"] {
        builder
            .task(task, "desk")
            .multiplicity(Multiplicity::Infinite);
    }
    builder.entry("ask", "proxy").forks(&["answer"], &["ring"]);
    builder.entry("answer", "one").service(&[1.0]).cvsq(&[0.0]);
    builder.entry("ring", "two").service(&[3.0]).cvsq(&[0.0]);
    let built = builder.build().unwrap();
    let text = Model::from_text(&built.to_text()).unwrap();
    let xml = Model::from_xml(&built.to_xml()).unwrap();
    for model in [built, text, xml] {
        let found = solve(&model);
        let of = |name: &str| {
            found.tasks[model.task_named(name).unwrap().0]
                .throughput
                .value
        };
        assert!(
            (of("users") - 1.0).abs() < 1e-3,
            "{}\n{}",
            of("users"),
            model.to_text()
        );
        assert!((of("two") - 1.0).abs() < 1e-2, "{}", of("two"));
    }
}

/// One server and Poisson arrivals: M/M/1.
#[test]
fn an_opened_model_has_runs_from_outside() {
    let text = "G \"\" 1e-6 100 1 0.9 -1\nP 0\n p desk i\n p disk f\n-1\nT 0\n t users r run -1 desk m 9\n \
                t driver n read -1 disk\n-1\nE 0\n f run 1 -1\n y run read 1 -1\n s read 2 -1\n-1\n";
    let model = Model::from_text(text).unwrap().opened(0.25);
    let settings = SimulationSettings { events: 2_000_000 };
    let found = simulate(&model, &settings, &mut Rng::with_seed(1), |_| {});
    let run = found.entries[model.entry_named("run").unwrap().0];
    assert!((run.service_time.value / 4.0 - 1.0).abs() < 0.02, "{run:?}");
    assert!((run.throughput.value / 0.25 - 1.0).abs() < 0.01, "{run:?}");
}

#[test]
fn what_is_refused_says_why() {
    let cases = [
        (":\n first -> last\n", "last is no activity"),
        (
            " s one 1\n s two 1\n:\n first -> (0.5) one + (0.4) two;\n one + two -> first\n",
            "the probabilities of a choice add up to 0.9",
        ),
        (
            " s last 1\n:\n first -> last; last -> first\n",
            "first comes after itself",
        ),
        (
            " s one 1\n s two 1\n s last 1\n:\n first -> one & two;\n one + two -> last[work]\n",
            "what goes on in parallel ends in an or-join",
        ),
        (
            " s one 1\n s two 1\n s last 1\n:\n first -> one & two;\n one & two (3) -> last[work]\n",
            "a join waits for 3 of 2 branches",
        ),
        (
            " s one 1\n s two 1\n:\n first -> (0.5) one + (0.5) two;\n one[work]; two[work]\n",
            "the reply to work stands in a branch",
        ),
        (
            " s last 1\n:\n first last\n",
            "end each statement with a semicolon",
        ),
        (" x last 1\n", "begin a line of an activity"),
    ];
    for (graph, expected) in cases {
        let problems = Model::from_text(&model(1, graph)).unwrap_err();
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(
            texts.iter().any(|text| text.contains(expected)),
            "{expected}: {texts:?}"
        );
    }
}

/// Random graphs of a kind.
fn drawn(kind: usize, rng: &mut Rng) -> String {
    let mut time = || 0.05 + 0.5 * rng.f64();
    let times: Vec<f64> = (0..6).map(|_| time()).collect();
    let [a, b, c, d, ..] = times[..] else {
        panic!()
    };
    let calls = " y one read 1\n y two send 1\n";
    let mut work = format!(" s one {a}\n s two {b}\n s last {c}\n{calls}");
    let share = 0.1 + 0.8 * rng.f64();
    let order = match kind {
        0 => "first -> one; one -> two; two -> last[work]".to_owned(),
        1 => format!(
            "first -> ({share}) one + ({}) two; one + two -> last[work]",
            1.0 - share
        ),
        2 => format!(
            "first -> {} * one, {} * two, last; last[work]",
            rng.u32(1..4),
            d * 3.0
        ),
        3 => "first -> one & two; one & two -> last[work]".to_owned(),
        _ => {
            work += &format!(" s three {d}\n");
            let enough = rng.u32(1..3);
            format!("first -> one & two & three; one & two & three ({enough}) -> last[work]")
        }
    };
    model(rng.u32(1..9), &format!("{work}:\n {order}\n"))
}

/// `MODELS=30 cargo test -p lqn --test graphs agree -- --nocapture`
#[test]
#[expect(
    clippy::print_stdout,
    reason = "it prints how far they are from each other"
)]
fn solver_and_simulator_agree() {
    let models = std::env::var("MODELS").map_or(2, |number| number.parse().unwrap());
    let mut rng = Rng::with_seed(11);
    for (kind, what) in ["sequences", "choices", "loops", "forks", "quorums"]
        .iter()
        .enumerate()
    {
        let (mut throughput, mut utilisation) = (0.0_f64, 0.0_f64);
        for _ in 0..models {
            let text = drawn(kind, &mut rng);
            let model = Model::from_text(&text).unwrap();
            let solved = solve(&model);
            let is_fork = kind >= 3;
            assert_eq!(solved.method == Method::Simulation, is_fork, "{text}");
            let settings = SimulationSettings { events: 1_000_000 };
            let simulated = simulate(&model, &settings, &mut Rng::with_seed(2), |_| {});
            let off = |one: f64, other: f64| (one / other - 1.0).abs();
            let users = model.task_named("users").unwrap().0;
            throughput = throughput.max(off(
                solved.tasks[users].throughput.value,
                simulated.tasks[users].throughput.value,
            ));
            for (one, other) in solved.processors.iter().zip(&simulated.processors) {
                if other.utilization.value > 0.01 {
                    utilisation =
                        utilisation.max(off(one.utilization.value, other.utilization.value));
                }
            }
        }
        println!(
            "{what}: throughput {:.1} %, utilisation {:.1} % off at most",
            100.0 * throughput,
            100.0 * utilisation
        );
        assert!(throughput < 0.03 && utilisation < 0.05, "{what}");
    }
}
