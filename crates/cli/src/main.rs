//! The program `canyon`.

use mimalloc::MiMalloc;
use std::process::ExitCode;

// A request of `canyon local` allocates hundreds of small values: glibc's allocator takes a fifth of its time (docs/decisions/0080).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    canyon_cli::run()
}
