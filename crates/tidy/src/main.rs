//! Checks the shape of the source code: how long files and functions are, and which files of a crate
//! import each other. It reads the workspace of the current folder, and needs no compiled code.
//!
//! `allowed.txt` lists what may break a limit for a while, with the reason.
#![allow(clippy::print_stdout, reason = "it prints what is wrong")]

mod circles;
mod complaints;
mod imports;
mod lengths;
mod modules;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use self::{
    complaints::Allowed,
    modules::{Modules, Sources},
};

fn main() -> ExitCode {
    match check() {
        Ok(messages) if messages.is_empty() => ExitCode::SUCCESS,
        Ok(messages) => {
            println!("{}", messages.join("\n"));
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut packages = vec![PathBuf::from("bench"), PathBuf::from("fuzz")];
    packages.extend(entries(Path::new("crates"))?);
    let mut sources = Sources::new();
    let mut complaints = Vec::new();
    for file in rust_files(&packages)? {
        let text = fs::read_to_string(&file)?;
        let parsed = syn::parse_file(&text).map_err(|error| {
            let line = error.span().start().line;
            format!("{}:{line}: {error}", file.display())
        })?;
        complaints.extend(lengths::check(&file, &text, &parsed));
        sources.insert(file, parsed);
    }
    for root in sources.keys().filter(|file| modules::is_root(file)) {
        let modules = Modules::of(root, &sources);
        complaints.extend(circles::check(root, &imports::between_files(&modules)));
    }
    Ok(Allowed::read()?.apply(complaints))
}

fn rust_files(folders: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in folders {
        if path.is_dir() && !path.ends_with("target") {
            files.extend(rust_files(&entries(path)?)?);
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
