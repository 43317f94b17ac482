//! How long files and functions are.

use std::{ops::RangeInclusive, path::Path};

use syn::{
    Block, ImplItemFn, ItemFn, Signature, TraitItemFn,
    visit::{self, Visit},
};

use crate::{complaints::Complaint, modules::is_test};

/// Lines of a file without the modules of its unit tests.
const FILE_LINES_MAX: usize = 600;

/// Lines of a function from `fn` to its last brace, whether they hold code or not.
const FUNCTION_LINES_MAX: usize = 70;

/// What is too long in a file.
pub(crate) fn check(path: &Path, text: &str, file: &syn::File) -> Vec<Complaint> {
    let path = path.display();
    let mut complaints = Vec::new();
    let lines = text.lines().count() - file.items.iter().map(test_lines).sum::<usize>();
    if lines > FILE_LINES_MAX {
        complaints.push(Complaint {
            key: format!("file {path}"),
            message: format!(
                "{path}: {lines} lines without its tests, more than {FILE_LINES_MAX}: split it by noun"
            ),
        });
    }
    let mut functions = Functions::default();
    functions.visit_file(file);
    for Function { name, lines } in functions.0 {
        let length = lines.clone().count();
        if length > FUNCTION_LINES_MAX {
            complaints.push(Complaint {
                key: format!("function {path} {name}"),
                message: format!(
                    "{path}:{}: {name} has {length} lines, more than {FUNCTION_LINES_MAX}: move steps out of it",
                    lines.start()
                ),
            });
        }
    }
    complaints
}

/// Lines of an item if it is a module of tests.
fn test_lines(item: &syn::Item) -> usize {
    match item {
        syn::Item::Mod(module) if is_test(&module.attrs) => {
            module.content.as_ref().map_or(0, |(brace, _)| {
                let start = module.attrs[0].pound_token.span.start().line;
                brace.span.close().end().line - start + 1
            })
        }
        _ => 0,
    }
}

#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    lines: RangeInclusive<usize>,
}

/// All functions of a file, those inside others too.
#[derive(Default)]
struct Functions(Vec<Function>);

impl Functions {
    fn add(&mut self, signature: &Signature, body: &Block) {
        let start = signature.fn_token.span.start().line;
        self.0.push(Function {
            name: signature.ident.to_string(),
            lines: start..=body.brace_token.span.close().end().line,
        });
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, function: &'a ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'a TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        let file = syn::parse_file(text).unwrap();
        let complaints = check(Path::new("a.rs"), text, &file);
        complaints.into_iter().map(|it| it.key).collect()
    }

    #[test]
    fn a_function_counts_from_its_first_line_to_its_last() {
        let body = |lines: usize| "\n".repeat(lines - 1);
        let none: [&str; 0] = [];
        assert_eq!(keys(&format!("fn short() {{{}}}", body(70))), none);
        assert_eq!(
            keys(&format!("fn long() {{{}}}", body(71))),
            ["function a.rs long"]
        );
        assert_eq!(
            keys(&format!("impl A {{ fn method() {{{}}} }}", body(71))),
            ["function a.rs method"]
        );
        assert_eq!(
            keys(&format!("trait A {{ fn given() {{{}}} }}", body(71))),
            ["function a.rs given"]
        );
        assert_eq!(
            keys(&format!("mod a {{ fn of_a_module() {{{}}} }}", body(71))),
            ["function a.rs of_a_module"]
        );
    }

    #[test]
    fn a_file_counts_without_its_tests() {
        let code = "struct A;\n".repeat(600);
        let tests = "#[cfg(test)]\nmod tests {\n    struct B;\n}\n";
        let none: [&str; 0] = [];
        assert_eq!(keys(&format!("{code}{tests}")), none);
        assert_eq!(keys(&format!("{code}struct C;\n{tests}")), ["file a.rs"]);
    }
}
