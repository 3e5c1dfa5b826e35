//! `find`: one walk, hundreds of directories at once, with the attributes that the tests need and no others.

mod expression;
mod pattern;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use serde_json::Value;
use vector_client::{AttributeSet, Error, Kind};

use self::expression::{Candidate, Expression};
use super::place::Place;
use super::quote::quoted;
use super::session::{self, Common, Session, words};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};

/// Directories read at once.
const AT_ONCE: usize = 256;

/// Find files in directory trees
///
/// Tests: -name -iname -path PATTERN, -type f,d,l,b,c,p,s, -size [+-]N[cwbkMG], -mtime -mmin [+-]N, -newer FILE, -empty (files);
/// combined by -a, -o, !, ( ). -maxdepth and -mindepth N. Actions: -print, -print0; with --json both print one object on a line.
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "Example: kurma find nfs://127.0.0.1/home -type f -name *.rs"
)]
pub struct Find {
    #[command(flatten)]
    common: Common,
    /// Where to look, and then the expression
    #[arg(value_name = "DIRECTORY|EXPRESSION", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Find {
    pub fn run(mut self, context: &Context) -> Result<Outcome, Failure> {
        let json = self.take_options() || context.json;
        let begins = |argument: &OsString| {
            let bytes = argument.as_bytes();
            bytes.starts_with(b"-") && bytes.len() > 1 || matches!(bytes, b"(" | b"!")
        };
        let count = self.arguments.iter().position(begins).unwrap_or(self.arguments.len());
        let (places, words) = self.arguments.split_at(count);
        let here = [OsString::from(".")];
        let places = if places.is_empty() { &here[..] } else { places };
        session::run("find", &self.common, async |session| {
            let mut expression =
                Expression::parse(words).map_err(|wrong| Failure::usage(format_args!("find: {wrong}")))?;
            for file in expression.files() {
                let place = session.place(&file).await?;
                match place.client.stat(&place.target).await {
                    Ok(it) => expression.know(it.modified.unwrap_or_default()),
                    Err(error) => {
                        session.complain(format_args!("{}: {}", quoted(&place.shown), self::words(&error)));
                        return Ok(());
                    }
                }
            }
            for place in places {
                let place = session.place(place.as_ref() as &OsStr).await?;
                search(session, &expression, place, json).await?;
            }
            Ok(())
        })
    }

    /// Takes out the options of all tools, which may stand anywhere but where a test expects its argument; whether JSON is wanted.
    fn take_options(&mut self) -> bool {
        let (mut json, mut is_argument) = (false, false);
        self.arguments.retain(|word| {
            if is_argument {
                is_argument = false;
                return true;
            }
            match word.as_bytes() {
                b"--stats" => self.common.stats = true,
                b"--atomic" => self.common.atomic = true,
                b"--json" => json = true,
                _ => {
                    is_argument = expression::takes_argument(word);
                    return true;
                }
            }
            false
        });
        json
    }
}

/// A directory to be read, and how deep it is.
type Directory = (Place, u32);

async fn search(
    session: &mut Session,
    expression: &Expression,
    place: Place,
    json: bool,
) -> Result<(), Failure> {
    let shown = if json { AttributeSet::STAT } else { AttributeSet::KIND };
    let wanted = expression.wanted() | shown;
    let client = place.client.clone();
    let found = client.attributes_of_each(vec![place.target.clone()], wanted, false).await;
    let it = match found.map_err(Failure::failed)?.pop() {
        Some(Ok(it)) => it,
        Some(Err(error)) => return say(session, &place, &error),
        None => return Ok(()),
    };
    let name = place.name().to_vec();
    let name = if name.is_empty() { place.shown.clone() } else { name };
    let candidate = Candidate { path: &place.shown, name: &name, attributes: &it };
    show(session, expression, &candidate, 0, json);
    let mut stack: Vec<Directory> = Vec::new();
    if it.is(Kind::Directory) && expression.max_depth > 0 {
        stack.push((place, 0));
    }
    while !stack.is_empty() {
        let batch = stack.split_off(stack.len().saturating_sub(AT_ONCE));
        let batch: Vec<Directory> = batch.into_iter().rev().collect();
        let targets = batch.iter().map(|(place, _)| place.target.clone()).collect();
        let mut walk = client.walk(targets, wanted, false);
        let mut below = Vec::new();
        let mut at = 0;
        while let Some(found) = walk.next().await {
            let Some((directory, depth)) = batch.get(at) else { break };
            at += usize::from(found.last);
            let entries = match found.entries {
                Ok(entries) => entries,
                Err(error @ Error::Connection(_)) => return Err(Failure::failed(error)),
                Err(error) => {
                    say(session, directory, &error)?;
                    continue;
                }
            };
            for entry in entries {
                let shown = super::place::joined(&directory.shown, &entry.name);
                let candidate = Candidate { path: &shown, name: &entry.name, attributes: &entry.attributes };
                show(session, expression, &candidate, depth + 1, json);
                if entry.attributes.is(Kind::Directory) && depth + 1 < expression.max_depth {
                    below.push((directory.join(&entry.name), depth + 1));
                }
            }
        }
        stack.extend(below.into_iter().rev());
    }
    Ok(())
}

fn say(session: &mut Session, place: &Place, error: &Error) -> Result<(), Failure> {
    session.complain(format_args!("{}: {}", quoted(&place.shown), words(error)));
    Ok(())
}

fn show(session: &mut Session, expression: &Expression, candidate: &Candidate, depth: u32, json: bool) {
    if depth < expression.min_depth {
        return;
    }
    expression.run(candidate, &mut |end| match json {
        true => session.say(object(candidate)),
        false => {
            session.print(candidate.path);
            session.print([end]);
        }
    });
}

/// What `ls --json` tells, and the path.
fn object(it: &Candidate) -> Value {
    let mut object = super::stat::object(it.attributes);
    object["name"] = String::from_utf8_lossy(it.name).into();
    object["path"] = String::from_utf8_lossy(it.path).into();
    object
}
