//! Reads stages from arguments and from models.

use lqn::{Model, Multiplicity, Role};

use super::capacity::Stage;

/// A stage from `NAME:call-ms=MS[,registration-ms=MS][,cores=N][,nodes=N]`.
pub(super) fn stage(text: &str) -> Result<Stage, String> {
    let form = "write NAME:call-ms=MS,registration-ms=MS,cores=N,nodes=N";
    let (name, values) = text.split_once(':').ok_or(form)?;
    let mut stage = Stage {
        name: name.to_owned(),
        call_ms: 0.0,
        registration_ms: 0.0,
        cores: 1,
        nodes: None,
    };
    for value in values.split(',') {
        let (key, value) = value.split_once('=').ok_or(form)?;
        match key.trim() {
            "call-ms" => stage.call_ms = time(value)?,
            "registration-ms" => stage.registration_ms = time(value)?,
            "cores" => stage.cores = count(value)?,
            "nodes" => stage.nodes = Some(count(value)?),
            other => return Err(format!("`{other}` is not a property of a stage: {form}")),
        }
    }
    if stage.call_ms + stage.registration_ms > 0.0 {
        Ok(stage)
    } else {
        Err(format!(
            "stage {name} costs nothing: give it call-ms, registration-ms or both"
        ))
    }
}

/// The cores of a node from `NAME=NUMBER`.
pub(super) fn cores(text: &str) -> Result<(String, u32), String> {
    let (name, cores) = text.split_once('=').ok_or("write NAME=NUMBER")?;
    Ok((name.to_owned(), count(cores)?))
}

fn time(text: &str) -> Result<f64, String> {
    let time = text
        .trim()
        .parse()
        .ok()
        .filter(|time: &f64| time.is_finite() && *time >= 0.0);
    time.ok_or_else(|| format!("`{text}` is not a time: write milliseconds, at least 0"))
}

fn count(text: &str) -> Result<u32, String> {
    let count = text.trim().parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("`{text}` is not a number above 0"))
}

/// Makes a stage of each processor of a model. The model's times must be milliseconds, and its
/// reference tasks must make calls.
pub(super) fn stages_of(model: &Model) -> Result<Vec<Stage>, String> {
    let circle =
        "the model's calls form a circle, so the cost of a call has no limit: break the circle";
    let visits = visits(model).ok_or(circle)?;
    let mut stages: Vec<Option<Stage>> = model
        .processors()
        .iter()
        .map(|processor| match processor.servers() {
            Multiplicity::Infinite => None,
            Multiplicity::Finite(cores) => Some(Stage {
                name: processor.name.clone(),
                call_ms: 0.0,
                registration_ms: 0.0,
                cores,
                nodes: None,
            }),
        })
        .collect();
    for (entry, visits) in model.entries().iter().zip(visits) {
        let processor = model[entry.task].processor;
        if let Some(stage) = &mut stages[processor.0] {
            let service: f64 = entry.phases.iter().map(|phase| phase.service_time).sum();
            stage.call_ms += visits * service / model[processor].speed;
        }
    }
    Ok(stages
        .into_iter()
        .flatten()
        .filter(|stage| stage.call_ms > 0.0)
        .collect())
}

/// How often each entry runs for one run of the reference tasks; none if the calls form a circle.
fn visits(model: &Model) -> Option<Vec<f64>> {
    let entries = model.entries();
    let is_reference =
        |entry: &lqn::Entry| matches!(model[entry.task].role, Role::Reference { .. });
    let mut next: Vec<f64> = entries
        .iter()
        .map(|entry| f64::from(u8::from(is_reference(entry))))
        .collect();
    let mut visits = vec![0.0; entries.len()];
    // Without a circle no way is longer than there are entries.
    for _ in 0..=entries.len() {
        let now = std::mem::replace(&mut next, vec![0.0; entries.len()]);
        for (place, entry) in entries.iter().enumerate() {
            visits[place] += now[place];
            for call in entry.phases.iter().flat_map(|phase| &phase.calls) {
                next[call.target.0] += now[place] * call.mean;
            }
            for forward in &entry.forwards {
                next[forward.target.0] += now[place] * forward.probability;
            }
        }
    }
    next.iter().all(|&more| more == 0.0).then_some(visits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_read() {
        let app = stage("app:call-ms=2.6,registration-ms=0.4,cores=4,nodes=3").unwrap();
        assert_eq!(
            (app.name.as_str(), app.call_ms, app.registration_ms),
            ("app", 2.6, 0.4)
        );
        assert_eq!((app.cores, app.nodes), (4, Some(3)));
        for (text, expected) in [
            ("app", "write NAME:"),
            ("app:call-ms", "write NAME:"),
            ("app:call-ms=x", "`x` is not a time"),
            ("app:call-ms=-1", "`-1` is not a time"),
            ("app:call-ms=1,cores=0", "`0` is not a number above 0"),
            ("app:speed=1", "`speed` is not a property"),
            ("app:cores=1", "costs nothing"),
        ] {
            let problem = stage(text).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn a_models_processors_are_stages() {
        let text = "G \"\" 1e-6 200 1 0.9 -1\nP 0\n p Pd i\n p Pa f m 2\n p Pb f\n-1\nT 0\n t d r User -1 Pd m 3\n \
                    t a n a1 -1 Pa\n t b n b1 -1 Pb\n-1\nE 0\n s User 1 -1\n s a1 2 1 -1\n s b1 0.5 -1\n \
                    y User a1 3 -1\n y a1 b1 2 0 -1\n-1\n";
        let stages = stages_of(&Model::from_text(text).unwrap()).unwrap();
        let costs: Vec<_> = stages
            .iter()
            .map(|stage| (stage.name.as_str(), stage.call_ms, stage.cores))
            .collect();
        assert_eq!(costs, [("Pa", 9.0, 2), ("Pb", 3.0, 1)]);
    }
}
