//! Files for results. Whether they can be written shows before the work that they are for.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

/// Standard output in place of a file.
pub(crate) const STDOUT: &str = "-";

/// Reads the name of a file that can be written, or [`STDOUT`].
pub(crate) fn file_or_stdout(text: &str) -> Result<PathBuf, String> {
    match text {
        STDOUT => Ok(text.into()),
        file_name => file(file_name),
    }
}

/// Reads the name of a file that can be written.
pub(crate) fn file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() {
        return Err("this is a folder".to_owned());
    }
    let parent = path.parent().unwrap_or_else(|| Path::new(""));
    let held_by = match path.exists() {
        true => path.clone(),
        false => parent.join("."),
    };
    match access(&held_by, Access::WRITE_OK) {
        Ok(()) => Ok(path),
        Err(error) => Err(format!("{}: {error}", held_by.display())),
    }
}

/// Writes a result.
///
/// # Errors
/// With the file's name.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load of an hour ended with "No such file or directory".
    #[test]
    fn a_file_that_cannot_be_written_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        assert!(file(&at("new.html")).is_ok());
        assert!(file(&at("missing/new.html")).is_err());
        assert!(file(&at("")).is_err(), "it is a folder");
        assert!(file_or_stdout(STDOUT).is_ok() && file_or_stdout("new.html").is_ok());
        write(folder.path().join("new.html").as_path(), "text").unwrap();
        assert!(file(&at("new.html")).is_ok());
        assert!(file(&at("new.html/page")).is_err());
    }
}
