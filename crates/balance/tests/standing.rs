//! Health, draining, backing off and slow starts, on virtual time.

use std::time::Duration;

use balance::{BACK_OFF_MAX, Health, Ineligible, Judge, Server, ServerId};

const FALL: u32 = 2;
const RISE: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    ProbePassed,
    ProbeFailed,
    TimedOut,
    Unreachable(Judge),
    Answered,
    ProbesEnd,
    BackOff(u64),
    Drain,
    Undrain,
    Remove,
    Add,
}
use Judge::{Calls, Probes};
use Step::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn server() -> Server {
    Server::new(ServerId(1), "a", 4.0)
}

/// Applies a step and says whether the server reported a change of health.
fn apply(server: &Server, now: Duration, step: Step) -> bool {
    match step {
        ProbePassed => return server.probe_passed(now, RISE),
        ProbeFailed => return server.probe_failed(now, FALL),
        TimedOut => return server.timed_out(now, FALL),
        Unreachable(judge) => return server.unreachable(now, judge),
        Answered => return server.answered(now),
        ProbesEnd => server.judge_by_calls(now),
        BackOff(wish) => {
            for call in 1..=3 {
                server.back_off(now, call, seconds(wish));
            }
        }
        Drain => server.drain(),
        Undrain => server.undrain(now),
        Remove => server.remove(),
        Add => server.add(now),
    }
    false
}

/// One step a second; after each, the health and whether it was reported to change.
fn check(steps: &[(Step, Health, bool)]) {
    let server = server();
    for (i, (step, health, changed)) in steps.iter().enumerate() {
        let now = seconds(i as u64 + 1);
        assert_eq!(apply(&server, now, *step), *changed, "{i}: {steps:?}");
        assert_eq!(server.health(), *health, "{i}: {steps:?}");
    }
}

#[test]
fn health_changes_after_counted_results_and_says_so_once() {
    use Health::{Down, Up};

    check(&[(ProbePassed, Up, false)]);
    check(&[
        (ProbeFailed, Up, false),
        (ProbeFailed, Down, true),
        (ProbeFailed, Down, false),
        (ProbePassed, Down, false),
        (ProbePassed, Down, false),
        (ProbePassed, Up, true),
        (ProbePassed, Up, false),
    ]);
    // Neither failures nor passes count across a result of the other kind.
    check(&[
        (ProbeFailed, Up, false),
        (ProbePassed, Up, false),
        (ProbeFailed, Up, false),
        (Answered, Up, false),
        (TimedOut, Up, false),
        (ProbeFailed, Down, true),
        (ProbePassed, Down, false),
        (ProbePassed, Down, false),
        (ProbeFailed, Down, false),
        (ProbePassed, Down, false),
        (ProbePassed, Down, false),
        (ProbePassed, Up, true),
    ]);
    check(&[
        (Unreachable(Probes), Down, true),
        (Unreachable(Probes), Down, false),
        (Answered, Down, false),
    ]);
    check(&[
        (Unreachable(Probes), Down, true),
        (ProbePassed, Down, false),
        (ProbePassed, Down, false),
        (ProbePassed, Up, true),
        (Unreachable(Probes), Down, true),
    ]);
}

#[test]
fn without_probes_an_answer_to_a_call_brings_a_server_up() {
    use Health::{Down, Up};

    check(&[
        (TimedOut, Up, false),
        (TimedOut, Down, true),
        (TimedOut, Down, false),
        (Answered, Up, true),
        (Answered, Up, false),
        (TimedOut, Up, false),
    ]);
    // Probes that come take over, and when they end, calls do.
    check(&[
        (Unreachable(Calls), Down, true),
        (ProbeFailed, Down, false),
        (ProbeFailed, Down, false),
        (Answered, Down, false),
        (ProbesEnd, Down, false),
        (Answered, Up, true),
    ]);
    check(&[
        (Unreachable(Probes), Down, true),
        (Remove, Down, false),
        (Add, Up, false),
    ]);
}

#[test]
fn failed_probes_keep_a_server_down() {
    let server = server();
    assert!(server.unreachable(seconds(1), Calls));
    for second in 2..2 + u64::from(FALL) {
        assert!(!server.probe_failed(seconds(second), FALL));
    }
    assert!(!server.answered(seconds(100_000)));
    assert_eq!(server.health(), Health::Down);
}

#[test]
fn what_is_heard_counts_from_its_moment() {
    let server = server();
    assert!(!server.is_known());
    server.hear(seconds(5));
    assert!(server.is_known());
    assert!(server.is_heard_since(seconds(5)));
    assert!(!server.is_heard_since(seconds(6)));
    server.remove();
    server.add(seconds(7));
    assert!(!server.is_known(), "another may listen there now");
}

/// One call that failed over benched each server that relayed its callee's 503, for as long as that asked.
#[test]
fn several_calls_in_a_row_must_ask_to_leave_a_server_alone() {
    /// Calls at their seconds, with what else was served in between; whether the last one counts.
    fn check(refused: &[(u64, u64)], served_before: Option<usize>, expected: bool) {
        let server = server();
        let mut holds = false;
        for (place, (second, call)) in refused.iter().enumerate() {
            if served_before == Some(place) {
                server.serves();
            }
            holds = server.back_off(seconds(*second), *call, seconds(300));
        }
        assert_eq!(holds, expected, "{refused:?}");
        let now = seconds(refused[refused.len() - 1].0);
        assert_eq!(server.is_eligible(now), !expected);
        assert!(server.is_eligible(now + BACK_OFF_MAX));
    }
    check(&[(100, 1)], None, false);
    check(&[(100, 1), (100, 2)], None, false);
    check(&[(100, 1), (100, 2), (100, 3)], None, true);
    check(&[(100, 1), (100, 1), (101, 1), (102, 1)], None, false);
    check(&[(100, 1), (100, 2), (100, 1), (100, 2)], None, false);
    check(&[(100, 1), (104, 2), (109, 3)], None, true);
    check(&[(100, 1), (104, 2), (110, 3)], None, false);
    check(&[(100, 1), (100, 2), (100, 3)], Some(2), false);
}

#[test]
fn who_is_eligible() {
    /// Applies the steps at second 1; what holds then, and what at second 2.
    fn check(steps: &[Step], expected: [Result<(), Ineligible>; 2]) {
        let server = server();
        for step in steps {
            apply(&server, seconds(1), *step);
        }
        let found = [1, 2].map(|second| server.eligibility(seconds(second)));
        assert_eq!(found, expected, "{steps:?}");
        assert_eq!(server.is_eligible(seconds(1)), expected[0].is_ok());
    }
    check(&[], [Ok(()), Ok(())]);
    check(&[Drain], [Err(Ineligible::Draining); 2]);
    check(&[Drain, Undrain], [Ok(()), Ok(())]);
    check(&[Remove, Drain], [Err(Ineligible::Removed); 2]);
    check(&[Remove, Add], [Ok(()), Ok(())]);
    check(&[Unreachable(Probes)], [Err(Ineligible::Down); 2]);
    check(&[Drain, Unreachable(Calls)], [Err(Ineligible::Draining); 2]);
    check(&[BackOff(1)], [Err(Ineligible::BackingOff), Ok(())]);
    // The latest wish holds, and an answer doesn't end it.
    check(&[BackOff(2), BackOff(1)], [Err(Ineligible::BackingOff); 2]);
    check(
        &[BackOff(1), Answered],
        [Err(Ineligible::BackingOff), Ok(())],
    );
    assert_eq!(
        {
            let server = server();
            apply(&server, seconds(1), BackOff(9));
            server.health()
        },
        Health::Up
    );
}

#[test]
fn slow_start_rises_evenly_from_a_tenth() {
    /// Steps at second 100; the effective capacity of 4.0 at these seconds.
    fn check(steps: &[Step], slow_start: u64, expected: &[(u64, f64)]) {
        let server = server();
        for step in steps {
            apply(&server, seconds(100), *step);
        }
        for (second, capacity) in expected {
            let found = server.effective_capacity(seconds(*second), seconds(slow_start));
            assert!(
                (found - capacity).abs() < 1e-9,
                "{steps:?} {second}: {found}"
            );
        }
    }
    let ramp = [(100, 0.4), (105, 2.2), (109, 3.64), (110, 4.0), (999, 4.0)];
    let whole = [(100, 4.0), (101, 4.0)];
    check(&[], 10, &whole);
    check(&[Drain, Undrain], 10, &ramp);
    check(&[Add], 10, &ramp);
    check(
        &[
            ProbeFailed,
            ProbeFailed,
            ProbePassed,
            ProbePassed,
            ProbePassed,
        ],
        10,
        &ramp,
    );
    check(&[Add], 0, &whole);
    // What was not draining doesn't start anew.
    check(&[Undrain], 10, &whole);
    check(&[BackOff(10)], 10, &whole);
}

#[test]
fn capacity_changes_at_once() {
    let server = server();
    server.set_capacity(0.5);
    assert_eq!(server.capacity(), 0.5);
    assert_eq!(server.effective_capacity(seconds(1), seconds(9)), 0.5);
}

#[test]
#[should_panic(expected = "a capacity of 0")]
fn no_capacity_is_no_capacity() {
    server().set_capacity(0.0);
}
