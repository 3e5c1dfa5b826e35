//! The kurma command.
fn main() {}
