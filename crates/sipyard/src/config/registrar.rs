//! The registrar's domains, and where its store is.

use std::path::Path;

use ::store::Address;

use super::{
    section::Section,
    value::{Read, host, list, text},
};

/// The section `[registrar]`.
#[derive(Debug)]
pub(crate) struct Registrar {
    /// The domains whose users register, in lower case.
    pub(crate) domains: Vec<String>,
    /// Where bindings and subscribers are.
    pub(crate) store: Address,
}

/// Reads `[registrar]` if it is given and whole.
pub(crate) fn registrar(root: &mut Section<'_>) -> Option<Registrar> {
    let mut section = root.given_table("registrar")?;
    let folder = section
        .report()
        .path()
        .parent()
        .unwrap_or_else(|| Path::new(""));
    let advice = "write domains = [\"example.com\"], the domains whose users register";
    let domains = section.require("domains", advice, list(host));
    if let Some(found) = domains.as_ref().filter(|found| found.value.is_empty()) {
        section.problem_of("domains", found.at, "an empty list lets nobody register");
    }
    let advice = "write store = \"file:PATH\", \"redis://HOST:PORT\" or \"memory\"";
    let store = section.require("store", advice, |value| address(folder, text(value)?));
    section.finish();
    let lower = |domain: String| domain.to_ascii_lowercase();
    Some(Registrar {
        domains: domains?.value.into_iter().map(lower).collect(),
        store: store?.value,
    })
}

/// A store's address; a file's path is taken from the configuration's folder.
fn address(folder: &Path, text: &str) -> Read<Address> {
    Ok(match text.parse()? {
        Address::File(path) => Address::File(folder.join(path)),
        address => address,
    })
}
