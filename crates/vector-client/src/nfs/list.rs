//! Reading directories, many at once (V16, V28).

use futures::future::join_all;
use nfs4::{Attribute, NfsArgOp, NfsResOp, NfsStatus, Outcome, ReadDirOk, Verifier};
use nfs4_client::ClientError;
use nfs4_client::operations::read_directory;

use super::execute::REFUSALS;
use super::links::keep_in_root;
use super::plan::place;
use super::position::Position;
use super::{AROUND, Nfs, attributes, size};
use crate::listing::{Cookie, Directory, Entry, Page, PageResult};
use crate::step::Step;
use crate::{AttributeSet, Error};

/// Compounds under way at once.
const PARALLEL: usize = 8;

/// Directories of one compound at most.
const DIRECTORIES: usize = 256;

/// Most bytes of the first page of a directory that is read together with others; most directories are far smaller.
const FIRST_PAGE: u32 = 64 << 10;

/// Bytes that a directory is reckoned to take (kurma.md §3.6). If several take more, the server stops, and the rest
/// follows in another compound.
const USUAL: usize = 4 << 10;

/// READDIRs of one compound.
struct Compound {
    operations: Vec<NfsArgOp>,
    /// The READDIR of each directory.
    reads: Vec<usize>,
}

impl Nfs {
    /// The next pages of these directories, in order; of fewer than asked for, but of one at least.
    pub async fn read_directories(&self, mut directories: Vec<Directory>) -> Vec<PageResult> {
        // Symbolic links in paths are followed, one after the other; how often is bounded.
        for _ in 0..=super::execute::LINKS {
            if let Some(first) = directories.first_mut()
                && let Err(error) = self.shorten_way(first).await
            {
                return vec![Err(error)];
            }
            let pages = self.pages(&directories).await;
            let Err((index, error)) = pages else { return pages.unwrap_or_default() };
            let status = match &error {
                Error::Refused { status, .. } => *status,
                _ => return vec![Err(error)],
            };
            if index > 0 || !matches!(status, NfsStatus::NotDir | NfsStatus::Symlink | NfsStatus::NoEnt) {
                return vec![Err(error)];
            }
            let Some(directory) = directories.first_mut() else { return Vec::new() };
            let mut step = Step::GetAttributes {
                target: directory.target.clone(),
                wanted: AttributeSet::NONE,
                follow: true,
            };
            if status == NfsStatus::NoEnt {
                if !keep_in_root(&mut step) {
                    return vec![Err(error)];
                }
                directory.target = step.target();
                continue;
            }
            match self.follow_link(&mut step).await {
                Ok(true) => directory.target = step.target(),
                Ok(false) => return vec![Err(error)],
                Err(error) => return vec![Err(error)],
            }
        }
        let target = directories.swap_remove(0).target;
        vec![Err(Error::TooManyLinks(target))]
    }

    /// Looks up where a directory is, if the way there is too long for one compound.
    async fn shorten_way(&self, directory: &mut Directory) -> Result<(), Error> {
        let way = place(&directory.target, &self.root, &self.files)?.parts.len();
        let operations = self.bounds().operations;
        if way + 2 > operations {
            let mut step = Step::ReadLink(directory.target.clone());
            self.shorten_paths(&mut step, operations).await?;
            directory.target = step.target();
        }
        Ok(())
    }

    /// The pages of a first part of the directories. An error is that of the first directory; later ones are left for the
    /// next call.
    async fn pages(&self, directories: &[Directory]) -> Result<Vec<PageResult>, (usize, Error)> {
        let mut refused = 0;
        loop {
            match self.try_pages(directories).await {
                // The limits are known better now.
                Err((_, Error::Connection(ClientError::TooLarge { .. }))) if refused < REFUSALS => {
                    refused += 1
                }
                ended => return ended,
            }
        }
    }

    async fn try_pages(&self, directories: &[Directory]) -> Result<Vec<PageResult>, (usize, Error)> {
        let mut compounds = Vec::new();
        let mut planned = 0;
        while planned < directories.len() && compounds.len() < PARALLEL {
            let compound = match self.plan(&directories[planned..]) {
                Ok(compound) => compound,
                Err(error) if planned == 0 => return Err((0, error)),
                Err(_) => break,
            };
            // What is too long is the first one of another call, and is made shorter there.
            if planned > 0 && compound.operations.len() > self.bounds().operations {
                break;
            }
            planned += compound.reads.len();
            compounds.push(compound);
        }
        let replies = join_all(compounds.iter().map(|it| self.compound(&it.operations))).await;
        let mut pages = Vec::new();
        for (compound, reply) in compounds.iter().zip(replies) {
            let reply = match reply {
                Ok(reply) => reply,
                Err(error) if pages.is_empty() => return Err((0, error.into())),
                Err(_) => return Ok(pages),
            };
            for read in &compound.reads {
                let directory = &directories[pages.len()];
                match reply.results.get(*read) {
                    Some(NfsResOp::ReadDir(Outcome::Ok(page))) => {
                        pages.push(page_of(page, directory));
                    }
                    _ if pages.is_empty() => {
                        let target = directory.target.clone();
                        return Err((0, Error::Refused { target, status: reply.status }));
                    }
                    _ => return Ok(pages),
                }
            }
        }
        Ok(pages)
    }

    /// READDIRs of as many directories as fit; of one at least.
    fn plan(&self, directories: &[Directory]) -> Result<Compound, Error> {
        let bounds = self.bounds();
        let whole = u32::try_from(bounds.reply.saturating_sub(AROUND)).unwrap_or(u32::MAX);
        let mut compound = Compound { operations: Vec::new(), reads: Vec::new() };
        let mut position = Position::default();
        let (mut request, mut reply) = (0, 0);
        for directory in directories.iter().take(DIRECTORIES) {
            let at = match place(&directory.target, &self.root, &self.files) {
                Ok(at) => at,
                Err(error) if compound.reads.is_empty() => return Err(error),
                Err(_) => break,
            };
            let mut operations = position.go(&at, &[]);
            let (cookie, verifier) =
                directory.from.map_or((0, Verifier::default()), |it| (it.position, Verifier(it.verifier)));
            // What is known to be long is read alone.
            let alone = directory.from.is_some() || directories.len() == 1;
            let max_count = if alone { whole } else { whole.min(FIRST_PAGE) };
            let wanted = attributes::request(directory.wanted).with(Attribute::RdattrError);
            operations.push(read_directory(cookie, verifier, max_count, wanted));
            request += operations.iter().map(size::of_request).sum::<usize>();
            reply += USUAL;
            let fits = compound.operations.len() + operations.len() <= bounds.operations
                && request <= bounds.request
                && reply <= bounds.reply;
            if !compound.reads.is_empty() && (!fits || directory.from.is_some()) {
                break;
            }
            compound.operations.append(&mut operations);
            compound.reads.push(compound.operations.len() - 1);
            if alone {
                break;
            }
        }
        Ok(compound)
    }
}

fn page_of(page: &ReadDirOk, directory: &Directory) -> PageResult {
    let mut entries = Vec::with_capacity(page.entries.len());
    for entry in &page.entries {
        let name = &entry.name.0;
        if name.as_ref() == b"." || name.as_ref() == b".." {
            continue;
        }
        // It would lead elsewhere.
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            let what =
                "the server lists a name that no file can have: an empty one, or one with a slash or a zero";
            return Err(Error::Invalid { target: directory.target.clone(), what });
        }
        let values = entry.attributes.values().map_err(nfs4_client::ClientError::from)?;
        entries
            .push(Entry { name: name.clone(), attributes: attributes::received(values, directory.wanted) });
    }
    let next = match page.entries.last() {
        _ if page.eof => None,
        Some(last) => Some(Cookie { position: last.cookie, verifier: page.cookie_verifier.0 }),
        // Asking again would never end.
        None => return Err(Error::Unsupported("reading a directory whose pages are empty")),
    };
    if next.is_some_and(|next| directory.from.is_some_and(|from| from.position == next.position)) {
        return Err(Error::Unsupported("reading a directory whose pages do not go on"));
    }
    Ok(Page { entries, next })
}
