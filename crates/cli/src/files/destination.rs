//! Where `cp`, `mv` and `ln` put things: into a directory that is there, or under another name.

use std::ffi::OsString;

use clap::Args;
use vector_client::{AttributeSet, Kind};

use super::place::Place;
use super::quote::quoted;
use super::session::{Session, errno_words, words};
use crate::outcome::Failure;

/// Where each of `sources` goes; nothing if something is wrong, which was said then. `follow` is whether a symbolic link to a
/// directory is that directory.
pub async fn pairs(
    session: &mut Session,
    sources: Vec<Place>,
    target: Place,
    into: Into,
) -> Result<Vec<(Place, Place)>, Failure> {
    let found = match into {
        Into::Never => None,
        _ => {
            let wanted = AttributeSet::KIND;
            let targets = vec![target.target.clone()];
            let found = target.client.attributes_of_each(targets, wanted, into != Into::IfNoLink).await;
            found.map_err(Failure::failed)?.pop()
        }
    };
    let is_directory = matches!(&found, Some(Ok(it)) if it.is(Kind::Directory));
    if is_directory {
        return Ok(sources.into_iter().map(|source| inside(source, &target)).collect());
    }
    let shown = quoted(&target.shown);
    match found {
        Some(found) if sources.len() > 1 || into == Into::Always => {
            let why = found.err().map_or_else(|| errno_words(20), |error| words(&error));
            let what = if into == Into::Always { "target directory" } else { "target" };
            session.complain(format_args!("{what} {shown}: {why}"));
            Ok(Vec::new())
        }
        None if sources.len() > 1 => {
            session.complain(format_args!("extra operand {shown}"));
            Ok(Vec::new())
        }
        _ => Ok(sources.into_iter().map(|source| (source, target.clone())).collect()),
    }
}

/// What all three are told: sources, and where to.
#[derive(Args)]
pub struct Operands {
    /// Put everything into this directory
    #[arg(short = 't', long, value_name = "DIRECTORY", conflicts_with = "no_target_directory")]
    target_directory: Option<OsString>,
    /// Put nothing into the target, but make it that
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    /// What, and at last where to: nfs://HOST[:PORT]/PATH or local
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<OsString>,
}

impl Operands {
    /// Whether things are put into the target.
    pub fn placement(&self) -> Into {
        match (&self.target_directory, self.no_target_directory) {
            (Some(_), _) => Into::Always,
            (None, true) => Into::Never,
            (None, false) => Into::IfDirectory,
        }
    }

    /// Takes the target away, so that only sources are left; `None` if there is only one operand.
    pub fn take_target(&mut self) -> Option<OsString> {
        match self.target_directory.take() {
            None if self.files.len() < 2 => None,
            None => self.files.pop(),
            target => target,
        }
    }

    /// The same for a tool that cannot do without.
    pub fn take_needed_target(&mut self, tool: &str) -> Result<OsString, Failure> {
        self.take_target().ok_or_else(|| {
            let file = quoted(self.files[0].as_encoded_bytes());
            Failure::usage(format_args!("{tool}: missing destination file operand after {file}"))
        })
    }
}

/// Whether things are put into the target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Into {
    /// If it is a directory.
    IfDirectory,
    /// If it is a directory, and not a symbolic link to one (`ln -n`).
    IfNoLink,
    /// In any case (`-t`).
    Always,
    /// In no case (`-T`).
    Never,
}

fn inside(source: Place, directory: &Place) -> (Place, Place) {
    let name = match source.name() {
        // What is in it goes into the directory itself.
        b"." | b".." | b"" => return (source, directory.clone()),
        name => name.to_vec(),
    };
    let to = directory.join(&name);
    (source, to)
}
