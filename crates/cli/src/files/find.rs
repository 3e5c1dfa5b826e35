//! `find`: one walk, hundreds of directories at once, with the attributes that the tests need and no others.

mod expression;
mod pattern;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use vector_client::{AttributeSet, Attributes, Error, Kind};

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
/// combined by -a, -o, !, ( ). -maxdepth and -mindepth N. Actions: -print, -print0.
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
    pub fn run(mut self, _: &Context) -> Result<Outcome, Failure> {
        // An expression may hold anything, so ours is the only other thing that may come late.
        if let Some(at) = self.arguments.iter().position(|argument| argument == "--stats") {
            self.arguments.remove(at);
            self.common.stats = true;
        }
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
                search(session, &expression, place).await?;
            }
            Ok(())
        })
    }
}

/// A directory to be read, and how deep it is.
type Directory = (Place, u32);

async fn search(session: &mut Session, expression: &Expression, place: Place) -> Result<(), Failure> {
    let wanted = expression.wanted() | AttributeSet::KIND;
    let client = place.client.clone();
    let found = client.attributes_of_each(vec![place.target.clone()], wanted, false).await;
    let it = match found.map_err(Failure::failed)?.pop() {
        Some(Ok(it)) => it,
        Some(Err(error)) => return say(session, &place, &error),
        None => return Ok(()),
    };
    let name = place.name().to_vec();
    let name = if name.is_empty() { place.shown.clone() } else { name };
    show(session, expression, &place.shown, &name, &it, 0);
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
                show(session, expression, &shown, &entry.name, &entry.attributes, depth + 1);
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

fn show(
    session: &mut Session,
    expression: &Expression,
    path: &[u8],
    name: &[u8],
    attributes: &Attributes,
    depth: u32,
) {
    if depth < expression.min_depth {
        return;
    }
    expression.run(&Candidate { path, name, attributes }, &mut |end| {
        session.print(path);
        session.print([end]);
    });
}
