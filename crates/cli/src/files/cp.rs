//! `cp`: attributes come with the names, small files go by the hundred, a server copies by itself.

use std::collections::HashSet;

use clap::Args;
use vector_client::{CopyOptions, Links, Make, Preserve};

use super::destination::{Operands, pairs};
use super::mkdir::process_umask;
use super::place::Place;
use super::quote::quoted;
use super::session::{self, Common, Session};
use super::sync::is_directory;
use super::tree_report::{Replace, Report, Wishes};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;

/// Copy files and directories
#[derive(Args)]
#[command(disable_help_flag = true, after_help = "Example: kurma cp -a src nfs://127.0.0.1/home/backup")]
pub struct Cp {
    /// As -dR --preserve=all
    #[arg(short = 'a', long)]
    archive: bool,
    /// Directories with all that is in them
    #[arg(short = 'r', short_alias = 'R', long)]
    recursive: bool,
    /// Preserve permissions, owners and times
    #[arg(short = 'p')]
    preserved: bool,
    /// What to preserve: mode, ownership, timestamps, links, all
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = true, value_delimiter = ',', default_missing_value = "mode,ownership,timestamps")]
    preserve: Vec<String>,
    /// As -P --preserve=links
    #[arg(short = 'd')]
    links: bool,
    /// Copy symbolic links, not what they lead to
    #[arg(short = 'P', long, overrides_with_all = ["dereference", "follow_named"])]
    no_dereference: bool,
    /// Copy what symbolic links lead to
    #[arg(short = 'L', long, overrides_with_all = ["no_dereference", "follow_named"])]
    dereference: bool,
    /// Copy what symbolic links lead to that are named here
    #[arg(short = 'H', overrides_with_all = ["no_dereference", "dereference"])]
    follow_named: bool,
    /// Leave alone what exists
    #[arg(short = 'n', long, overrides_with = "interactive")]
    no_clobber: bool,
    /// Ask before something is replaced
    #[arg(short = 'i', long, overrides_with = "no_clobber")]
    interactive: bool,
    /// Replace only what is older
    #[arg(short = 'u', long)]
    update: bool,
    /// Remove what cannot be opened to be written
    #[arg(short = 'f', long)]
    force: bool,
    /// Remove what exists instead of writing into it
    #[arg(long)]
    remove_destination: bool,
    /// Make symbolic links instead of copies
    #[arg(short = 's', long, conflicts_with = "link")]
    symbolic_link: bool,
    /// Make hard links instead of copies
    #[arg(short = 'l', long)]
    link: bool,
    /// Say what was copied
    #[arg(short = 'v', long)]
    verbose: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    operands: Operands,
}

impl Cp {
    pub fn run(mut self, _: &Context) -> Result<Outcome, Failure> {
        let options = self.options()?;
        let into = self.operands.placement();
        let target = self.operands.take_needed_target("cp")?;
        let replace = match (self.interactive, self.no_clobber, self.update) {
            (true, ..) => Replace::Ask,
            (_, true, _) => Replace::Never,
            (.., true) => Replace::Older,
            _ => Replace::Always,
        };
        session::run("cp", &self.common, async |session| {
            let sources = session.places(&self.operands.files).await?;
            let target = session.place(&target).await?;
            let mut options = options;
            if options.links == Links::Keep && sources.iter().any(Place::ends_in_slash) {
                // A slash at the end asks for the directory that a symbolic link leads to.
                options.links = Links::FollowNamed;
            }
            let copies = pairs(session, sources, target, into).await?;
            let copies = self.different(session, copies).await?;
            let wishes = Wishes { replace, verbose: self.verbose.then_some(""), excluded: None };
            copy(session, "cp", &copies, &options, wishes).await?;
            Ok(())
        })
    }

    fn options(&self) -> Result<CopyOptions, Failure> {
        let mut preserve = if self.archive { Preserve::ALL } else { Preserve::default() };
        preserve.links |= self.links;
        for wish in self.preserve.iter().flat_map(|list| list.split(',')) {
            match wish {
                "mode" => preserve.mode = true,
                "ownership" => preserve.owner = true,
                "timestamps" => preserve.times = true,
                "links" => preserve.links = true,
                "all" => preserve = Preserve::ALL,
                other => {
                    return Err(Failure::usage(format_args!("cp: nothing to preserve is called '{other}'")));
                }
            }
        }
        if self.preserved {
            preserve = Preserve { links: preserve.links, ..Preserve::ALL };
        }
        let recursive = self.recursive || self.archive;
        let links = if self.dereference {
            Links::Follow
        } else if self.follow_named {
            Links::FollowNamed
        } else if self.no_dereference || self.links || self.archive || recursive || self.link {
            Links::Keep
        } else {
            Links::Follow
        };
        Ok(CopyOptions {
            recursive,
            links,
            preserve,
            make: match (self.symbolic_link, self.link) {
                (true, _) => Make::SymbolicLink,
                (_, true) => Make::HardLink,
                _ => Make::Copy,
            },
            umask: process_umask(),
            force: self.force,
            remove: self.remove_destination,
        })
    }

    /// No two of them go to the same place, and links lead within one server.
    async fn different(
        &self,
        session: &mut Session,
        copies: Vec<(Place, Place)>,
    ) -> Result<Vec<(Place, Place)>, Failure> {
        let mut made = HashSet::new();
        let mut kept = Vec::new();
        for (from, to) in copies {
            let (source, target) = (quoted(&from.shown), quoted(&to.shown));
            if (self.link || self.symbolic_link) && !from.client.is_same(&to.client) {
                session
                    .complain(format_args!("cannot link {target} to {source}: {}", session::errno_words(18)));
            } else if to.ends_in_slash() && !self.recursive && !self.archive && from.name() != b"." {
                let why = session::errno_words(20);
                session.complain(format_args!("cannot create regular file {target}: {why}"));
            } else if made.insert(to.target.clone())
                || ((self.recursive || self.archive) && is_directory(&from).await?)
            {
                kept.push((from, to));
            } else if !self.no_clobber {
                session.complain(format_args!("will not overwrite just-created {target} with {source}"));
            }
        }
        Ok(kept)
    }
}

/// Copies all of these; which of them are not wholly copied.
pub async fn copy(
    session: &mut Session,
    tool: &'static str,
    copies: &[(Place, Place)],
    options: &CopyOptions,
    wishes: Wishes<'_>,
) -> Result<Vec<bool>, Failure> {
    let mut incomplete = Vec::new();
    for run in copies.chunk_by(|a, b| a.0.client.is_same(&b.0.client) && a.1.client.is_same(&b.1.client)) {
        let (from, to) = (&run[0].0.client, &run[0].1.client);
        let targets = run.iter().map(|(from, to)| (from.target.clone(), to.target.clone())).collect();
        let mut report = Report {
            session,
            tool,
            copies: run,
            wishes,
            progress: Progress::new(tool).unless(wishes.verbose.is_some()),
            incomplete: vec![false; run.len()],
        };
        from.cp_recursive(targets, to, options, &mut report).await.map_err(Failure::failed)?;
        incomplete.append(&mut report.incomplete);
    }
    Ok(incomplete)
}
