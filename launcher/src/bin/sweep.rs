//! A function.
fn main() {}
