//! `mkdir`.

use std::ffi::OsString;

use clap::Args;
use rustix::fs::Mode;
use rustix::process::umask;
use vector_client::{Error, NewAttributes, Step};

use super::mode;
use super::place::Place;
use super::quote::quoted;
use super::removing::by_client;
use super::session::{self, Common, Session, errno_words};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};

/// Make directories
#[derive(Args)]
#[command(disable_help_flag = true, after_help = "Example: kurma mkdir -p nfs://127.0.0.1/home/a/b/c")]
pub struct Mkdir {
    /// Those above it too; what exists is no error
    #[arg(short = 'p', long)]
    parents: bool,
    /// Permission bits, octal or as u=rwx,go=rx
    #[arg(short = 'm', long, value_name = "MODE")]
    mode: Option<String>,
    /// Say what was made
    #[arg(short = 'v', long)]
    verbose: bool,
    #[command(flatten)]
    common: Common,
    /// Directories: nfs://HOST[:PORT]/PATH or local
    #[arg(value_name = "DIRECTORY", required = true)]
    directories: Vec<OsString>,
}

impl Mkdir {
    pub fn run(self, _: &Context) -> Result<Outcome, Failure> {
        let umask = process_umask();
        let usual = 0o777 & !umask;
        let given = match &self.mode {
            Some(text) => match mode::parsed(text, 0o777, umask) {
                Some(mode) => Some(mode),
                None => return Err(Failure::usage(format_args!("mkdir: invalid mode '{text}'"))),
            },
            None => None,
        };
        session::run("mkdir", &self.common, async |session| {
            let places = session.places(&self.directories).await?;
            for (client, places) in by_client(&places) {
                let mut made = Vec::new();
                if self.parents {
                    for place in places {
                        match client.ensure_directory(&place.target, usual).await {
                            Ok(new) => {
                                let all = new.iter().map(|target| place.written_part(target));
                                made.extend(all.clone().zip(new.iter().cloned()));
                                if let (Some(mode), Some(last)) = (given, new.last())
                                    && let Err(error) = client.chmod(last, mode).await
                                {
                                    session.cannot("change permissions of", &place.shown, &error);
                                }
                            }
                            Err(error) => refused(session, place, &error),
                        }
                    }
                } else {
                    let mode = given.unwrap_or(usual);
                    let step = |place: &Place| Step::MakeDirectory { target: place.target.clone(), mode };
                    let results = client.execute_each(places.iter().map(step).collect()).await;
                    let mut set = Vec::new();
                    for (place, result) in places.iter().zip(results.map_err(Failure::failed)?) {
                        match result {
                            Ok(_) => {
                                made.push((place.shown.clone(), place.target.clone()));
                                set.push((place.target.clone(), NewAttributes::mode(mode)));
                            }
                            Err(error) => session.cannot("create directory", &place.shown, &error),
                        }
                    }
                    // The umask of this process, and the bits that making a directory does not give.
                    if given.is_some() && !set.is_empty() {
                        client.vsetattrs(set).await.map_err(Failure::failed)?;
                    }
                }
                if self.verbose {
                    for (shown, _) in made {
                        session.say(format_args!("mkdir: created directory {}", quoted(&shown)));
                    }
                }
            }
            Ok(())
        })
    }
}

/// Says which directory on the way, or that the last one is something else.
fn refused(session: &mut Session, place: &Place, error: &Error) {
    match error {
        Error::Refused { target, .. } | Error::Local { target, .. } if *target != place.target => {
            session.cannot("create directory", &place.written_part(target), error);
        }
        error if error.errno() == 20 => {
            let shown = quoted(&place.shown);
            session.complain(format_args!("cannot create directory {shown}: {}", errno_words(17)));
        }
        error => session.cannot("create directory", &place.shown, error),
    }
}

/// Permission bits that new files of this process do not get.
pub fn process_umask() -> u32 {
    let before = umask(Mode::empty());
    umask(before);
    before.as_raw_mode()
}
