//! What a placement costs.

fn main() {
    divan::main();
}
