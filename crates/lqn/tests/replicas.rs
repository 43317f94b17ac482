//! Models with copies: they are what the same model written by hand is, and solver and simulator agree on them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use fastrand::Rng;
use lqn::{Builder, Figure, Model, Multiplicity, Scheduling, SimulationSettings};

const TEXT: &str = "G \"two stages\" 1e-6 100 1 0.9 -1
P 0
 p Pu i
 p Pe f r 2
 p Pr f m 2 r 3
-1
T 0
 t users r call -1 Pu z 5 m 8 o edge 2
 t edge n route -1 Pe m 4 r 2 o registrar 3 i users 1
 t registrar n find -1 Pr r 3 i edge 2
-1
E 0
 y call route 0.5 -1
 s route 0.4 -1
 y route find 0.3333 -1
 s find 0.9 -1
-1
";

const FLAT: &str = "G \"two stages\" 1e-6 100 1 0.9 -1
P 0
 p Pu i
 p Pe_1 f
 p Pe_2 f
 p Pr_1 f m 2
 p Pr_2 f m 2
 p Pr_3 f m 2
-1
T 0
 t users r call -1 Pu z 5 m 8
 t edge_1 n route_1 -1 Pe_1 m 4
 t edge_2 n route_2 -1 Pe_2 m 4
 t registrar_1 n find_1 -1 Pr_1
 t registrar_2 n find_2 -1 Pr_2
 t registrar_3 n find_3 -1 Pr_3
-1
E 0
 y call route_1 0.5 -1
 y call route_2 0.5 -1
 s route_1 0.4 -1
 y route_1 find_1 0.3333 -1
 y route_1 find_2 0.3333 -1
 y route_1 find_3 0.3333 -1
 s route_2 0.4 -1
 y route_2 find_1 0.3333 -1
 y route_2 find_2 0.3333 -1
 y route_2 find_3 0.3333 -1
 s find_1 0.9 -1
 s find_2 0.9 -1
 s find_3 0.9 -1
-1
";

const XML: &str = r#"<lqn-model name="m">
  <solver-params comment="two stages"/>
  <processor name="Pu" scheduling="inf">
    <task name="users" scheduling="ref" multiplicity="8" think-time="5">
      <fan-out dest="edge" value="2"/>
      <entry name="call" type="PH1PH2"><entry-phase-activities>
        <activity name="a" phase="1" host-demand-mean="0"><synch-call dest="route" calls-mean="0.5"/></activity>
      </entry-phase-activities></entry>
    </task>
  </processor>
  <processor name="Pe" scheduling="fcfs" replication="2">
    <task name="edge" multiplicity="4" replication="2">
      <fan-in source="users" value="1"/>
      <fan-out dest="registrar" value="3"/>
      <entry name="route" type="PH1PH2"><entry-phase-activities>
        <activity name="b" phase="1" host-demand-mean="0.4"><synch-call dest="find" calls-mean="0.3333"/></activity>
      </entry-phase-activities></entry>
    </task>
  </processor>
  <processor name="Pr" scheduling="fcfs" multiplicity="2" replication="3">
    <task name="registrar" replication="3">
      <fan-in source="edge" value="2"/>
      <entry name="find" type="PH1PH2"><entry-phase-activities>
        <activity name="c" phase="1" host-demand-mean="0.9"/>
      </entry-phase-activities></entry>
    </task>
  </processor>
</lqn-model>
"#;

#[test]
fn copies_are_the_model_written_by_hand() {
    let flat = Model::from_text(FLAT).unwrap();
    assert_eq!(Model::from_text(TEXT).unwrap(), flat);
    assert_eq!(Model::from_xml(XML).unwrap(), flat);
    let one_side = TEXT.replace(" i users 1", "").replace(" o registrar 3", "");
    assert_eq!(Model::from_text(&one_side).unwrap(), flat);
}

/// Three pairs of copies: a caller's copy and its processor's copy go together.
#[test]
fn copies_of_both_sides_are_pairs() {
    let mut builder = Builder::new("pairs");
    builder.processor("P", Scheduling::Fcfs).replicas(3);
    builder.processor("Q", Scheduling::Fcfs);
    builder
        .reference("users", "P")
        .replicas(6)
        .multiplicity(Multiplicity::Finite(2));
    builder.task("server", "Q").replicas(6);
    builder.entry("call", "users").calls("serve", &[1.0]);
    builder.entry("serve", "server").service(&[1.0]);
    let model = builder.build().unwrap();
    assert_eq!(model.processors().len(), 4);
    for (place, task) in model.tasks()[..6].iter().enumerate() {
        assert_eq!(task.processor.0, place / 2, "{}", task.name);
        let called = model[task.entries[0]].phases[0].calls[0].target;
        assert_eq!(model[called].name, format!("serve_{}", place + 1));
    }
}

#[test]
fn copies_that_do_not_fit_have_their_line() {
    let cases = [
        (
            "r 3 i edge 2",
            "r 3 i edge 1",
            "line 15: 2 copies of task edge call 3 copies each (fan-out), and 3 copies of task registrar are \
             called by 1 each (fan-in): 2 x 3 must be 3 x 1",
        ),
        (
            "m 8 o edge 2",
            "m 8 o edge 4",
            "line 13: 1 copies of task users call 4 copies each (fan-out), and 2 copies of task edge are \
             called by 1 each (fan-in): 1 x 4 must be 2 x 1",
        ),
        (
            "Pe m 4 r 2",
            "Pe m 4 r 3",
            "line 9: task edge has 3 copies on 2 copies of processor Pe: write as many (r 2) or a multiple",
        ),
        (
            "p Pe f r 2",
            "p Pe f r 0",
            "line 4: processor Pe has 0 copies: write at least 1",
        ),
        (
            "p Pe f r 2",
            "p Pe f r 4000000000",
            "4000000010 copies of processors and tasks: write at most 1000 (r) and use m for servers that \
             share a queue",
        ),
        (
            " y route find 0.3333 -1",
            " F route find 0.3333 -1",
            "line 15: entry route forwards to 3 copies of registrar: a request is forwarded to one",
        ),
    ];
    for (good, bad, expected) in cases {
        let text = TEXT.replacen(good, bad, 1);
        assert_ne!(text, TEXT, "{good}");
        let problems = Model::from_text(&text).unwrap_err();
        let found: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert!(
            found.iter().any(|problem| problem == expected),
            "{bad}: {found:#?}"
        );
    }
}

/// Models of two stages with copies of each stage, and a store for each copy of the second.
fn two_stages(rng: &mut Rng) -> Model {
    let between = |rng: &mut Rng, least: f64, most: f64| least + (most - least) * rng.f64();
    let (edges, registrars) = (rng.u32(1..=3), rng.u32(2..=4));
    let mut builder = Builder::new("two stages");
    builder.processor("desk", Scheduling::Delay);
    builder
        .processor("edge_host", Scheduling::Fcfs)
        .replicas(edges);
    builder
        .processor("registrar_host", Scheduling::Fcfs)
        .replicas(registrars);
    builder
        .processor("disk", Scheduling::Fcfs)
        .replicas(registrars);
    builder
        .reference("users", "desk")
        .multiplicity(Multiplicity::Finite(rng.u32(2..=20)))
        .think_time(between(rng, 0.5, 5.0))
        .fan_out("edge", edges);
    builder
        .task("edge", "edge_host")
        .replicas(edges)
        .multiplicity(Multiplicity::Infinite)
        .fan_out("registrar", registrars);
    builder
        .task("registrar", "registrar_host")
        .replicas(registrars)
        .multiplicity(Multiplicity::Infinite);
    builder.task("store", "disk").replicas(registrars);
    builder
        .entry("call", "users")
        .calls("route", &[1.0 / f64::from(edges)]);
    builder
        .entry("route", "edge")
        .service(&[between(rng, 0.1, 0.5)])
        .calls("find", &[1.0 / f64::from(registrars)]);
    builder
        .entry("find", "registrar")
        .service(&[between(rng, 0.2, 1.0)])
        .calls("read", &[between(rng, 0.2, 1.0)]);
    builder
        .entry("read", "store")
        .service(&[between(rng, 0.1, 0.8)]);
    builder.build().unwrap()
}

#[test]
fn solver_and_simulator_agree_on_two_stages_with_copies() {
    let given = |name: &str, default: u64| {
        let value = std::env::var(name).ok();
        value.map_or(default, |text| text.parse().unwrap())
    };
    let models = given("MODELS", 4);
    let events = given("EVENTS", 2_000_000);
    let settings = SimulationSettings { events };
    let (mut worst, mut missed) = ([0.0_f64; 2], Vec::new());
    for seed in 0..models {
        let mut rng = Rng::with_seed(seed);
        let model = two_stages(&mut rng);
        let solved = lqn::solve(&model);
        assert!(solved.converged, "{seed}");
        let simulated = lqn::simulate(&model, &settings, &mut rng, |_| {});
        let mut compare = |what: usize, name: &str, ours: Figure, theirs: Figure| {
            let off = (ours.value - theirs.value).abs() / theirs.value;
            worst[what] = worst[what].max(off);
            if off > [0.03, 0.05][what] {
                missed.push(format!(
                    "{seed} {name} ({:?}): {:.1} %, interval {:.1} %",
                    solved.method,
                    100.0 * off,
                    100.0 * theirs.ci95.unwrap_or(0.0) / theirs.value
                ));
            }
        };
        for (place, task) in model.tasks().iter().enumerate() {
            let (ours, theirs) = (&solved.tasks[place], &simulated.tasks[place]);
            compare(0, &task.name, ours.throughput, theirs.throughput);
            compare(1, &task.name, ours.utilization, theirs.utilization);
        }
        for (place, processor) in model.processors().iter().enumerate() {
            let (ours, theirs) = (&solved.processors[place], &simulated.processors[place]);
            compare(1, &processor.name, ours.utilization, theirs.utilization);
        }
    }
    eprintln!(
        "throughput {:.2} %, utilisation {:.2} %",
        100.0 * worst[0],
        100.0 * worst[1]
    );
    assert!(missed.is_empty(), "{missed:#?}");
}
