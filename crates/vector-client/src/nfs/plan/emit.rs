//! One step as operations.

use std::sync::Arc;

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{
    Attribute, AttributeValues, Component, CopyArgs, CreateArgs, CreateHow, CreateType, DelegReturnArgs,
    LinkArgs, LinkText, NfsArgOp, OpenArgs, OpenClaim, OpenHow, StableHow, StateId, StateOwner, VerifyArgs,
};
use nfs4_client::operations::{
    commit, get_attributes, lookup, owner, read, remove, rename, set_attributes, write,
};

use super::{Context, Opening, Piece, Plan, STEPS, Work};
use crate::nfs::attributes;
use crate::nfs::cache::{Kept, label, proof};
use crate::nfs::execute::only_asks;
use crate::nfs::links::{is_regular_file, is_symbolic_link};
use crate::nfs::open_files::{OpenFile, OpenFiles};
use crate::nfs::position::{Place, Start, down};
use crate::nfs::promise::Stamp;
use crate::path::parts;
use crate::step::{APPEND, Creation, Step, TO_END, further};
use crate::target::{Base, Target};
use crate::{Descriptor, Error};

/// Operations of a READ by path from its label on, and the directory of the next.
const ONE: usize = 6;

/// Operations of a further one in the same directory: RESTOREFH, OPEN, READ, CLOSE.
const EACH: usize = 4;

/// Operations of a further one of an open file: PUTFH, READ.
const EACH_OPEN: usize = 2;

/// Puts one step into a compound.
pub(super) struct Emit<'a> {
    pub plan: &'a mut Plan,
    pub context: &'a Context<'a>,
}

impl Emit<'_> {
    pub fn step(mut self, work: &Work, next: &[Work]) -> Result<Piece, Error> {
        let first = self.plan.operations.len();
        let (mut descriptor, mut unless, mut stamp, mut writes) = (None, None, None, 0);
        let key = match &work.step {
            Step::Open(open) => {
                open.check()?;
                let number = self.context.files.reserve();
                descriptor = Some(number);
                let owner = open_owner(number);
                let mut access = access_bits(open.read, open.write);
                if self.context.keeps && !open.write {
                    access |= share_access::WANT_READ_DELEG;
                }
                self.open(&open.target, access, open.create, open.truncate, owner, next)?;
                self.plan.push(NfsArgOp::GetFh)
            }
            Step::Close(number) => {
                let file = self.put_file(*number)?;
                if file.needs_commit() || self.plan.writes_unsafely(&file.open) {
                    writes = file.writes() + self.plan.writes_to(&file.open);
                    self.plan.push(commit(0, 0));
                }
                let key = self.with_state(&file, nfs4_client::operations::close)?;
                self.plan.closed.push(*number);
                // An atomic compound gives nothing up that cannot be taken back.
                if let Some(id) = file.open.read_delegation().filter(|_| !self.plan.atomic) {
                    self.context.promises.closing(&file.open);
                    let back = NfsArgOp::DelegReturn(DelegReturnArgs { state_id: id.newest() });
                    unless = Some(self.plan.push(back));
                    self.plan.states.extend(unless.map(|back| (back, file.open.clone())));
                }
                key
            }
            Step::Commit(number) => {
                let file = self.put_file(*number)?;
                writes = file.writes() + self.plan.writes_to(&file.open);
                self.plan.push(commit(0, 0))
            }
            Step::Read(_) if let Some(kept) = &work.kept => {
                stamp = self.context.promises.stamp(&kept.handle);
                let key = self.prove(work, kept, next)?;
                unless = next.is_empty().then(|| self.plan.operations.iter().rposition(is_nverify)).flatten();
                key
            }
            Step::Read(it) => {
                stamp = self.stamp(&work.step);
                let count = u32::try_from(it.length).map_err(|_| too_long(&it.target))?;
                self.data(work, next, None, false, |state_id| vec![read(state_id, it.offset, count)])?
            }
            Step::Write(it) => {
                let stable = it.stable || it.target.descriptor().is_none();
                let how = if stable { StableHow::FileSync } else { StableHow::Unstable };
                let offset = work.size.unwrap_or(it.offset);
                let one = |state_id, start: usize| {
                    let data = it.data.slice(start..it.data.len().min(start + self.context.transfer));
                    let offset = if offset == APPEND { APPEND } else { further(offset, start) };
                    write(state_id, offset, how, data)
                };
                // Nothing is written to what an OPEN says enough of; whether a descriptor may be written, only WRITE says.
                let least = usize::from(it.target.descriptor().is_some());
                let starts = || (0..it.data.len().max(least)).step_by(self.context.transfer);
                let writes = |state_id| starts().map(|start| one(state_id, start)).collect();
                self.data(work, next, it.create, it.truncate, writes)?
            }
            Step::GetAttributes { target, wanted, follow } => {
                stamp = self.stamp(&work.step);
                self.walk(target, next)?;
                let mut request = attributes::request(*wanted);
                if *follow {
                    request.insert(Attribute::Type);
                }
                let changes = |work: &Work| !only_asks(&work.step);
                if *follow && (self.plan.atomic || next.iter().take(STEPS).any(changes)) {
                    // Afterwards it would be too late to follow it.
                    self.unless_link();
                }
                self.plan.push(get_attributes(request))
            }
            Step::SetAttributes { target, attributes: new, follow } => {
                self.walk(target, next)?;
                if *follow && target.descriptor().is_none() {
                    self.unless_link();
                }
                let set = |state_id| set_attributes(state_id, &attributes::to_set(new));
                match target.descriptor() {
                    Some(number) if new.size.is_some() => {
                        let file = self.file(number)?;
                        self.with_state(&file, set)?
                    }
                    _ => self.plan.push(set(StateId::ANONYMOUS)),
                }
            }
            Step::Copy(it) => {
                self.walk(&it.source, &[])?;
                let key = self.plan.push(get_attributes(Attribute::set(&[Attribute::Size])));
                if it.source.descriptor().is_none() {
                    // Before the destination is touched.
                    self.unless_other_than_file();
                }
                self.plan.push(NfsArgOp::SaveFh);
                self.plan.position.saved_other();
                let destination = match it.destination.descriptor() {
                    Some(number) => {
                        let file = self.put_file(number)?;
                        if it.truncate {
                            self.with_state(&file, |state_id| set_attributes(state_id, &size_of(0)))?;
                        }
                        Some(file)
                    }
                    None => {
                        let owner = self.context.owner.clone();
                        self.open(&it.destination, share_access::WRITE, it.create, it.truncate, owner, &[])?;
                        None
                    }
                };
                let source = it.source.descriptor().map(|number| self.file(number)).transpose()?;
                let state_id = |file: &Option<Arc<OpenFile>>, without| match file {
                    Some(file) => file.open.state_id(),
                    None => Ok(without),
                };
                // For COPY, no bytes are all of them (RFC 7862 §15.2.3).
                if it.length > 0 {
                    let copy = self.plan.push(NfsArgOp::Copy(CopyArgs {
                        source_state_id: state_id(&source, StateId::ANONYMOUS)?,
                        destination_state_id: state_id(&destination, StateId::CURRENT)?,
                        source_offset: it.source_offset,
                        destination_offset: it.destination_offset,
                        count: if it.length == TO_END { 0 } else { it.length },
                        consecutive: true,
                        synchronous: true,
                        source_servers: Vec::new(),
                    }));
                    let used = |file: &Arc<OpenFile>| (copy, file.open.clone());
                    self.plan.sources.extend(source.iter().map(used));
                    self.plan.states.extend(destination.iter().map(used));
                } else if let Some(file) = &destination {
                    // Whether it may be written, only WRITE says.
                    self.with_state(file, |state_id| write(state_id, 0, StableHow::Unstable, Bytes::new()))?;
                }
                if destination.is_none() {
                    self.plan.close_current();
                }
                self.plan.position.forget_paths();
                key
            }
            Step::MakeDirectory { target, mode } => {
                let (directory, name) = self.name_in(target, &[])?;
                let key = self.create(CreateType::Directory, &name, Some(*mode));
                self.plan.position.arrived(Some(directory.child(&name)));
                key
            }
            Step::MakeSymbolicLink { target, text } => {
                let (_, name) = self.name_in(target, next)?;
                let key = self.create(CreateType::SymbolicLink(LinkText(text.clone())), &name, None);
                self.plan.position.arrived(None);
                key
            }
            Step::ReadLink(target) => {
                self.walk(target, next)?;
                self.plan.push(NfsArgOp::ReadLink)
            }
            Step::HardLink { existing, new } => {
                self.walk(existing, &[])?;
                self.plan.push(NfsArgOp::SaveFh);
                self.plan.position.saved_other();
                let (_, name) = self.name_in(new, &[])?;
                self.plan.push(NfsArgOp::Link(LinkArgs { new_name: Component(name) }))
            }
            Step::Remove(target) => {
                let (directory, name) = self.name_in(target, &[])?;
                let key = self.plan.push(remove(Component(name.clone())));
                self.plan.position.forget(&directory.child(&name));
                key
            }
            Step::Rename { from, to } => self.rename(from, to)?,
        };
        let operations = first..self.plan.operations.len();
        Ok(Piece { operations, key, descriptor, unless, stamp, writes })
    }

    fn rename(&mut self, from: &Target, to: &Target) -> Result<usize, Error> {
        let (from, old_name) = self.split(from)?;
        let (to, new_name) = self.split(to)?;
        if !(self.plan.position.has_saved(&from) && self.plan.position.is_at(&to)) {
            self.go(&from, &[]);
            self.plan.push(NfsArgOp::SaveFh);
            self.plan.position.saved_current();
            self.go(&to, &[]);
        }
        let key = self.plan.push(rename(Component(old_name.clone()), Component(new_name.clone())));
        self.plan.position.forget(&from.child(&old_name));
        self.plan.position.forget(&to.child(&new_name));
        Ok(key)
    }

    /// READ or WRITE, of a descriptor, or between an OPEN and a CLOSE that may be shared with the steps around (V3). Without an
    /// operation, only opens and closes.
    fn data(
        &mut self,
        work: &Work,
        next: &[Work],
        create: Option<Creation>,
        truncate: bool,
        operations: impl Fn(StateId) -> Vec<NfsArgOp>,
    ) -> Result<usize, Error> {
        let target = work.step.target();
        let next = if work.alone { &[] } else { next };
        if let Some(number) = target.descriptor() {
            let file = self.put_file(number)?;
            if truncate {
                self.with_state(&file, |state_id| set_attributes(state_id, &size_of(0)))?;
            }
            self.verify_size(work);
            self.ask_for_label(work, next);
            for operation in operations(file.open.state_id()?) {
                let operation = self.plan.push(operation);
                self.plan.states.push((operation, file.open.clone()));
            }
            return Ok(self.plan.operations.len() - 1);
        }
        let continued = self.plan.open.as_ref() == Some(&target);
        let is_held = !continued && self.is_to_be_held(work, next);
        if !continued {
            let want = if is_held { share_access::WANT_READ_DELEG } else { 0 };
            let access = access_of_run(&work.step, next) | want;
            let followers: Vec<Work> =
                next.iter().skip_while(|work| continues(&target, work)).take(2).cloned().collect();
            let owner = self.context.owner.clone();
            self.open(&target, access, create, truncate, owner, &followers)?;
        }
        self.verify_size(work);
        if is_held {
            self.plan.wanted = self.plan.openings.last().map(|opening| (opening.open, target.detached()));
            self.plan.push(get_attributes(label()));
        } else {
            self.ask_for_label(work, next);
        }
        for operation in operations(StateId::CURRENT) {
            self.plan.push(operation);
        }
        let key = self.plan.operations.len() - 1;
        if next.first().is_some_and(|work| continues(&target, work)) {
            self.plan.open = Some(target);
        } else {
            self.plan.open = None;
            self.plan.close_current();
        }
        Ok(key)
    }

    /// Asks whether what is kept is still so. Alone, or at the end, with a READ if it is not: an NVERIFY that finds the same ends the
    /// compound before that. Among others the READ has to wait until all are answered.
    fn prove(&mut self, work: &Work, kept: &Kept, next: &[Work]) -> Result<usize, Error> {
        let target = work.step.target();
        self.walk(&target, next)?;
        let Step::Read(it) = &work.step else { return Ok(self.plan.push(get_attributes(proof()))) };
        if !next.is_empty() {
            return Ok(self.plan.push(get_attributes(proof())));
        }
        self.plan.push(NfsArgOp::Nverify(VerifyArgs { attributes: kept.claim().to_fattr() }));
        let count = it.length.min(self.context.transfer as u64) as u32;
        if let Some(number) = target.descriptor() {
            let file = self.file(number)?;
            self.plan.push(get_attributes(label()));
            return self.with_state(&file, |state_id| read(state_id, it.offset, count));
        }
        let file = self.place(&target)?;
        let open = self.plan.push(NfsArgOp::Open(OpenArgs {
            seqid: 0,
            share_access: share_access::READ | share_access::WANT_NO_DELEG,
            share_deny: nfs4::bits::share_deny::NONE,
            owner: self.context.owner.clone(),
            how: OpenHow::NoCreate,
            claim: OpenClaim::FileHandle,
        }));
        self.plan.openings.push(Opening { open, close: None, file });
        self.plan.push(get_attributes(label()));
        let key = self.plan.push(read(StateId::CURRENT, it.offset, count));
        self.plan.close_current();
        Ok(key)
    }

    /// Whether the delegation is wanted of a file that is read by its path: of one alone, as of many each would have to be given back. What is read of
    /// many is held when it is read [again](crate::nfs::held).
    fn is_to_be_held(&self, work: &Work, next: &[Work]) -> bool {
        let target = work.step.target();
        let only_reads = |work: &Work| matches!(&work.step, Step::Read(read) if read.target == target);
        self.context.holds
            && self.plan.pieces.is_empty()
            && !matches!(target.base, Base::Descriptor(_))
            && only_reads(work)
            && next.iter().all(only_reads)
    }

    /// Before the file is asked about.
    fn stamp(&self, step: &Step) -> Option<Stamp> {
        let file = self.context.files.get(step.target().descriptor()?).ok()?;
        self.context.promises.stamp(file.open.handle())
    }

    /// Before what is read, if it is to be kept: of many small files only as far as it makes no further compound of them.
    fn ask_for_label(&mut self, work: &Work, next: &[Work]) {
        let further = next.len().min(STEPS.saturating_sub(self.plan.pieces.len() + 1));
        let each = if work.step.target().descriptor().is_some() { EACH_OPEN } else { EACH };
        let room = self.plan.operations.len() + ONE + each * further;
        let keeps = self.context.keeps && room <= self.context.bounds.operations;
        if keeps && matches!(work.step, Step::Read(_)) {
            self.plan.push(get_attributes(label()));
        }
    }

    /// The next operation is not done if the current filehandle is a symbolic link: this one fails with
    /// `NFS4ERR_SAME` (RFC 8881 §18.15).
    fn unless_link(&mut self) {
        let attributes = is_symbolic_link().to_fattr();
        self.plan.push(NfsArgOp::Nverify(VerifyArgs { attributes }));
    }

    /// The next operations are not done if the current filehandle is anything but a regular file: this one fails with
    /// `NFS4ERR_NOT_SAME` (RFC 8881 §18.31).
    fn unless_other_than_file(&mut self) {
        let attributes = is_regular_file().to_fattr();
        self.plan.push(NfsArgOp::Verify(VerifyArgs { attributes }));
    }

    /// A file that is open, and will still be then.
    fn file(&self, number: Descriptor) -> Result<Arc<OpenFile>, Error> {
        if self.plan.closed.contains(&number) {
            return Err(Error::NotOpen(number));
        }
        self.context.files.get(number)
    }

    /// Makes an open file the current filehandle.
    fn put_file(&mut self, number: Descriptor) -> Result<Arc<OpenFile>, Error> {
        let file = self.file(number)?;
        self.put(Start::Handle(file.open.handle().clone()));
        Ok(file)
    }

    /// An operation under the state id of an open file.
    fn with_state(
        &mut self,
        file: &OpenFile,
        operation: impl FnOnce(StateId) -> NfsArgOp,
    ) -> Result<usize, Error> {
        let operation = self.plan.push(operation(file.open.state_id()?));
        self.plan.states.push((operation, file.open.clone()));
        Ok(operation)
    }

    /// What is to be appended goes to the end only if that is where it was (V5).
    fn verify_size(&mut self, work: &Work) {
        if let Some(size) = work.size {
            let attributes = size_of(size).to_fattr();
            self.plan.push(NfsArgOp::Verify(VerifyArgs { attributes }));
        }
    }

    fn open(
        &mut self,
        target: &Target,
        access: u32,
        create: Option<Creation>,
        truncate: bool,
        owner: StateOwner,
        next: &[Work],
    ) -> Result<(), Error> {
        let place = self.place(target)?;
        let (claim, create) = match place.split() {
            Some((directory, name)) => {
                let next = self.directories(next);
                self.go(&directory, &next);
                (OpenClaim::Null(Component(name)), create)
            }
            None => {
                self.put(place.start.clone());
                self.down(&place);
                (OpenClaim::FileHandle, None)
            }
        };
        let how = match create {
            None => OpenHow::NoCreate,
            Some(Creation { mode, exclusive }) => {
                let size = (truncate && !exclusive).then_some(0);
                let attributes =
                    AttributeValues { mode: Some(mode), size, ..AttributeValues::default() }.to_fattr();
                OpenHow::Create(if exclusive {
                    CreateHow::Guarded(attributes)
                } else {
                    CreateHow::Unchecked(attributes)
                })
            }
        };
        let share_access = match access & share_access::WANT_DELEG_MASK {
            0 => access | share_access::WANT_NO_DELEG,
            _ => access,
        };
        let arguments =
            OpenArgs { seqid: 0, share_access, share_deny: nfs4::bits::share_deny::NONE, owner, how, claim };
        let open = self.plan.push(NfsArgOp::Open(arguments));
        self.plan.openings.push(Opening { open, close: None, file: place });
        self.plan.position.arrived(None);
        if truncate && create.is_none() {
            self.plan.push(set_attributes(StateId::CURRENT, &size_of(0)));
        }
        Ok(())
    }

    fn create(&mut self, object_type: CreateType, name: &Bytes, mode: Option<u32>) -> usize {
        let attributes = AttributeValues { mode, ..AttributeValues::default() }.to_fattr();
        self.plan.push(NfsArgOp::Create(CreateArgs {
            object_type,
            name: Component(name.clone()),
            attributes,
        }))
    }

    /// Makes the directory of a target the current filehandle, and returns it with the name in it.
    fn name_in(&mut self, target: &Target, next: &[Work]) -> Result<(Place, Bytes), Error> {
        let (directory, name) = self.split(target)?;
        let next = self.directories(next);
        self.go(&directory, &next);
        Ok((directory, name))
    }

    fn split(&self, target: &Target) -> Result<(Place, Bytes), Error> {
        self.place(target)?.split().ok_or_else(|| Error::Invalid {
            target: target.clone(),
            what: "a path that ends in a name is needed here",
        })
    }

    /// Makes a target itself the current filehandle.
    fn walk(&mut self, target: &Target, next: &[Work]) -> Result<(), Error> {
        let place = self.place(target)?;
        match place.split() {
            Some((directory, name)) if !self.plan.position.is_at(&place) => {
                let next = self.directories(next);
                self.go(&directory, &next);
                self.plan.push(lookup(Component(name)));
                self.plan.position.arrived(None);
            }
            Some(_) => {}
            None => {
                self.put(place.start.clone());
                self.down(&place);
            }
        }
        Ok(())
    }

    /// Follows all parts from the start, which is the current filehandle.
    fn down(&mut self, place: &Place) {
        for part in &place.parts {
            self.plan.push(down(part));
        }
    }

    fn put(&mut self, start: Start) {
        self.plan.push(start.operation());
        self.plan.position.arrived(None);
    }

    fn go(&mut self, to: &Place, next: &[Place]) {
        for operation in self.plan.position.go(to, next) {
            self.plan.push(operation);
        }
    }

    fn place(&self, target: &Target) -> Result<Place, Error> {
        if let Base::Descriptor(number) = target.base {
            self.file(number)?;
        }
        place(target, self.context.root, self.context.files)
    }

    /// The directories that the next steps begin in.
    fn directories(&self, next: &[Work]) -> Vec<Place> {
        let directory = |work: &Work| match &work.step {
            Step::Close(_) | Step::Commit(_) => None,
            Step::HardLink { existing, .. } => self.place(existing).ok()?.split(),
            Step::Copy(copy) => self.place(&copy.source).ok()?.split(),
            step => self.place(&step.target()).ok()?.split(),
        };
        next.iter().take(2).map_while(directory).map(|(directory, _)| directory).collect()
    }
}

/// Where a target is, for the server.
pub(in crate::nfs) fn place(target: &Target, root: &Start, files: &OpenFiles) -> Result<Place, Error> {
    let start = match &target.base {
        Base::Root => root.clone(),
        Base::RootWithoutLinks(_) => return Err(Error::Unsupported("a path without symbolic links")),
        Base::Descriptor(descriptor) => Start::Handle(files.get(*descriptor)?.open.handle().clone()),
        Base::Handle(handle) => Start::Handle(handle.clone()),
    };
    let from_root = target.base == Base::Root;
    Ok(Place { start, parts: parts(&target.path, from_root) })
}

/// Whether the step goes on with this file, so that it need not be closed and opened again between.
fn continues(target: &Target, work: &Work) -> bool {
    match &work.step {
        _ if work.kept.is_some() => false,
        Step::Read(read) => read.target == *target,
        Step::Write(write) => {
            let exclusive = write.create.is_some_and(|create| create.exclusive);
            write.target == *target && !exclusive && !write.truncate
        }
        _ => false,
    }
}

/// Whether the open of a step may be one for more than it needs itself, because of the next.
pub(in crate::nfs) fn asks_for_more(step: &Step, next: &Work) -> bool {
    matches!(step, Step::Read(_) | Step::Write(_)) && continues(&step.target(), next)
}

/// The access that this step and those that go on with its file need.
fn access_of_run(step: &Step, next: &[Work]) -> u32 {
    let target = step.target();
    let of = |step: &Step| access_bits(matches!(step, Step::Read(_)), matches!(step, Step::Write(_)));
    let run = next.iter().take(STEPS).take_while(|work| continues(&target, work));
    run.fold(of(step), |access, work| access | of(&work.step))
}

fn is_nverify(operation: &NfsArgOp) -> bool {
    matches!(operation, NfsArgOp::Nverify(_))
}

/// Who has a file open that stays open.
pub(in crate::nfs) fn open_owner(number: Descriptor) -> StateOwner {
    owner(format!("d{}", number.number()))
}

/// Bits of [`share_access`].
pub(in crate::nfs) fn access_bits(read: bool, write: bool) -> u32 {
    (if read { share_access::READ } else { 0 }) | (if write { share_access::WRITE } else { 0 })
}

fn size_of(size: u64) -> AttributeValues {
    AttributeValues { size: Some(size), ..AttributeValues::default() }
}

fn too_long(target: &Target) -> Error {
    Error::Invalid { target: target.clone(), what: "more bytes than one operation can carry" }
}
