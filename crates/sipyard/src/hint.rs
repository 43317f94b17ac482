//! Says where a command stands that was looked for at the wrong place: `sipyard status` is `sipyard ctl status`.

use clap::{
    Command, Error,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Adds the commands that may have been meant to the error about an unknown one.
pub(crate) fn hinted(mut error: Error, cli: &Command) -> Error {
    let unknown = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(unknown)) if error.kind() == ErrorKind::InvalidSubcommand => {
            unknown.clone()
        }
        _ => return error,
    };
    if error.get(ContextKind::SuggestedSubcommand).is_none() {
        let groups = || {
            cli.get_subcommands()
                .filter(|group| group.has_subcommands())
        };
        let mut meant: Vec<String> = groups()
            .filter_map(|group| exact(group, &unknown))
            .collect();
        if meant.is_empty() {
            meant = groups()
                .flat_map(|group| similar(group, &unknown))
                .collect();
        }
        if !meant.is_empty() {
            error.insert(
                ContextKind::SuggestedSubcommand,
                ContextValue::Strings(meant),
            );
        }
    }
    error
}

/// The command of a group that has this name.
fn exact(group: &Command, unknown: &str) -> Option<String> {
    let known = group.find_subcommand(unknown)?;
    Some(full(group, known.get_name()))
}

/// What the group itself would propose.
fn similar(group: &Command, unknown: &str) -> Vec<String> {
    let error = group
        .clone()
        .try_get_matches_from([group.get_name(), unknown])
        .err();
    let proposed = error
        .as_ref()
        .and_then(|error| error.get(ContextKind::SuggestedSubcommand));
    match proposed {
        Some(ContextValue::Strings(names)) => names.iter().map(|name| full(group, name)).collect(),
        Some(ContextValue::String(name)) => vec![full(group, name)],
        _ => Vec::new(),
    }
}

fn full(group: &Command, name: &str) -> String {
    format!("{} {name}", group.get_name())
}
