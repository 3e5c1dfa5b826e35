use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;

use crate::outcome::{Failure, Outcome};

/// The program with the benchmarks; no part of the gateway.
const PROGRAM: &str = "kurma-bench";

/// Run workloads against this gateway and its peers, and write a report
///
/// Runs the program kurma-bench, which is built beside this one (`cargo build --release --bins`) and is not part of an installation;
/// `kurma bench help` says what it can do, docs/benchmarks.md how to read it.
#[derive(Args)]
#[command(after_help = "Example: kurma bench compare --shrink 16 --repeat 2 --only stat")]
pub struct Bench {
    /// What to run, and its options
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Bench {
    pub fn run(self) -> Result<Outcome, Failure> {
        let own = std::env::current_exe().map_err(Failure::failed)?;
        let program = own.with_file_name(PROGRAM);
        // Only returns if it cannot be started.
        let error = Command::new(&program).args(self.arguments).exec();
        Err(match error.kind() {
            ErrorKind::NotFound => Failure::failed(format!(
                "{} is not there; `cargo build --release --bins` builds it beside kurma",
                program.display()
            )),
            _ => Failure::failed(format!("{} cannot be started: {error}", program.display())),
        })
    }
}
