//! The modules of a crate, and where a path leads.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use syn::{Attribute, Expr, ExprLit, Item, ItemMod, Lit, Meta, UseTree};

/// Imports of imports that are followed: more are a circle.
const HOPS_MAX: usize = 32;

/// The source files by their paths from the workspace's folder.
pub(crate) type Sources = BTreeMap<PathBuf, syn::File>;

/// The segments of a path as it is written: `super::queue::Queue`.
pub(crate) type Segments = Vec<String>;

/// A crate's modules without those of unit tests. The first is the crate's root.
pub(crate) struct Modules<'a>(Vec<Module<'a>>);

/// A module: a file, or a part of one.
pub(crate) struct Module<'a> {
    /// Where it is.
    pub(crate) file: PathBuf,
    /// What is in it.
    pub(crate) items: &'a [Item],
    parent: usize,
    names: BTreeMap<String, Name>,
    globs: Vec<Segments>,
}

/// What a name in a module means.
enum Name {
    /// Something that is defined there.
    Item,
    Module(usize),
    Import(Segments),
}

/// Where a path leads.
enum Target<'p> {
    /// To something of this name that is defined in this module.
    Item(usize, &'p str),
    Module(usize),
}

/// Whether a crate begins with this file, by Cargo's rules for names.
pub(crate) fn is_root(file: &Path) -> bool {
    let mut names = file.iter().rev().filter_map(|it| it.to_str());
    let mut name = || names.next().unwrap_or_default();
    let (file, folder, folder_above) = (name(), name(), name());
    let has_roots = |folder| {
        matches!(
            folder,
            "bin" | "tests" | "benches" | "examples" | "fuzz_targets"
        )
    };
    match file {
        "lib.rs" => folder == "src",
        "main.rs" => folder == "src" || has_roots(folder) || has_roots(folder_above),
        _ => has_roots(folder),
    }
}

/// Whether it is compiled for unit tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

/// The paths that a `use` names, and the name that each has then: `*` for all that is there.
pub(crate) fn imports(tree: &UseTree) -> Vec<(String, Segments)> {
    fn walk(tree: &UseTree, before: &[String], found: &mut Vec<(String, Segments)>) {
        let and = |segment: String| [before, &[segment]].concat();
        match tree {
            UseTree::Path(path) => walk(&path.tree, &and(path.ident.to_string()), found),
            // `use a::{self}` imports `a`.
            UseTree::Name(name) if name.ident == "self" && !before.is_empty() => {
                found.push((before[before.len() - 1].clone(), before.to_vec()));
            }
            UseTree::Name(name) => {
                found.push((name.ident.to_string(), and(name.ident.to_string())))
            }
            UseTree::Rename(name) => {
                found.push((name.rename.to_string(), and(name.ident.to_string())));
            }
            UseTree::Glob(_) => found.push(("*".to_owned(), before.to_vec())),
            UseTree::Group(group) => {
                for tree in &group.items {
                    walk(tree, before, found);
                }
            }
        }
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

impl<'a> Modules<'a> {
    /// The modules of the crate that begins with this file.
    pub(crate) fn of(root: &Path, sources: &'a Sources) -> Self {
        let mut modules = Self(Vec::new());
        let folder = root.parent().unwrap_or(root);
        modules.add_file(root, folder, 0, sources);
        modules
    }

    /// Each with its number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Module<'a>)> {
        self.0.iter().enumerate()
    }

    /// The file that defines what a path leads to, and the name there; none for another crate's, and
    /// for a module itself. A path that ends in `*` leads to all of a module.
    pub(crate) fn definition<'p>(
        &'p self,
        module: usize,
        path: &'p [String],
    ) -> Option<(&'p Path, &'p str)> {
        let (last, before) = path.split_last()?;
        let (module, name) = if last == "*" {
            match self.follow(module, before, HOPS_MAX)? {
                Target::Module(module) => (module, "*"),
                Target::Item(module, name) => (module, name),
            }
        } else {
            match self.follow(module, path, HOPS_MAX)? {
                Target::Module(_) => return None,
                Target::Item(module, name) => (module, name),
            }
        };
        Some((&self.0[module].file, name))
    }

    fn follow<'p>(&'p self, module: usize, path: &'p [String], hops: usize) -> Option<Target<'p>> {
        let mut at = module;
        for segment in path {
            match segment.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.0[at].parent,
                name => match self.look_up(at, name, hops.checked_sub(1)?)? {
                    Target::Module(module) => at = module,
                    // The rest are variants, constants and functions of a type.
                    item @ Target::Item(..) => return Some(item),
                },
            }
        }
        Some(Target::Module(at))
    }

    fn look_up<'p>(&'p self, module: usize, name: &'p str, hops: usize) -> Option<Target<'p>> {
        let Module { names, globs, .. } = &self.0[module];
        match names.get(name) {
            Some(Name::Item) => Some(Target::Item(module, name)),
            Some(Name::Module(inner)) => Some(Target::Module(*inner)),
            Some(Name::Import(path)) => self.follow(module, path, hops),
            None => globs
                .iter()
                .find_map(|glob| match self.follow(module, glob, hops)? {
                    Target::Module(from) => self.look_up(from, name, hops.checked_sub(1)?),
                    // The variants of an enum.
                    Target::Item(..) => None,
                }),
        }
    }

    /// Adds a file's modules; `folder` holds the files of those that it only names.
    fn add_file(
        &mut self,
        file: &Path,
        folder: &Path,
        parent: usize,
        sources: &'a Sources,
    ) -> Option<usize> {
        let parsed = sources.get(file)?;
        Some(self.add(file, folder, parent, &parsed.items, sources))
    }

    fn add(
        &mut self,
        file: &Path,
        folder: &Path,
        parent: usize,
        items: &'a [Item],
        sources: &'a Sources,
    ) -> usize {
        let this = self.0.len();
        self.0.push(Module {
            file: file.to_owned(),
            items,
            parent,
            names: BTreeMap::new(),
            globs: Vec::new(),
        });
        for item in items {
            match item {
                Item::Mod(module) if is_test(&module.attrs) => {}
                Item::Mod(module) => {
                    if let Some(inner) = self.add_inner(module, file, folder, this, sources) {
                        let name = module.ident.to_string();
                        self.0[this].names.insert(name, Name::Module(inner));
                    }
                }
                Item::Use(import) => {
                    for (name, path) in imports(&import.tree) {
                        if name == "*" {
                            self.0[this].globs.push(path);
                        } else {
                            self.0[this].names.entry(name).or_insert(Name::Import(path));
                        }
                    }
                }
                other => {
                    if let Some(name) = name_of(other) {
                        self.0[this].names.entry(name).or_insert(Name::Item);
                    }
                }
            }
        }
        this
    }

    /// Adds a module that another holds or names.
    fn add_inner(
        &mut self,
        module: &'a ItemMod,
        file: &Path,
        folder: &Path,
        parent: usize,
        sources: &'a Sources,
    ) -> Option<usize> {
        let name = module.ident.to_string();
        let inside = folder.join(&name);
        if let Some((_, items)) = &module.content {
            return Some(self.add(file, &inside, parent, items, sources));
        }
        if let Some(path) = path_attribute(&module.attrs) {
            let file = joined(file.parent()?, &path);
            return self.add_file(&file, file.parent()?, parent, sources);
        }
        [folder.join(format!("{name}.rs")), inside.join("mod.rs")]
            .iter()
            .find_map(|file| self.add_file(file, &inside, parent, sources))
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// The file that `#[path = "..."]` names.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) if pair.path.is_ident("path") => Some(text.value()),
            _ => None,
        }
    })
}

/// A path from a folder, without `..`.
fn joined(folder: &Path, path: &str) -> PathBuf {
    let mut whole = folder.to_owned();
    for part in Path::new(path).components() {
        if part == Component::ParentDir {
            whole.pop();
        } else {
            whole.push(part);
        }
    }
    whole
}
