//! NFSv3 (RFC 1813) for servers that speak nothing newer. What the loads ask for in compounds goes to them as calls.
//!
//! OPEN is LOOKUP or CREATE and CLOSE is nothing; attributes and handles that a call brings along are not asked for again. That
//! is no more than the Linux client sends, which also asks ACCESS, and GETATTR before it opens what it knows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use nfs4::{
    AttributeValues, Bitmap, ChangeInfo, CommitArgs, Component, CreateArgs, CreateHow, CreateOk, CreateType,
    DirEntry, Fattr, FileHandle, FileType, NfsArgOp, NfsResOp, NfsStatus, NfsTime, OpenArgs, OpenClaim,
    OpenDelegation, OpenHow, OpenOk, Outcome, ReadArgs, ReadDirArgs, ReadDirOk, ReadOk, RenameArgs, RenameOk,
    StateId, Verifier, WriteArgs, WriteOk,
};
use onc_rpc::{AuthSys, Credential, Limits, NoService, Peer, Procedure};
use xdr::{Decode, Decoder, Encode, Encoder};

const TIMEOUT: Duration = Duration::from_secs(120);

/// Procedures of program 100003, by their numbers.
#[derive(Clone, Copy)]
enum Call {
    GetAttr = 1,
    Lookup = 3,
    Read = 6,
    Write = 7,
    Create = 8,
    MkDir = 9,
    Remove = 12,
    RmDir = 13,
    Rename = 14,
    ReadDirPlus = 17,
    Commit = 21,
}

/// `fattr3`.
#[derive(Clone, Decode)]
struct Attributes {
    kind: FileType,
    mode: u32,
    links: u32,
    _owner: u32,
    _group: u32,
    size: u64,
    used: u64,
    _device: [u8; 8],
    _file_system: u64,
    file: u64,
    _accessed: Time,
    modified: Time,
    changed: Time,
}

/// `nfstime3`.
#[derive(Clone, Copy, Decode)]
struct Time {
    seconds: u32,
    nanoseconds: u32,
}

/// `sattr3` with nothing but a mode and a size.
#[derive(Encode)]
struct NewAttributes {
    mode: Option<u32>,
    owner: Option<u32>,
    group: Option<u32>,
    size: Option<u64>,
    /// `DONT_CHANGE`, as the next.
    accessed: u32,
    modified: u32,
}

/// `wcc_data`: what was before a change, and what is now.
#[derive(Decode)]
struct Changes {
    _before: Option<[u8; 24]>,
    _after: Option<Attributes>,
}

/// What LOOKUP, CREATE and MKDIR say of an object.
struct Found {
    handle: FileHandle,
    attributes: Option<Attributes>,
}

/// `entryplus3`.
#[derive(Decode)]
struct Entry {
    _file: u64,
    name: Component,
    cookie: u64,
    attributes: Option<Attributes>,
    handle: Option<FileHandle>,
}

/// Where a compound stands.
struct Stand {
    handle: FileHandle,
    saved: Option<FileHandle>,
    /// Of the object with that handle, if the last call has brought them.
    attributes: Option<Attributes>,
}

/// A connection to an export.
pub struct Version3 {
    peer: Peer,
    credential: Credential,
    /// The root of the export.
    pub root: FileHandle,
}

/// How a call has failed: the server has refused it, or there is no answer.
pub enum Failure {
    Refused(NfsStatus),
    Broken(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Broken(error.into())
    }
}

impl Version3 {
    /// Mounts the root of the server, which answers MOUNT at the same port.
    pub async fn connect(address: SocketAddr) -> Result<Version3> {
        let peer =
            Peer::connect(address, Arc::new(NoService), Limits::default()).await.context("connecting")?;
        let credential = Credential::Sys(AuthSys::new(0, 0));
        let mount = Procedure { program: 100_005, version: 3, number: 1 };
        let path = xdr::to_bytes(&Bytes::from_static(b"/"));
        let answer = peer.call(mount, &credential, vec![path], TIMEOUT).await.context("mounting")?;
        let mut answer = Decoder::new(answer);
        let status = answer.u32()?;
        ensure!(status == 0, "MOUNT of / ends with {status}");
        let root = FileHandle::decode(&mut answer)?;
        Ok(Version3 { peer, credential, root })
    }

    /// The results of all operations, or how the first one that has failed did. Every call that is sent is `told`.
    pub async fn compound(
        &self,
        operations: &[NfsArgOp],
        told: &(dyn Fn(Duration) + Sync),
    ) -> Result<Vec<NfsResOp>, Failure> {
        let mut stand = Stand { handle: self.root.clone(), saved: None, attributes: None };
        let mut results = Vec::with_capacity(operations.len());
        for operation in operations {
            results.push(self.operation(operation, &mut stand, told).await?);
        }
        Ok(results)
    }

    async fn operation(
        &self,
        operation: &NfsArgOp,
        stand: &mut Stand,
        told: &(dyn Fn(Duration) + Sync),
    ) -> Result<NfsResOp, Failure> {
        let calls = Calls { line: self, told };
        Ok(match operation {
            NfsArgOp::PutFh(put) => {
                *stand =
                    Stand { handle: put.file_handle.clone(), attributes: None, saved: stand.saved.take() };
                NfsResOp::PutFh(NfsStatus::Ok)
            }
            NfsArgOp::SaveFh => {
                stand.saved = Some(stand.handle.clone());
                NfsResOp::SaveFh(NfsStatus::Ok)
            }
            NfsArgOp::GetFh => NfsResOp::GetFh(Outcome::Ok(stand.handle.clone())),
            NfsArgOp::Lookup(lookup) => {
                stand.go_to(calls.lookup(&stand.handle, &lookup.name).await?);
                NfsResOp::Lookup(NfsStatus::Ok)
            }
            NfsArgOp::GetAttr(wanted) => {
                let known = match stand.attributes.take() {
                    Some(known) => known,
                    None => calls.attributes(&stand.handle).await?,
                };
                NfsResOp::GetAttr(Outcome::Ok(known.values().select(wanted.request)))
            }
            NfsArgOp::Open(open) => {
                stand.go_to(calls.open(&stand.handle, open).await?);
                NfsResOp::Open(Outcome::Ok(opened()))
            }
            NfsArgOp::Close(_) => NfsResOp::Close(Outcome::Ok(StateId::ANONYMOUS)),
            NfsArgOp::Read(read) => NfsResOp::Read(Outcome::Ok(calls.read(&stand.handle, read).await?)),
            NfsArgOp::Write(write) => NfsResOp::Write(Outcome::Ok(calls.write(&stand.handle, write).await?)),
            NfsArgOp::Commit(commit) => {
                NfsResOp::Commit(Outcome::Ok(calls.commit(&stand.handle, commit).await?))
            }
            NfsArgOp::Create(create) => {
                stand.go_to(calls.make_directory(&stand.handle, create).await?);
                let created = CreateOk { change_info: UNKNOWN, attributes_set: Bitmap::EMPTY };
                NfsResOp::Create(Outcome::Ok(created))
            }
            NfsArgOp::Remove(remove) => {
                calls.remove(&stand.handle, &remove.target).await?;
                NfsResOp::Remove(Outcome::Ok(UNKNOWN))
            }
            NfsArgOp::Rename(rename) => {
                let from = stand.saved.as_ref().context("RENAME without SAVEFH")?;
                calls.rename(from, &stand.handle, rename).await?;
                NfsResOp::Rename(Outcome::Ok(RenameOk { source: UNKNOWN, target: UNKNOWN }))
            }
            NfsArgOp::ReadDir(read) => {
                NfsResOp::ReadDir(Outcome::Ok(calls.read_directory(&stand.handle, read).await?))
            }
            other => return Err(anyhow!("{:?} is nothing that NFSv3 has", other.op_code()).into()),
        })
    }
}

/// Directories have no change attribute here.
const UNKNOWN: ChangeInfo = ChangeInfo { atomic: false, before: 0, after: 0 };

/// What stands for an open.
fn opened() -> OpenOk {
    OpenOk {
        state_id: StateId::ANONYMOUS,
        change_info: UNKNOWN,
        flags: 0,
        attributes_set: Bitmap::EMPTY,
        delegation: OpenDelegation::None,
    }
}

impl Stand {
    fn go_to(&mut self, found: Found) {
        (self.handle, self.attributes) = (found.handle, found.attributes);
    }
}

impl Attributes {
    fn values(&self) -> AttributeValues {
        AttributeValues {
            r#type: Some(self.kind),
            change: Some(self.changed.number()),
            size: Some(self.size),
            fileid: Some(self.file),
            mode: Some(self.mode & 0o7777),
            numlinks: Some(self.links),
            space_used: Some(self.used),
            time_metadata: Some(self.changed.into()),
            time_modify: Some(self.modified.into()),
            ..AttributeValues::default()
        }
    }
}

impl Time {
    fn number(self) -> u64 {
        u64::from(self.seconds) << 32 | u64::from(self.nanoseconds)
    }
}

impl From<Time> for NfsTime {
    fn from(time: Time) -> NfsTime {
        NfsTime { seconds: time.seconds.into(), nanoseconds: time.nanoseconds }
    }
}

impl NewAttributes {
    /// The mode and the size among `attributes`.
    fn of(attributes: &Fattr) -> Result<NewAttributes> {
        let values = attributes.values()?;
        Ok(NewAttributes {
            mode: values.mode,
            owner: None,
            group: None,
            size: values.size,
            accessed: 0,
            modified: 0,
        })
    }
}

/// The calls, each of which is told.
struct Calls<'a> {
    line: &'a Version3,
    told: &'a (dyn Fn(Duration) + Sync),
}

impl Calls<'_> {
    /// One call, whose results are all that comes after a status of success.
    async fn call(&self, call: Call, arguments: Encoder) -> Result<Decoder, Failure> {
        let procedure = Procedure { program: 100_003, version: 3, number: call as u32 };
        let (line, sent) = (self.line, std::time::Instant::now());
        let answer = line.peer.call(procedure, &line.credential, arguments.into_segments(), TIMEOUT).await;
        (self.told)(sent.elapsed());
        let mut answer = Decoder::new(answer?);
        // The numbers are those of NFSv4; JUKEBOX is DELAY there.
        match NfsStatus::decode(&mut answer)? {
            NfsStatus::Ok => Ok(answer),
            refused => Err(Failure::Refused(refused)),
        }
    }

    async fn attributes(&self, handle: &FileHandle) -> Result<Attributes, Failure> {
        Ok(Attributes::decode(&mut self.call(Call::GetAttr, encoded(&[handle])).await?)?)
    }

    async fn lookup(&self, folder: &FileHandle, name: &Component) -> Result<Found, Failure> {
        let mut answer = self.call(Call::Lookup, encoded(&[folder, name])).await?;
        Ok(Found { handle: Decode::decode(&mut answer)?, attributes: Decode::decode(&mut answer)? })
    }

    async fn open(&self, folder: &FileHandle, open: &OpenArgs) -> Result<Found, Failure> {
        let OpenClaim::Null(name) = &open.claim else {
            return Err(anyhow!("OPEN of {:?}", open.claim).into());
        };
        let attributes = match &open.how {
            OpenHow::NoCreate => return self.lookup(folder, name).await,
            OpenHow::Create(CreateHow::Unchecked(attributes)) => NewAttributes::of(attributes)?,
            OpenHow::Create(other) => return Err(anyhow!("OPEN that creates by {other:?}").into()),
        };
        // UNCHECKED.
        let arguments = encoded(&[folder, name, &0u32, &attributes]);
        match self.call(Call::Create, arguments).await {
            // Of ZeroFS, though RFC 1813 §3.3.8 has it succeed. The Linux client looks before, which would be one more for each new file.
            Err(Failure::Refused(NfsStatus::Exist)) => self.lookup(folder, name).await,
            answer => self.made(answer?, folder, name).await,
        }
    }

    async fn make_directory(&self, folder: &FileHandle, create: &CreateArgs) -> Result<Found, Failure> {
        if create.object_type != CreateType::Directory {
            return Err(anyhow!("CREATE of {:?}", create.object_type).into());
        }
        let (name, attributes) = (&create.name, NewAttributes::of(&create.attributes)?);
        let answer = self.call(Call::MkDir, encoded(&[folder, name, &attributes])).await?;
        self.made(answer, folder, name).await
    }

    /// A new object, whose handle the server may keep to itself.
    async fn made(
        &self,
        mut answer: Decoder,
        folder: &FileHandle,
        name: &Component,
    ) -> Result<Found, Failure> {
        match Option::<FileHandle>::decode(&mut answer)? {
            Some(handle) => Ok(Found { handle, attributes: Decode::decode(&mut answer)? }),
            None => self.lookup(folder, name).await,
        }
    }

    async fn read(&self, file: &FileHandle, read: &ReadArgs) -> Result<ReadOk, Failure> {
        let mut answer = self.call(Call::Read, encoded(&[file, &read.offset, &read.count])).await?;
        Option::<Attributes>::decode(&mut answer)?;
        let _count = answer.u32()?;
        Ok(ReadOk { eof: answer.bool()?, data: Decode::decode(&mut answer)? })
    }

    async fn write(&self, file: &FileHandle, write: &WriteArgs) -> Result<WriteOk, Failure> {
        let (count, stable) = (write.data.len() as u32, write.stable);
        let arguments = encoded(&[file, &write.offset, &count, &stable, &write.data]);
        let mut answer = self.call(Call::Write, arguments).await?;
        Changes::decode(&mut answer)?;
        Ok(WriteOk {
            count: answer.u32()?,
            committed: Decode::decode(&mut answer)?,
            verifier: Decode::decode(&mut answer)?,
        })
    }

    async fn commit(&self, file: &FileHandle, commit: &CommitArgs) -> Result<Verifier, Failure> {
        let mut answer = self.call(Call::Commit, encoded(&[file, &commit.offset, &commit.count])).await?;
        Changes::decode(&mut answer)?;
        Ok(Verifier::decode(&mut answer)?)
    }

    /// A file; if the server says that it is none, a directory.
    async fn remove(&self, folder: &FileHandle, name: &Component) -> Result<(), Failure> {
        match self.call(Call::Remove, encoded(&[folder, name])).await {
            Err(Failure::Refused(NfsStatus::IsDir)) => {
                self.call(Call::RmDir, encoded(&[folder, name])).await.map(drop)
            }
            removed => removed.map(drop),
        }
    }

    async fn rename(&self, from: &FileHandle, to: &FileHandle, rename: &RenameArgs) -> Result<(), Failure> {
        let (old, new) = (&rename.old_name, &rename.new_name);
        let arguments = encoded(&[from, old, to, new]);
        self.call(Call::Rename, arguments).await.map(drop)
    }

    async fn read_directory(&self, folder: &FileHandle, read: &ReadDirArgs) -> Result<ReadDirOk, Failure> {
        let (bytes, verifier) = (read.max_count, read.cookie_verifier);
        let arguments = encoded(&[folder, &read.cookie, &verifier, &bytes, &bytes]);
        let mut answer = self.call(Call::ReadDirPlus, arguments).await?;
        Option::<Attributes>::decode(&mut answer)?;
        let cookie_verifier = Verifier::decode(&mut answer)?;
        let mut entries = Vec::new();
        for entry in xdr::list::decode::<Entry>(&mut answer)? {
            if matches!(entry.name.as_bytes(), b"." | b"..") {
                continue;
            }
            let values = entry.attributes.map(|found| found.values()).unwrap_or_default();
            let values = AttributeValues { filehandle: entry.handle, ..values };
            let attributes = values.select(read.request);
            entries.push(DirEntry { cookie: entry.cookie, name: entry.name, attributes });
        }
        Ok(ReadDirOk { cookie_verifier, entries, eof: answer.bool()? })
    }
}

fn encoded(arguments: &[&(dyn Encode + Sync)]) -> Encoder {
    let mut out = Encoder::new();
    arguments.iter().for_each(|argument| argument.encode(&mut out));
    out
}
