//! Files that import each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
};

use crate::{complaints::Complaint, imports::Edges};

/// Files of one crate, each of which needs all the others, by way of others or not.
const CIRCLE_FILES_MAX: usize = 4;

/// The circles that are too large in the crate that begins with the file `root`.
pub(crate) fn check(root: &Path, edges: &Edges) -> Vec<Complaint> {
    let large = circles(edges)
        .into_iter()
        .filter(|it| it.len() > CIRCLE_FILES_MAX);
    large
        .map(|circle| Complaint {
            key: format!("circle {}", root.display()),
            message: message(root, &circle, edges),
        })
        .collect()
}

fn message(root: &Path, circle: &BTreeSet<&Path>, edges: &Edges) -> String {
    let mut text = format!(
        "{}: {} files import each other, more than {CIRCLE_FILES_MAX}: move what several of them need \
         into a file that needs none of them",
        root.display(),
        circle.len()
    );
    let folder = root.parent().unwrap_or(root);
    let short = |file: &Path| {
        file.strip_prefix(folder)
            .unwrap_or(file)
            .display()
            .to_string()
    };
    for ((from, to), names) in edges {
        if circle.contains(from.as_path()) && circle.contains(to.as_path()) {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let (from, to, names) = (short(from), short(to), names.join(", "));
            let _ = write!(text, "\n    {from} -> {to}: {names}");
        }
    }
    text
}

/// The largest sets of files that reach each other; no file is in two.
fn circles(edges: &Edges) -> BTreeSet<BTreeSet<&Path>> {
    let mut imported: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        imported.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = imported
        .keys()
        .map(|file| (*file, reached(file, &imported)))
        .collect();
    let reaches = |from: &Path, to: &Path| reached.get(from).is_some_and(|it| it.contains(to));
    imported
        .keys()
        .filter(|file| reaches(file, file))
        .map(|file| {
            let others = reached[file].iter().copied();
            others.filter(|other| reaches(other, file)).collect()
        })
        .collect()
}

/// The files to which a file's imports lead; itself only by a circle.
fn reached<'a>(file: &Path, imported: &BTreeMap<&'a Path, Vec<&'a Path>>) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(from) = open.pop() {
        for to in imported.get(from).into_iter().flatten() {
            if reached.insert(*to) {
                open.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        imports,
        modules::{Modules, Sources},
    };

    /// Checks the circles of a crate. Each line of `files` is a file: its name without `.rs`, a
    /// colon, its code.
    #[track_caller]
    fn expect(circles_expected: &[&str], files: &str) {
        let sources: Sources = files
            .lines()
            .filter_map(|line| line.trim().split_once(": "))
            .map(|(name, code)| (format!("{name}.rs").into(), syn::parse_file(code).unwrap()))
            .collect();
        let edges = imports::between_files(&Modules::of(Path::new("lib.rs"), &sources));
        let names = |circle: BTreeSet<&Path>| {
            let names = circle.iter().map(|file| file.with_extension(""));
            let names: Vec<_> = names.map(|it| it.display().to_string()).collect();
            names.join(" ")
        };
        let found: Vec<String> = circles(&edges).into_iter().map(names).collect();
        assert_eq!(found, circles_expected);
    }

    #[test]
    fn a_chain_of_imports_is_no_circle() {
        expect(
            &[],
            "lib: mod a; mod b; mod c;
             a: use crate::b::B; pub struct A;
             b: use super::c::C; pub struct B;
             c: pub struct C;",
        );
    }

    #[test]
    fn files_that_lead_back_to_themselves_are_a_circle() {
        expect(
            &["a b c"],
            "lib: mod a; mod b; mod c; use a::A;
             a: use crate::b::B; pub struct A;
             b: use super::c::C; pub struct B;
             c: pub struct C; fn c() { crate::a::A::new() }",
        );
    }

    #[test]
    fn a_name_that_is_exported_again_belongs_to_the_file_that_defines_it() {
        expect(
            &[],
            "lib: mod a; mod b; pub use a::A; use b::B;
             a: use crate::B; pub struct A;
             b: pub struct B;",
        );
        expect(
            &["a b"],
            "lib: mod a; mod b; pub use a::*; pub use b::B;
             a: use crate::B; pub struct A;
             b: use crate::A; pub struct B;",
        );
    }

    #[test]
    fn an_export_is_no_import() {
        expect(
            &[],
            "lib: mod a; pub use a::A; pub const MAX: u8 = 1;
             a: use crate::MAX; pub struct A;",
        );
    }

    #[test]
    fn paths_in_arguments_of_macros_count() {
        expect(
            &["a lib"],
            r#"lib: mod a; fn f() { print!("{}", a::A) }
             a: use super::f; pub struct A;"#,
        );
    }

    #[test]
    fn tests_do_not_count() {
        expect(
            &[],
            "lib: mod a; fn f() { a::g() }
             a: pub fn g() {} #[cfg(test)] mod tests { use crate::f; }",
        );
    }

    #[test]
    fn modules_are_found_in_folders_in_files_and_at_paths() {
        expect(
            &["a/deep b/mod elsewhere"],
            r#"lib: mod a; mod b; #[path = "x/../elsewhere.rs"] mod e;
             a: mod deep; use deep::D;
             a/deep: pub struct D; use super::super::b::*;
             b/mod: mod inner { pub struct B(crate::e::E); } use inner::B;
             elsewhere: pub struct E(crate::a::deep::D);"#,
        );
    }
}
