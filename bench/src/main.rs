//! Benchmarks of whole programs.

fn main() {}
