//! What a tool leaves out by its name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::pattern;

/// Patterns of `--exclude`, as GNU tar has them: one fits the whole name or what follows a slash in it, and its wildcards fit slashes.
#[derive(Args)]
pub struct Excluded {
    /// Leave out what has such a name, with all below; a pattern as in a shell. May be given several times
    #[arg(long, value_name = "PATTERN", value_parser = OsStringValueParser::new().try_map(|it| checked(&it)))]
    exclude: Vec<OsString>,
}

/// Slashes at the end, which no name has, are left out.
fn checked(pattern: &OsStr) -> Result<OsString, &'static str> {
    let bytes = super::place::trimmed(pattern.as_bytes());
    match bytes {
        [] => Err("a pattern has at least one character beside slashes at its end"),
        bytes => Ok(OsStr::from_bytes(bytes).to_owned()),
    }
}

impl Excluded {
    /// Whether nothing is left out.
    pub fn is_nothing(&self) -> bool {
        self.exclude.is_empty()
    }

    /// Whether this is left out, what it is in aside.
    pub fn holds(&self, name: &[u8]) -> bool {
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
        let mut starts = slashes.chain([0]);
        !self.is_nothing()
            && starts.any(|start| self.exclude.iter().any(|it| pattern::fits(it.as_bytes(), &name[start..])))
    }

    /// Whether this, or something that it is in, is left out.
    pub fn holds_any_of(&self, name: &[u8]) -> bool {
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        slashes.chain([name.len()]).any(|end| self.holds(&name[..end]))
    }
}
