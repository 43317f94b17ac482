//! Asks for what a script says.

use crate::{
    notes::At,
    script::{Statement, What},
};

/// Asks for what a script says.
pub(crate) struct Facts<'a> {
    pub(crate) statements: &'a [Statement],
}

impl<'a> Facts<'a> {
    /// The parameter of a module; the last one counts.
    pub(crate) fn param(&self, module: &str, name: &str) -> Option<(At, &'a str)> {
        let values = self
            .statements
            .iter()
            .rev()
            .filter_map(|it| match &it.what {
                What::Param {
                    module: of,
                    name: named,
                    value,
                } if of == module && named == name => Some((it.at, value.as_str())),
                _ => None,
            });
        values.into_iter().next()
    }

    /// The values of a setting.
    pub(crate) fn settings(&self, wanted: &str) -> impl Iterator<Item = (At, &'a str)> {
        self.statements.iter().filter_map(move |it| match &it.what {
            What::Setting { name, value } if name == wanted => Some((it.at, value.as_str())),
            _ => None,
        })
    }

    /// The calls of a function, with their arguments.
    pub(crate) fn calls(&self, wanted: &str) -> impl Iterator<Item = (At, &'a [String])> {
        self.statements.iter().filter_map(move |it| match &it.what {
            What::Call { name, args } if name == wanted => Some((it.at, args.as_slice())),
            _ => None,
        })
    }

    /// Where a set is selected from, and by which algorithm.
    pub(crate) fn selections(&self) -> impl Iterator<Item = (At, &'a str, &'a str)> {
        const SELECT: [&str; 4] = [
            "ds_select_dst",
            "ds_select_domain",
            "ds_select",
            "ds_select_routes",
        ];
        self.statements.iter().filter_map(|it| match &it.what {
            What::Call { name, args } if SELECT.contains(&name.as_str()) => {
                Some((it.at, args.first()?.as_str(), args.get(1)?.as_str()))
            }
            What::Call { name, args } if name.starts_with("lb_start") || name == "load_balance" => {
                Some((it.at, args.first()?.as_str(), ""))
            }
            _ => None,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }
}
