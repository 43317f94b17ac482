//! Which file of a crate uses what another defines.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Item, ItemUse, Macro, UseTree, Visibility,
    visit::{self, Visit},
};

use crate::modules::{Modules, Segments, imports};

/// From a file to another: the names that the one uses of the other.
pub(crate) type Edges = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// All uses between two files. A `pub use` is none: it only exports a name again. Who imports that
/// name uses the file that defines it.
pub(crate) fn between_files(modules: &Modules<'_>) -> Edges {
    let mut edges = Edges::new();
    for (number, module) in modules.iter() {
        let mut paths = Paths::default();
        for item in module.items {
            paths.visit_item(item);
        }
        for path in paths.0 {
            if let Some((target, name)) = modules.definition(number, &path)
                && target != module.file
            {
                edges
                    .entry((module.file.clone(), target.to_owned()))
                    .or_default()
                    .insert(name.to_owned());
            }
        }
    }
    edges
}

/// The paths of a module with two segments or more. A single one is a name that a `use` brought.
#[derive(Default)]
struct Paths(Vec<Segments>);

impl Paths {
    /// The paths in a macro's arguments, which may have any grammar.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path = Segments::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add(&mut path);
                    }
                    path.push(ident.to_string());
                }
                TokenTree::Group(group) => {
                    self.add(&mut path);
                    self.add_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.add(&mut path),
            }
            colons = 0;
        }
        self.add(&mut path);
    }

    fn add(&mut self, path: &mut Segments) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.0.push(path);
        }
    }
}

impl<'a> Visit<'a> for Paths {
    fn visit_item(&mut self, item: &'a Item) {
        // The paths of an inner module begin there: it is visited by itself.
        if !matches!(item, Item::Mod(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, import: &'a ItemUse) {
        if matches!(import.vis, Visibility::Inherited) {
            self.visit_use_tree(&import.tree);
        }
    }

    fn visit_use_tree(&mut self, tree: &'a UseTree) {
        for (name, mut path) in imports(tree) {
            if name == "*" {
                path.push(name);
            }
            self.0.push(path);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let mut segments = path
            .segments
            .iter()
            .map(|it| it.ident.to_string())
            .collect();
        self.add(&mut segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'a Macro) {
        self.visit_path(&called.path);
        self.add_tokens(called.tokens.clone());
    }
}
