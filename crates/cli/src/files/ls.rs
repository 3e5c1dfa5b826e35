//! `ls`: one walk with attributes in READDIR, sorted, with as many directories read at once as are next to be shown.

mod layout;
mod order;
mod read;
mod version;

use std::ffi::OsString;
use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use vector_client::{AttributeSet, Attributes, Error, Kind};

use self::layout::Layout;
use self::order::{Sort, Which};
pub use self::read::attributes;
use self::read::{Line, Listing};
use super::people::People;
use super::place::Place;
use super::quote::quoted;
use super::session::{self, Common, Session, words};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};

/// List directories
#[derive(Args, Default)]
#[command(disable_help_flag = true, after_help = "Example: kurma ls -l nfs://127.0.0.1/home")]
pub struct Ls {
    /// Show names that begin with a dot too
    #[arg(short = 'a', long)]
    all: bool,
    /// As -a, without . and ..
    #[arg(short = 'A', long)]
    almost_all: bool,
    /// Show kind, permissions, names, owner, group, size and time
    #[arg(short = 'l')]
    long: bool,
    /// As -l, without the owner
    #[arg(short = 'g')]
    no_owner: bool,
    /// As -l, without the group
    #[arg(short = 'o')]
    long_no_group: bool,
    /// With -l, without the group
    #[arg(short = 'G', long)]
    no_group: bool,
    /// With all directories below
    #[arg(short = 'R', long)]
    recursive: bool,
    /// One name a line, as always when the output is no terminal
    #[arg(short = '1', overrides_with = "columns")]
    one: bool,
    /// In columns
    #[arg(short = 'C', overrides_with = "one")]
    columns: bool,
    /// Directories themselves, not what is in them
    #[arg(short = 'd', long)]
    directory: bool,
    /// Newest first
    #[arg(short = 't', overrides_with_all = ["by_size", "by_version", "by_extension", "unsorted", "sort"])]
    by_time: bool,
    /// Largest first
    #[arg(short = 'S', overrides_with_all = ["by_time", "by_version", "by_extension", "unsorted", "sort"])]
    by_size: bool,
    /// By the numbers in names: file2 before file10
    #[arg(short = 'v', overrides_with_all = ["by_time", "by_size", "by_extension", "unsorted", "sort"])]
    by_version: bool,
    /// By what follows the last dot
    #[arg(short = 'X', overrides_with_all = ["by_time", "by_size", "by_version", "unsorted", "sort"])]
    by_extension: bool,
    /// As the server has them
    #[arg(short = 'U', overrides_with_all = ["by_time", "by_size", "by_version", "by_extension", "sort"])]
    unsorted: bool,
    /// By this
    #[arg(long, value_enum, value_name = "WORD", overrides_with_all = ["by_time", "by_size", "by_version", "by_extension", "unsorted"])]
    sort: Option<Sort>,
    /// Times are those of the last access; sorts by it, unless -l shows it
    #[arg(short = 'u', overrides_with_all = ["by_change", "time"])]
    by_access: bool,
    /// Times are those of the last change of attributes or content; sorts by it, unless -l shows it
    #[arg(short = 'c', overrides_with_all = ["by_access", "time"])]
    by_change: bool,
    /// The same by a word
    #[arg(long, value_enum, value_name = "WORD", overrides_with_all = ["by_access", "by_change"])]
    time: Option<Which>,
    /// The other way round
    #[arg(short = 'r', long)]
    reverse: bool,
    /// Directories before all else
    #[arg(long)]
    group_directories_first: bool,
    /// Show how much space files take, in KiB
    #[arg(short = 's', long)]
    size: bool,
    /// Sizes with K, M, G
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Numbers for owners and groups; as -l otherwise
    #[arg(short = 'n', long)]
    numeric_uid_gid: bool,
    /// Show file numbers
    #[arg(short = 'i', long)]
    inode: bool,
    /// Mark directories, programs, links, pipes and sockets
    #[arg(short = 'F', long)]
    classify: bool,
    /// Mark directories by /
    #[arg(short = 'p')]
    slash: bool,
    /// What symbolic links lead to
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Times to the nanosecond; as -l otherwise
    #[arg(long)]
    full_time: bool,
    /// How times are shown
    #[arg(long, value_enum, value_name = "STYLE")]
    time_style: Option<TimeStyle>,
    /// Accepted, and never done
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true)]
    color: Option<Option<String>>,
    #[command(flatten)]
    common: Common,
    /// Files and directories: nfs://HOST[:PORT]/PATH or local
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TimeStyle {
    FullIso,
    LongIso,
    Locale,
}

impl Ls {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        session::run("ls", &self.common, async |session| {
            let here = [OsString::from(".")];
            let files = if self.files.is_empty() { &here[..] } else { &self.files[..] };
            let places = session.places(files).await?;
            let layout = Layout::of(&self, context.json);
            Shown { ls: &self, layout, is_first: true }.all(session, places).await
        })
    }

    fn is_long(&self) -> bool {
        self.long || self.no_owner || self.long_no_group || self.numeric_uid_gid || self.full_time
    }

    fn sorts_by(&self) -> Sort {
        let of_letters = [
            (self.by_time, Sort::Time),
            (self.by_size, Sort::Size),
            (self.by_version, Sort::Version),
            (self.by_extension, Sort::Extension),
            (self.unsorted, Sort::None),
        ];
        let of_letter = of_letters.into_iter().find(|(is_it, _)| *is_it).map(|(_, sort)| sort);
        let names_time = self.by_access || self.by_change || self.time.is_some();
        let usual = if names_time && !self.is_long() { Sort::Time } else { Sort::Name };
        of_letter.or(self.sort).unwrap_or(usual)
    }

    fn which_time(&self) -> Which {
        match (self.by_access, self.by_change) {
            (true, _) => Which::Accessed,
            (_, true) => Which::Changed,
            _ => self.time.unwrap_or_default(),
        }
    }

    /// Attributes that are asked for with the names.
    fn wanted(&self, json: bool) -> AttributeSet {
        let mut wanted = AttributeSet::NONE;
        for (wish, attributes) in [
            (self.is_long() || json, AttributeSet::STAT),
            (
                self.recursive || self.slash || self.dereference || self.group_directories_first,
                AttributeSet::KIND,
            ),
            (self.size, AttributeSet::SPACE_USED),
            (self.classify, AttributeSet::KIND | AttributeSet::MODE),
            (self.sorts_by() == Sort::Time, self.which_time().attribute()),
            (self.sorts_by() == Sort::Size, AttributeSet::SIZE),
            (self.inode, AttributeSet::FILE_ID),
        ] {
            wanted = if wish { wanted | attributes } else { wanted };
        }
        wanted
    }

    /// Whether a symbolic link that is named shows what it leads to.
    fn follows_arguments(&self) -> bool {
        self.dereference || !(self.is_long() || self.directory || self.classify)
    }
}

/// What was shown so far.
struct Shown<'a> {
    ls: &'a Ls,
    layout: Layout,
    is_first: bool,
}

impl Shown<'_> {
    async fn all(mut self, session: &mut Session, places: Vec<Place>) -> Result<(), Failure> {
        let count = places.len();
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        for (place, found) in self.look(&places).await?.into_iter().enumerate() {
            let place = &places[place];
            match found {
                Ok(attributes) if attributes.is(Kind::Directory) && !self.ls.directory => {
                    directories.push(Line::new(place.shown.clone(), attributes, place.clone()));
                }
                Ok(attributes) => files.push(Line::new(place.shown.clone(), attributes, place.clone())),
                Err(error) => {
                    let shown = quoted(&place.shown);
                    session.complain_with(2, format_args!("cannot access {shown}: {}", words(&error)));
                }
            }
        }
        read::links(self.ls, &mut files).await?;
        order::sort(self.ls, &mut files);
        order::sort(self.ls, &mut directories);
        if !files.is_empty() {
            self.layout.print(session, &files, &directories, None, "");
            self.is_first = false;
        }
        let headers = count > 1 || self.ls.recursive;
        let mut listing = Listing::new(self.ls, self.layout.json, directories);
        while let Some((place, is_argument, entries)) = listing.next().await? {
            match entries {
                Ok((lines, complete)) => {
                    self.directory(session, &place, headers, &lines);
                    if let Err(error) = complete {
                        let shown = quoted(&place.shown);
                        let status = if is_argument { 2 } else { 1 };
                        let message = format!("reading directory {shown}: {}", words(&error));
                        session.complain_with(status, message);
                    }
                }
                Err(error) => {
                    let status = if is_argument { 2 } else { 1 };
                    let shown = quoted(&place.shown);
                    session
                        .complain_with(status, format!("cannot open directory {shown}: {}", words(&error)));
                }
            }
        }
        self.layout.end(session);
        Ok(())
    }

    fn directory(&mut self, session: &mut Session, place: &Place, headers: bool, lines: &[Line]) {
        let total = lines.iter().map(|line| line.attributes.space_used.unwrap_or(0) / 512).sum::<u64>();
        let mut header = String::new();
        if headers && !self.layout.json {
            if !std::mem::replace(&mut self.is_first, false) {
                session.print("\n");
            }
            session.print(&place.shown);
            header.push_str(":\n");
        }
        session.print(header);
        let shown = String::from_utf8_lossy(&place.shown).into_owned();
        self.layout.print(session, lines, &[], Some(total), &shown);
    }

    /// Attributes of the arguments, in as few round trips as there are servers.
    async fn look(&self, places: &[Place]) -> Result<Vec<Result<Attributes, Error>>, Failure> {
        let wanted = self.ls.wanted(self.layout.json) | AttributeSet::KIND;
        let follow = self.ls.follows_arguments();
        let mut all = read::attributes(places, wanted, follow).await?;
        for (place, found) in places.iter().zip(&mut all) {
            // One that leads nowhere is shown as it is; a slash at the end asks for what it leads to.
            let is_broken = follow && found.as_ref().is_err_and(Error::is_not_found);
            let leads_on =
                !follow && place.ends_in_slash() && found.as_ref().is_ok_and(|it| it.is(Kind::SymbolicLink));
            if is_broken || leads_on {
                let again = read::attributes(std::slice::from_ref(place), wanted, leads_on).await?.pop();
                *found = again.unwrap_or(Ok(Attributes::default()));
            }
        }
        Ok(all)
    }
}

impl Layout {
    fn of(ls: &Ls, json: bool) -> Layout {
        let is_terminal = std::io::stdout().is_terminal();
        Layout {
            json,
            long: ls.is_long(),
            numeric: ls.numeric_uid_gid,
            human: ls.human_readable,
            inode: ls.inode,
            blocks: ls.size,
            owner: !ls.no_owner,
            group: !(ls.no_group || ls.long_no_group),
            classify: ls.classify,
            slash: ls.slash,
            columns: (ls.columns || is_terminal && !ls.one) && !ls.is_long(),
            is_terminal,
            time: if ls.full_time { TimeStyle::FullIso } else { ls.time_style.unwrap_or(TimeStyle::Locale) },
            which: ls.which_time(),
            people: if ls.is_long() { Some(People::known()) } else { None },
            objects: Vec::new(),
        }
    }
}
