//! What breaks a limit, and what may do so for a while.

use std::{collections::BTreeSet, fs, io};

const FILE: &str = "crates/tidy/allowed.txt";

/// Something over its limit.
pub(crate) struct Complaint {
    /// The line of `allowed.txt` that allows it.
    pub(crate) key: String,
    /// What is wrong and what to do.
    pub(crate) message: String,
}

/// The lines of `allowed.txt`.
pub(crate) struct Allowed(BTreeSet<String>);

impl Allowed {
    pub(crate) fn read() -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string(FILE)?))
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        Self(
            lines
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .map(str::to_owned)
                .collect(),
        )
    }

    /// The messages of what is not allowed, and of lines that allow something for which there is no
    /// need.
    pub(crate) fn apply(mut self, complaints: Vec<Complaint>) -> Vec<String> {
        let keys: BTreeSet<&str> = complaints.iter().map(|it| it.key.as_str()).collect();
        let unneeded: Vec<String> = self
            .0
            .extract_if(.., |line| !keys.contains(line.as_str()))
            .map(|line| format!("{FILE}: nothing needs the line \"{line}\": delete it"))
            .collect();
        complaints
            .into_iter()
            .filter(|it| !self.0.contains(&it.key))
            .map(|it| it.message)
            .chain(unneeded)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_silent_if_it_is_allowed_and_a_line_is_named_if_it_allows_nothing() {
        let complaint = |key: &str| Complaint {
            key: key.to_owned(),
            message: format!("{key} is too long"),
        };
        let allowed = Allowed::parse("# Why.\nfile a.rs\n\nfile b.rs\n");
        assert_eq!(
            allowed.apply(vec![complaint("file a.rs"), complaint("file c.rs")]),
            [
                "file c.rs is too long",
                "crates/tidy/allowed.txt: nothing needs the line \"file b.rs\": delete it"
            ]
        );
    }
}
