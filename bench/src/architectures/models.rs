//! A layered queueing model of each architecture, with the demands that were measured.

use std::{fs, io, path::Path};

use lqn::{Bottleneck, Model, Parameter};

use super::{Architecture, Case, Means, Run, load::Mode};
use crate::range::median;

/// Where the models are.
pub(super) const FOLDER: &str = "experiments/001/architectures";

/// The mode that is modelled.
pub(super) const MODE: Mode = Mode::Stateful;

/// Cores that are tried.
pub(super) const CORES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// What a call takes of each part of a program, in microseconds of CPU time.
#[derive(Clone, Copy, Debug)]
struct Demands {
    /// Of the only thread that reads; nothing where several do.
    reader: f64,
    /// Of this, what goes into new threads.
    creation: f64,
    /// Of those who work, without what they do under a lock.
    work: f64,
    /// Under the lock.
    locked: f64,
}

/// What a model says of a number of cores.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) per_s: f64,
    pub(super) bottleneck: String,
}

/// The architecture's model as text.
pub(super) fn text(architecture: Architecture, runs: &[Run]) -> String {
    model(architecture, demands(architecture, runs))
}

/// Writes all models.
pub(super) fn write(runs: &[Run]) -> io::Result<()> {
    fs::create_dir_all(FOLDER)?;
    for architecture in Architecture::ALL {
        let file = Path::new(FOLDER).join(format!("{}.lqn", architecture.name()));
        fs::write(file, text(architecture, runs))?;
    }
    Ok(())
}

/// Solves a model for a machine with so many cores. None: it is no model, or has no such machine.
pub(super) fn solve(text: &str, changes: &[(&str, f64)]) -> Option<Answer> {
    let model = Model::from_text(text).ok()?;
    let changes = changes
        .iter()
        .map(|&(name, value)| Some((Parameter::named(&model, name).ok()?, value)));
    let model = model.with(&changes.collect::<Option<Vec<_>>>()?).ok()?;
    let results = lqn::solve(&model);
    let call = model.entries().iter().position(|it| it.name == "call")?;
    let bottleneck = results.bottleneck(&model).map(|found| match found {
        Bottleneck::Task(task, _) => model[task].name.clone(),
        Bottleneck::Processor(processor, _) => model[processor].name.clone(),
    });
    Some(Answer {
        per_s: 1e3 * results.entries[call].throughput.value,
        bottleneck: bottleneck.unwrap_or_default(),
    })
}

/// From one core where there is but one thread, from two where threads meet.
fn demands(architecture: Architecture, runs: &[Run]) -> Demands {
    let of = |architecture: Architecture, figure: fn(&Run) -> f64| {
        let cores = match architecture {
            Architecture::EventLoop => 1,
            _ => 2,
        };
        let case = Case::new(architecture, MODE, Means::Turns, cores);
        median(runs.iter().filter(|run| run.case == case).map(figure))
    };
    let all = of(architecture, |run| run.cpu_us);
    let first = |architecture| of(architecture, |run| run.first_us);
    // What the one thread of the event loop does outside of the kernel is the node's work.
    let of_node = of(Architecture::EventLoop, |run| run.user_us);
    let (reader, locked) = match architecture {
        Architecture::EventLoop | Architecture::Processes => (0.0, 0.0),
        Architecture::TwoStage => (first(architecture), 0.0),
        Architecture::Shared => (0.0, of_node),
        Architecture::ThreadPerTransaction => (first(architecture), of_node),
    };
    let creation = match architecture {
        Architecture::ThreadPerTransaction => reader - first(Architecture::TwoStage),
        _ => 0.0,
    };
    Demands {
        reader,
        creation,
        work: all - reader - locked,
        locked,
    }
}

fn model(architecture: Architecture, demands: Demands) -> String {
    let ms = |us: f64| format!("{:.4}", us / 1e3);
    let (work, locked) = (ms(demands.work), ms(demands.locked));
    let read = ms(demands.reader);
    let (tasks, entries) = match architecture {
        Architecture::EventLoop => (
            " t loop n work -1 machine\n".to_owned(),
            format!(" s work {work} -1\n y call work 1 -1\n"),
        ),
        Architecture::Processes => (
            " t worker n work -1 machine m 64\n".to_owned(),
            format!(" s work {work} -1\n y call work 1 -1\n"),
        ),
        Architecture::TwoStage => (
            " t reader n read -1 machine\n t worker n work -1 machine m 64\n".to_owned(),
            format!(" s read {read} -1\n s work {work} -1\n y call read 1 -1\n F read work 1 -1\n"),
        ),
        Architecture::Shared => (
            " t thread n work -1 machine m 64\n t lock n hold -1 machine\n".to_owned(),
            format!(
                " s work {work} -1\n s hold {locked} -1\n y call work 1 -1\n y work hold 1 -1\n"
            ),
        ),
        Architecture::ThreadPerTransaction => (
            " t reader n read -1 machine\n t transaction n work -1 machine m 64\n \
             t lock n hold -1 machine\n"
                .to_owned(),
            format!(
                "# Of which threads are created in {}.\n s read {read} -1\n s work {work} -1\n s hold {locked} -1\n \
                 y call read 1 -1\n F read work 1 -1\n y work hold 1 -1\n",
                ms(demands.creation)
            ),
        ),
    };
    let (name, about) = (architecture.name(), about(architecture));
    format!(
        "# {about}\n# Milliseconds of CPU time for a call through the stateful proxy, by `bench architectures`, which \
         writes this file.\nG \"{name}\" 1e-6 100 1 0.9 -1\nP 0\n p load i\n p machine f m 1\n-1\nT 0\n \
         t users r call -1 load m 64\n{tasks}-1\nE 0\n s call 0 -1\n{entries}-1\n"
    )
}

fn about(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::EventLoop => "One thread does all.",
        Architecture::Processes => "Each worker has a socket and a part of the calls.",
        Architecture::TwoStage => {
            "One thread reads, and passes each message to the worker of its call."
        }
        Architecture::Shared => {
            "All threads read one socket. They share the node, behind a lock: a task of one thread."
        }
        Architecture::ThreadPerTransaction => {
            "One thread reads and creates a thread for each transaction. All share the node, behind a lock."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With few users a model is solved at once.
    fn per_s(text: &str, cores: f64) -> Answer {
        let changes = [
            ("users.multiplicity", 16.0),
            ("machine.multiplicity", cores),
        ];
        solve(text, &changes).expect("it is a model")
    }

    #[test]
    fn every_model_is_solved_and_none_carries_more_than_its_cores() {
        for architecture in Architecture::ALL {
            let file = format!("../{FOLDER}/{}.lqn", architecture.name());
            let text = fs::read_to_string(&file).expect("it is there");
            let [one, two, many] = [1.0, 2.0, 64.0].map(|cores| per_s(&text, cores).per_s);
            assert!(one > 1_000.0, "{file}: {one}");
            assert!(
                two <= 2.001 * one && two > 0.99 * one,
                "{file}: {one}, {two}"
            );
            assert!(many > 0.99 * two, "{file}: {two}, {many}");
        }
    }

    #[test]
    fn what_one_thread_does_alone_bounds_it() {
        let demands = Demands {
            reader: 10.0,
            creation: 4.0,
            work: 25.0,
            locked: 20.0,
        };
        let cases = [
            (Architecture::EventLoop, 1e6 / 25.0, "loop"),
            (Architecture::TwoStage, 1e6 / 10.0, "reader"),
            (Architecture::Shared, 1e6 / 20.0, "lock"),
            (Architecture::ThreadPerTransaction, 1e6 / 20.0, "lock"),
        ];
        for (architecture, bound, bottleneck) in cases {
            let answer = per_s(&model(architecture, demands), 64.0);
            assert!(
                (0.95..=1.001).contains(&(answer.per_s / bound)),
                "{architecture:?}: {answer:?}"
            );
            assert_eq!(answer.bottleneck, bottleneck, "{architecture:?}");
        }
    }
}
