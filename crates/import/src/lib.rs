//! Turns configurations of Kamailio and OpenSIPS into one of Sipyard.
//!
//! The crate takes texts and returns a text: it opens no file. What the texts say and Sipyard can't
//! do, or does otherwise, becomes a [`Note`] with its lines. Read [`import`] first.

mod clean;
mod facts;
mod gateways;
mod location;
mod meanings;
mod notes;
mod parts;
mod plan;
mod registrar;
mod rows;
mod script;
mod servers;
mod targets;
mod write;

pub use location::{Contact, contacts};
pub use notes::{Kind, Note};
pub use parts::Origin;

use notes::Notes;

/// One file.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name, for the notes.
    pub name: &'a str,
    /// What stands in it.
    pub text: &'a str,
}

/// What came of an import.
#[derive(Debug)]
pub struct Imported {
    /// A configuration that `sipyard check` accepts, if a secret is in the file `secret` beside it.
    pub configuration: String,
    /// What else the files say, in their order.
    pub notes: Vec<Note>,
}

/// Imports files that belong together: a script, and the lists and tables that it reads.
///
/// # Errors
/// The names of the files that are neither a script nor a list nor a table.
pub fn import(origin: Origin, sources: &[Source<'_>]) -> Result<Imported, Vec<String>> {
    let mut notes = Notes::default();
    let (mut statements, mut rows, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for (file, source) in sources.iter().enumerate() {
        if script::is_script(source.text) {
            statements.extend(script::statements(file, source.text, &mut notes));
        } else {
            match rows::rows(file, source.text, &mut notes) {
                Some(found) => rows.extend(found),
                None => unknown.push(source.name.to_owned()),
            }
        }
    }
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let plan = plan::plan(origin, &statements, &rows, &mut notes);
    let names: Vec<&str> = sources.iter().map(|source| source.name).collect();
    Ok(Imported {
        configuration: write::configuration(origin, &names, &plan),
        notes: notes.finish(&names),
    })
}
