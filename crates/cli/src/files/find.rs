//! `find`: one walk, hundreds of directories at once, with the attributes that the tests need and no others.

mod expression;
mod printf;
mod search;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Args;

use self::expression::Expression;
use self::search::Search;
use super::quote::quoted;
use super::session::{self, Common, words};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};

/// Find files in directory trees
///
/// Tests: -name -iname -path PATTERN, -type f,d,l,b,c,p,s, -size [+-]N[cwbkMG], -mtime -mmin [+-]N, -newer FILE, -empty,
/// -perm [-/]MODE, -user -group NAME, -uid -gid -links -inum [+-]N, -true, -false; combined by -a, -o, !, ( ). -maxdepth and
/// -mindepth N, -depth. Actions: -print, -print0, -printf FORMAT, -prune, -delete, -quit; with --json what is printed is one object
/// on a line.
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
            let mut search = Search::new(&expression, json);
            for place in places {
                if search.has_quit {
                    break;
                }
                let place = session.place(place.as_ref() as &OsStr).await?;
                search.run(session, place).await?;
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
