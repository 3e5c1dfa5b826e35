//! The `kurma` command: a thin user of the crate `gateway` and of a running gateway's admin interface.
//!
//! Exit status: 0 done, 1 the operation failed, 2 bad usage or configuration, 3 done but something needs
//! attention.

mod admin_client;
mod command;
mod files;
mod outcome;
mod progress;
mod table;

use std::process::ExitCode;

use clap::Parser;

// Blocks of a megabyte come and go thousands of times a second; the system's allocator gives their pages back and
// faults them in again each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A closed pipe (`kurma status | head`) ends the command quietly, as for any other Unix tool.
    let command = match command::Kurma::try_parse() {
        Ok(command) => command,
        Err(error) => error.exit(), // 2 for usage errors, 0 for --help and --version
    };
    match command.run() {
        Ok(outcome) => outcome.exit_code(),
        Err(failure) => failure.report(),
    }
}
