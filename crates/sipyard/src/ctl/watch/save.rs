//! Saves a call as a text file.

use std::{fs::OpenOptions, io, io::Write};

/// Files of one name that are tried.
const TRIES: u32 = 100;
/// Letters of a Call-ID that a file's name has.
const NAME_MAX: usize = 60;

/// Writes a new file in the current folder, and tells its name or why there is none.
pub(super) fn save(call_id: &str, text: &str) -> Result<String, String> {
    for number in 0..TRIES {
        let name = name(call_id, number);
        // A file that is there stays as it is, also one that a link leads to.
        match OpenOptions::new().write(true).create_new(true).open(&name) {
            Ok(mut file) => {
                let written = file.write_all(text.as_bytes());
                return written
                    .map(|()| name.clone())
                    .map_err(|error| format!("{name}: {error}"));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("{name}: {error}")),
        }
    }
    Err(format!("{}: there are too many", name(call_id, 0)))
}

/// A name of letters that lead nowhere else.
fn name(call_id: &str, number: u32) -> String {
    let safe = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() => letter,
        '-' | '@' => letter,
        _ => '_',
    };
    let id: String = call_id.chars().take(NAME_MAX).map(safe).collect();
    match number {
        0 => format!("call-{id}.txt"),
        number => format!("call-{id}.{number}.txt"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_id_names_no_other_folder() {
        assert_eq!(name("a1@host", 0), "call-a1@host.txt");
        assert_eq!(name("../../etc/x\u{1b}", 2), "call-______etc_x_.2.txt");
        assert_eq!(name(&"x".repeat(300), 0).len(), NAME_MAX + 9);
    }
}
