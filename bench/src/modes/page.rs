//! What was measured, as a page.

use report::{Page, Table};

use super::{Mode, Profile, Program, Results, Run, WINDOW, profile::Group};
use crate::{
    figures::Stamped,
    range::{Range, median},
};

/// The page about it.
pub(crate) fn page(results: &Stamped<Results>) -> Page {
    let Results { runs, profiles } = &results.results;
    let page = Page::new("Modes of a proxy: figures")
        .text(&format!(
            "Calls go through the program in each of its modes, which are those of SERvartuka's Figure 1 and some more, \
             {WINDOW} at once. The program has one core, the callers and their callee the other. A call whose caller \
             proves who they are begins with a challenge, so it has three messages more. Figures are medians over \
             rounds in which programs and modes took turns. {}",
            results.note()
        ))
        .table(table(runs));
    if profiles.is_empty() {
        return page;
    }
    page.heading("By function group")
        .text("Microseconds of a call, by samples of perf. What the compiler has put into another function counts as that.")
        .table(groups(runs, profiles))
}

fn table(runs: &[Run]) -> Table {
    let columns = [
        "mode",
        "Kamailio, us a call",
        "over stateless",
        "Sipyard, us a call",
        "over stateless",
        "Kamailio over Sipyard",
        "failed",
    ];
    let mut table = Table::new("", columns);
    for mode in Mode::ALL {
        let ours = |program| cpu(runs, program, mode);
        let ratio = |program| ours(program) / cpu(runs, program, Mode::Stateless);
        let failed = runs.iter().filter(|run| run.mode == mode);
        table.push([
            mode.title().to_owned(),
            text(runs, Program::Kamailio, mode),
            number(ratio(Program::Kamailio)),
            text(runs, Program::Sipyard, mode),
            number(ratio(Program::Sipyard)),
            number(ours(Program::Kamailio) / ours(Program::Sipyard)),
            failed.map(|run| run.failed).sum::<u64>().to_string(),
        ]);
    }
    table
}

fn groups(runs: &[Run], profiles: &[Profile]) -> Table {
    let mut columns = vec!["mode", "program"];
    columns.extend(Group::ALL.map(Group::title));
    let mut table = Table::new("", columns);
    for profile in profiles {
        let all = cpu(runs, profile.program, profile.mode);
        let mut row = vec![
            profile.mode.title().to_owned(),
            profile.program.title().to_owned(),
        ];
        let shares = profile.shares.iter();
        row.extend(shares.map(|(_, share)| format!("{:.1}", share * all)));
        table.push(row);
    }
    table
}

fn chosen(runs: &[Run], program: Program, mode: Mode) -> impl Iterator<Item = f64> {
    let runs = runs.iter();
    runs.filter(move |run| run.program == program && run.mode == mode)
        .map(|run| run.cpu_us)
}

fn cpu(runs: &[Run], program: Program, mode: Mode) -> f64 {
    median(chosen(runs, program, mode))
}

fn text(runs: &[Run], program: Program, mode: Mode) -> String {
    Range::over(chosen(runs, program, mode)).map_or_else(String::new, |range| range.text())
}

fn number(ratio: f64) -> String {
    match ratio.is_nan() {
        true => String::new(),
        false => format!("{ratio:.2}"),
    }
}
