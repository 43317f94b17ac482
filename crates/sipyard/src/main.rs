//! The `sipyard` command.

fn main() {}
