//! All reference files are read, and written back to the same model.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, path::Path};

use lqn::Model;

fn read(path: &Path) -> Model {
    let text = fs::read_to_string(path).unwrap();
    match path.extension().unwrap().to_str().unwrap() {
        "lqn" => Model::from_text(&text),
        _ => Model::from_xml(&text),
    }
    .unwrap_or_else(|problems| panic!("{}: {problems:?}", path.display()))
}

/// Names with what belongs to them, for XML groups tasks by processor.
fn by_name(model: &Model) -> Vec<String> {
    let name = |entry: &lqn::EntryId| &model[*entry].name;
    let entries = model.entries().iter().map(|entry| {
        let forwards: Vec<_> = entry
            .forwards
            .iter()
            .map(|f| (name(&f.target), f.probability))
            .collect();
        let phases = entry.phases.iter().map(|phase| {
            let calls: Vec<_> = phase
                .calls
                .iter()
                .map(|c| (name(&c.target), c.mean, c.kind))
                .collect();
            (
                phase.service_time,
                phase.cvsq,
                phase.think_time,
                phase.order,
                calls,
            )
        });
        let phases: Vec<_> = phases.collect();
        let (task, rate) = (&model[entry.task].name, entry.open_arrival_rate);
        format!("{} of {task}: {phases:?} {forwards:?} {rate}", entry.name)
    });
    let tasks = model.tasks().iter().map(|task| {
        let (role, processor) = (&task.role, &model[task.processor]);
        format!(
            "{} {role:?} {:?} {:?} on {processor:?}",
            task.name, task.multiplicity, task.queue_length
        )
    });
    let mut lines: Vec<_> = entries.chain(tasks).collect();
    lines.sort();
    lines
}

#[test]
fn every_reference_file_survives_both_formats() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    let mut files = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let extension = path.extension().unwrap().to_str().unwrap();
        if !matches!(extension, "lqn" | "lqnx") {
            continue;
        }
        files += 1;
        let model = read(&path);
        assert_eq!(
            Model::from_text(&model.to_text()).unwrap(),
            model,
            "{}",
            path.display()
        );
        let xml = Model::from_xml(&model.to_xml()).unwrap();
        assert_eq!(by_name(&xml), by_name(&model), "{}", path.display());
        if extension == "lqn" {
            assert_eq!(
                by_name(&read(&path.with_extension("lqnx"))),
                by_name(&model),
                "{}",
                path.display()
            );
        }
    }
    assert_eq!(files, 32);
}
