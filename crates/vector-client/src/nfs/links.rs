//! Symbolic links on the way, which an NFS server leaves to the client, and ways that are too long for one compound.

use bytes::Bytes;
use nfs4::{Attribute, AttributeValues, FileHandle, FileType, NfsArgOp, NfsResOp, NfsStatus, Outcome};
use nfs4_client::operations::get_attributes;

use super::Nfs;
use super::plan::place;
use super::position::{Place, Start, down};
use crate::path::{Part, join, kept_in_root};
use crate::step::{Copy, Open, Read, Step, Write};
use crate::target::{Base, Target};
use crate::{Done, Error};

impl Nfs {
    /// Replaces the first symbolic link on the way of a step by where it leads; whether there was one.
    pub(super) async fn follow_link(&self, step: &mut Step) -> Result<bool, Error> {
        for (target, last_too) in targets(step) {
            let Some((index, text)) = self.first_link(target, last_too).await? else { continue };
            *target = through(target, index, &text, &self.place(target)?);
            return Ok(true);
        }
        Ok(false)
    }

    fn place(&self, target: &Target) -> Result<Place, Error> {
        place(target, &self.root, &self.files)
    }

    /// The first part of a path that is a symbolic link, and what it says.
    async fn first_link(&self, target: &Target, last_too: bool) -> Result<Option<(usize, Bytes)>, Error> {
        let place = self.place(target)?;
        let count = place.parts.len() - usize::from(!last_too && !place.parts.is_empty());
        let at_once = (self.bounds().operations.saturating_sub(2) / 2).clamp(1, 128);
        let (mut start, mut first) = (place.start.clone(), 0);
        while first < count {
            let parts = &place.parts[first..count.min(first + at_once)];
            let mut operations = vec![start.operation()];
            for part in parts {
                operations.extend([down(part), get_attributes(Attribute::set(&[Attribute::Type]))]);
            }
            operations.push(NfsArgOp::GetFh);
            let mut results = self.compound(&operations).await?.results;
            let types = results.iter().filter_map(|result| match result {
                NfsResOp::GetAttr(Outcome::Ok(got)) => Some(got.values().ok().and_then(|it| it.r#type)),
                _ => None,
            });
            let types: Vec<_> = types.collect();
            if let Some(index) = types.iter().position(|it| *it == Some(FileType::SymbolicLink)) {
                let link = Place { start, parts: parts[..=index].to_vec() };
                return Ok(Some((first + index, self.text(link).await?)));
            }
            match results.pop() {
                Some(NfsResOp::GetFh(Outcome::Ok(handle))) => start = Start::Handle(handle),
                _ => return Ok(None),
            }
            first += parts.len();
        }
        Ok(None)
    }

    async fn text(&self, link: Place) -> Result<Bytes, Error> {
        let mut operations = super::execute::walk(&link);
        operations.push(NfsArgOp::ReadLink);
        match self.compound(&operations).await?.into_results()?.pop() {
            Some(NfsResOp::ReadLink(Outcome::Ok(text))) => Ok(text.0),
            _ => Err(Error::Unsupported("reading a symbolic link")),
        }
    }

    /// Makes the paths of a step as short as they can be, by looking up the directories before; whether there was
    /// anything to shorten.
    pub(super) async fn shorten_paths(&self, step: &mut Step, operations: usize) -> Result<bool, Error> {
        let mut shorter = false;
        for (target, _) in targets(step) {
            for links in 0.. {
                let Some((index, text)) = self.first_link(target, false).await? else { break };
                if links == super::execute::LINKS {
                    return Err(Error::TooManyLinks(target.clone()));
                }
                *target = through(target, index, &text, &self.place(target)?);
            }
            let place = self.place(target)?;
            let (directory, path) = match place.parts.split_last() {
                Some((Part::Name(_), [])) | None => continue,
                Some((Part::Name(name), parents)) => (parents, name.clone()),
                Some((Part::Parent, _)) => (&place.parts[..], Bytes::new()),
            };
            let handle = self.look_up(target, place.start.clone(), directory, operations).await?;
            *target = Target { base: Base::Handle(handle), path };
            shorter = true;
        }
        Ok(shorter)
    }

    async fn look_up(
        &self,
        target: &Target,
        mut start: Start,
        parts: &[Part],
        operations: usize,
    ) -> Result<FileHandle, Error> {
        for parts in parts.chunks(operations.saturating_sub(2).max(1)) {
            let mut request = super::execute::walk(&Place { start, parts: parts.to_vec() });
            request.push(NfsArgOp::GetFh);
            let mut reply = self.compound(&request).await?;
            match reply.results.pop() {
                Some(NfsResOp::GetFh(Outcome::Ok(handle))) => start = Start::Handle(handle),
                _ => return Err(Error::Refused { target: target.clone(), status: reply.status }),
            }
        }
        match start {
            Start::Handle(handle) => Ok(handle),
            Start::Root => Err(Error::Unsupported("looking up nothing")),
        }
    }

    /// A step on the content of one file, with an open and a close in compounds of their own.
    pub(super) async fn in_three(&self, mut step: Step) -> Result<Done, Error> {
        let target = step.target();
        let (open, data) = match &mut step {
            Step::Read(Read { target, follow, .. }) => {
                (Open { follow: *follow, ..Open::read(target.clone()) }, target)
            }
            Step::Write(Write { target, follow, create, truncate, .. }) => {
                let (create, truncate) = (create.take(), std::mem::take(truncate));
                let open =
                    Open { create, truncate, follow: *follow, read: false, ..Open::write(target.clone()) };
                (open, target)
            }
            Step::Copy(_) => return self.copy_in_three(step).await,
            _ => return Err(Error::Refused { target, status: NfsStatus::TooManyOps }),
        };
        let descriptor = self.open(open).await?;
        *data = descriptor.into();
        let done = Box::pin(self.do_all(vec![step])).await;
        let closed = Box::pin(self.do_all(vec![Step::Close(descriptor)])).await;
        let done = done.map_err(|failure| failure.error)?.pop();
        closed.map_err(|failure| failure.error)?;
        done.ok_or(Error::Unsupported("a step without a result"))
    }

    async fn copy_in_three(&self, mut step: Step) -> Result<Done, Error> {
        let Step::Copy(copy) = &mut step else { return Err(Error::Unsupported("copying")) };
        if copy.source.descriptor().is_some() && copy.destination.descriptor().is_some() {
            let target = copy.destination.clone();
            return Err(Error::Refused { target, status: NfsStatus::TooManyOps });
        }
        let mut opened = Vec::new();
        if copy.source.descriptor().is_none() {
            opened.push(self.open(Open::read(copy.source.clone())).await?);
            copy.source = opened[0].into();
        }
        let destination = match copy.destination.descriptor() {
            Some(descriptor) => Ok(descriptor),
            None => {
                let (create, truncate) = (copy.create.take(), std::mem::take(&mut copy.truncate));
                let open = Open { create, truncate, read: false, ..Open::write(copy.destination.clone()) };
                let descriptor = self.open(open).await;
                opened.extend(descriptor.as_ref().ok());
                descriptor
            }
        };
        let done = match destination {
            Ok(destination) => {
                copy.destination = destination.into();
                let done = Box::pin(self.do_all(vec![step])).await;
                done.map_err(|failure| failure.error).map(|mut done| done.pop())
            }
            Err(error) => Err(error),
        };
        let closes = opened.into_iter().map(Step::Close).collect();
        let closed = Box::pin(self.do_all(closes)).await;
        let done = done?;
        closed.map_err(|failure| failure.error)?;
        done.ok_or(Error::Unsupported("copying"))
    }

    pub(super) async fn open(&self, open: Open) -> Result<crate::Descriptor, Error> {
        match Box::pin(self.do_all(vec![Step::Open(open)])).await.map(|mut done| done.pop()) {
            Ok(Some(Done::Opened(descriptor))) => Ok(descriptor),
            Ok(_) => Err(Error::Unsupported("opening")),
            Err(failure) => Err(failure.error),
        }
    }
}

/// Takes from the first path of a step that leads above the root what leads there; whether there was one. To be called when
/// a LOOKUPP has found the root, so that there are no symbolic links before it.
pub(super) fn keep_in_root(step: &mut Step) -> bool {
    for (target, _) in targets(step) {
        if target.base == Base::Root
            && let Some(path) = kept_in_root(&target.path)
        {
            target.path = path;
            return true;
        }
    }
    false
}

/// The paths of a step, and whether a symbolic link at the end of each is followed.
fn targets(step: &mut Step) -> Vec<(&mut Target, bool)> {
    match step {
        Step::Open(Open { target, follow, .. })
        | Step::Read(Read { target, follow, .. })
        | Step::Write(Write { target, follow, .. })
        | Step::GetAttributes { target, follow, .. }
        | Step::SetAttributes { target, follow, .. } => vec![(target, *follow)],
        Step::MakeDirectory { target, .. }
        | Step::MakeSymbolicLink { target, .. }
        | Step::ReadLink(target)
        | Step::Remove(target) => vec![(target, false)],
        Step::Copy(Copy { source, destination, .. }) => vec![(source, true), (destination, true)],
        Step::HardLink { existing, new } => vec![(existing, false), (new, false)],
        Step::Rename { from, to } => vec![(from, false), (to, false)],
        Step::Close(_) | Step::Commit(_) => Vec::new(),
    }
}

/// The path with its part `index`, a symbolic link, replaced by what that says.
fn through(target: &Target, index: usize, text: &Bytes, place: &Place) -> Target {
    let after = join(&place.parts[index + 1..]);
    let mut path = Vec::new();
    let base = if text.starts_with(b"/") {
        Base::Root
    } else {
        path.extend_from_slice(&join(&place.parts[..index]));
        path.push(b'/');
        target.base.clone()
    };
    path.extend_from_slice(text);
    path.push(b'/');
    path.extend_from_slice(&after);
    Target::at(base, path)
}

/// Which attributes say whether something is a regular file.
pub(super) fn is_regular_file() -> AttributeValues {
    AttributeValues { r#type: Some(FileType::Regular), ..AttributeValues::default() }
}

/// Which attributes say whether something is a symbolic link.
pub(super) fn is_symbolic_link() -> AttributeValues {
    AttributeValues { r#type: Some(FileType::SymbolicLink), ..AttributeValues::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_from_its_directory_or_from_the_root() {
        let follow = |path: &str, index, text: &str| {
            let target = Target::from(path);
            let parts = crate::path::parts(&target.path, true);
            let place = Place { start: Start::Root, parts };
            let path = through(&target, index, &Bytes::copy_from_slice(text.as_bytes()), &place).path;
            String::from_utf8(join(&crate::path::parts(&path, true)).to_vec()).unwrap()
        };
        assert_eq!(follow("/a/link/c", 1, "b"), "a/b/c");
        assert_eq!(follow("/a/link/c", 1, "../b"), "a/../b/c");
        assert_eq!(follow("/a/link", 1, "/b"), "b");
        assert_eq!(follow("/link/x/y", 0, "a/b"), "a/b/x/y");
    }
}
