//! How a command ended, as text and exit status.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// A command that did what it was asked to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Done,
    /// Done, but something needs attention.
    Degraded,
    /// It was said on the way what could not be done; with this exit status.
    Told(u8),
}

impl Outcome {
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Outcome::Done => 0,
            Outcome::Degraded => 3,
            Outcome::Told(status) => status,
        })
    }
}

/// A command that did not.
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The operation failed.
    pub fn failed(message: impl Display) -> Failure {
        Failure { code: 1, message: message.to_string() }
    }

    /// Bad usage or configuration.
    pub fn usage(message: impl Display) -> Failure {
        Failure { code: 2, message: message.to_string() }
    }

    /// Not done, and somebody has to do something first.
    pub fn attention(message: impl Display) -> Failure {
        Failure { code: 3, message: message.to_string() }
    }

    pub fn report(self) -> ExitCode {
        // Nowhere to tell of a standard error that is closed.
        let _ = writeln!(std::io::stderr(), "kurma: {}", self.message);
        ExitCode::from(self.code)
    }
}

/// Writes a line to standard output; a reader that has gone away ends the process quietly.
pub fn say(line: impl Display) {
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}

/// Writes a line to standard error.
pub fn hint(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
