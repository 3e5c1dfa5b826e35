//! Operations out of the tape: handles and state ids that the server gave, names that exist, numbers at the edges.

use bytes::Bytes;
use nfs4::*;
use xdr::{Encode, Encoder};

use super::world::World;
use crate::tape::Tape;

/// How many kinds of operations there are; the byte of a kind is taken modulo this.
pub(super) const KINDS: u8 = 51;

const NAMES: [&str; 12] = ["f", "g", "d", "l", "x", "home", "other", "", ".", "..", "a/b", "nul\0"];

/// Appends what every compound begins with: a saved and a current filehandle.
pub(super) fn places(world: &World, client: usize, tape: &mut Tape<'_>, out: &mut Encoder) {
    let mut choose = Choose { world, client, tape };
    NfsArgOp::PutFh(PutFhArgs { file_handle: choose.handle() }).encode(out);
    NfsArgOp::SaveFh.encode(out);
    NfsArgOp::PutFh(PutFhArgs { file_handle: choose.handle() }).encode(out);
}

/// How many operations [`places`] appends.
pub(super) const PLACES: u32 = 3;

/// Appends the next operation of the tape.
pub(super) fn operation(world: &World, client: usize, tape: &mut Tape<'_>, out: &mut Encoder) {
    let kind = tape.byte() % KINDS;
    // Any bytes at all: they need not even be an operation.
    if kind == 49 {
        return out.put_raw(Bytes::copy_from_slice(tape.bytes()));
    }
    let mut choose = Choose { world, client, tape };
    let c = &mut choose;
    let operation = match kind {
        0 => NfsArgOp::PutRootFh,
        1 => NfsArgOp::PutFh(PutFhArgs { file_handle: c.handle() }),
        2 => NfsArgOp::Lookup(LookupArgs { name: c.name() }),
        3 => NfsArgOp::LookupParent,
        4 => NfsArgOp::GetFh,
        5 => NfsArgOp::SaveFh,
        6 => NfsArgOp::RestoreFh,
        7 => NfsArgOp::GetAttr(GetAttrArgs { request: c.bitmap() }),
        8 => NfsArgOp::SetAttr(SetAttrArgs { state_id: c.state_id(), attributes: c.attributes() }),
        9..=11 => c.open(),
        12 => c.lock(),
        13 => {
            let (offset, length) = c.range();
            NfsArgOp::LockTest(LockTestArgs { lock_type: c.lock_type(), offset, length, owner: c.owner() })
        }
        14 => {
            let (offset, length) = c.range();
            let (lock_type, lock_state_id) = (c.lock_type(), c.state_id());
            NfsArgOp::Unlock(UnlockArgs { lock_type, seqid: 0, lock_state_id, offset, length })
        }
        15 => NfsArgOp::Close(CloseArgs { seqid: 0, state_id: c.state_id() }),
        16 => NfsArgOp::Read(ReadArgs {
            state_id: c.state_id(),
            offset: c.tape.number(),
            count: c.tape.number32(),
        }),
        17 => NfsArgOp::Write(WriteArgs {
            state_id: c.state_id(),
            offset: c.tape.number(),
            stable: [StableHow::Unstable, StableHow::DataSync, StableHow::FileSync]
                [usize::from(c.tape.byte() % 3)],
            data: vec![7; usize::from(c.tape.byte()) * 8].into(),
        }),
        18 => NfsArgOp::Commit(CommitArgs { offset: c.tape.number(), count: c.tape.number32() }),
        19 => c.create(),
        20 => NfsArgOp::Remove(RemoveArgs { target: c.name() }),
        21 => NfsArgOp::Rename(RenameArgs { old_name: c.name(), new_name: c.name() }),
        22 => NfsArgOp::Link(LinkArgs { new_name: c.name() }),
        23 => NfsArgOp::ReadDir(ReadDirArgs {
            cookie: c.tape.number(),
            cookie_verifier: Verifier([c.tape.byte(); 8]),
            dir_count: c.tape.number32(),
            max_count: c.tape.number32().wrapping_add(1).wrapping_mul(64),
            request: c.bitmap(),
        }),
        24 => NfsArgOp::ReadLink,
        25 => NfsArgOp::Access(AccessArgs { access: c.tape.number32() }),
        26 => NfsArgOp::FreeStateId(FreeStateIdArgs { state_id: c.state_id() }),
        27 => NfsArgOp::TestStateId(TestStateIdArgs { state_ids: vec![c.state_id(), c.state_id()] }),
        28 => NfsArgOp::SecInfo(SecInfoArgs { name: c.name() }),
        29 => NfsArgOp::SecInfoNoName(if c.tape.byte() & 1 == 0 {
            SecInfoStyle::CurrentFileHandle
        } else {
            SecInfoStyle::Parent
        }),
        30 => NfsArgOp::Verify(VerifyArgs { attributes: c.attributes() }),
        31 => NfsArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: c.tape.byte() & 1 == 1 }),
        32 => c.exchange_id(),
        33 => NfsArgOp::CreateSession(CreateSessionArgs {
            client: c.client_id(),
            sequence_id: c.tape.number32(),
            flags: c.tape.byte().into(),
            ..world.session_arguments(ClientId(0), 0)
        }),
        34 => NfsArgOp::DestroySession(DestroySessionArgs { session: c.session() }),
        35 => NfsArgOp::DestroyClientId(DestroyClientIdArgs { client: c.client_id() }),
        36 => NfsArgOp::BindConnToSession(BindConnToSessionArgs {
            session: c.session(),
            direction: ChannelDirFromClient::ForeOrBoth,
            use_rdma: c.tape.byte() & 1 == 1,
        }),
        37 => NfsArgOp::OpenDowngrade(OpenDowngradeArgs {
            state_id: c.state_id(),
            seqid: 0,
            share_access: c.tape.number32(),
            share_deny: c.tape.number32(),
        }),
        38 => NfsArgOp::GetXattr(GetXattrArgs { name: c.name() }),
        39 => NfsArgOp::SetXattr(SetXattrArgs {
            option: [SetXattrOption::Either, SetXattrOption::Create, SetXattrOption::Replace]
                [usize::from(c.tape.byte() % 3)],
            name: c.name(),
            value: Bytes::copy_from_slice(c.tape.bytes()),
        }),
        40 => NfsArgOp::ListXattrs(ListXattrsArgs { cookie: c.tape.number(), max_count: c.tape.number32() }),
        41 => NfsArgOp::RemoveXattr(RemoveXattrArgs { name: c.name() }),
        42 => NfsArgOp::Allocate(c.space()),
        43 => NfsArgOp::Deallocate(c.space()),
        44 => NfsArgOp::Seek(SeekArgs {
            state_id: c.state_id(),
            offset: c.tape.number(),
            what: if c.tape.byte() & 1 == 0 { DataContent::Data } else { DataContent::Hole },
        }),
        45 => NfsArgOp::ReadPlus(ReadArgs {
            state_id: c.state_id(),
            offset: c.tape.number(),
            count: c.tape.number32(),
        }),
        46 => NfsArgOp::Clone(CloneArgs {
            source_state_id: c.state_id(),
            destination_state_id: c.state_id(),
            source_offset: c.tape.number(),
            destination_offset: c.tape.number(),
            count: c.tape.number(),
        }),
        47 => NfsArgOp::Copy(CopyArgs {
            source_state_id: c.state_id(),
            destination_state_id: c.state_id(),
            source_offset: c.tape.number(),
            destination_offset: c.tape.number(),
            count: c.tape.number(),
            consecutive: true,
            synchronous: true,
            source_servers: Vec::new(),
        }),
        50 => NfsArgOp::DelegReturn(DelegReturnArgs { state_id: c.state_id() }),
        _ => NfsArgOp::Nverify(VerifyArgs { attributes: c.attributes() }),
    };
    operation.encode(out);
}

struct Choose<'a, 'b> {
    world: &'a World,
    client: usize,
    tape: &'a mut Tape<'b>,
}

impl Choose<'_, '_> {
    fn name(&mut self) -> Component {
        match self.tape.byte() {
            0xff => Component(Bytes::copy_from_slice(self.tape.bytes())),
            0xfe => "n".repeat(256).into(),
            at => NAMES[usize::from(at) % NAMES.len()].into(),
        }
    }

    /// One that the server gave; sometimes a changed one.
    fn handle(&mut self) -> FileHandle {
        let at = self.tape.byte();
        let known = &self.world.handles;
        match known.get(usize::from(at) % (known.len() + 1)) {
            Some(handle) => handle.clone(),
            None => {
                let mut bytes = known[0].as_bytes().to_vec();
                let changed = usize::from(self.tape.byte()) % bytes.len();
                bytes[changed] ^= 1;
                FileHandle::new(bytes).unwrap()
            }
        }
    }

    fn state_id(&mut self) -> StateId {
        match self.tape.byte() {
            0x80 => StateId::ANONYMOUS,
            0x81 => StateId::READ_BYPASS,
            0x82 => StateId::CURRENT,
            0x83 => StateId::INVALID,
            0x84 => StateId { seqid: self.tape.number32(), other: [self.tape.byte(); 12] },
            how => {
                let Some(id) = self.tape.pick(&self.world.state_ids) else { return StateId::CURRENT };
                match how {
                    0x85..=0x88 => {
                        StateId { seqid: id.seqid.wrapping_add(u32::from(how)).wrapping_sub(0x86), ..id }
                    }
                    _ => id.newest(),
                }
            }
        }
    }

    /// Offset and length, which is seldom zero.
    fn range(&mut self) -> (u64, u64) {
        (self.tape.number(), self.tape.number().wrapping_add(1))
    }

    fn owner(&mut self) -> StateOwner {
        let name = vec![b'o'; usize::from(self.tape.byte() % 4)];
        StateOwner { client: ClientId(0), owner: OwnerName::new(name).unwrap() }
    }

    fn bitmap(&mut self) -> Bitmap {
        let start = u32::from(self.tape.byte());
        match start {
            // All that are known, also those that can only be set.
            0xff => (0_u32..127).collect(),
            _ => (start..start + u32::from(self.tape.byte() % 32)).filter(|number| *number < 127).collect(),
        }
    }

    fn attributes(&mut self) -> Fattr {
        let mut values = AttributeValues::default();
        let which = self.tape.byte();
        if which & 1 != 0 {
            values.size = Some(self.tape.number());
        }
        if which & 2 != 0 {
            values.mode = Some(self.tape.number32());
        }
        if which & 4 != 0 {
            values.owner =
                Some(if self.tape.byte() & 1 == 0 { "1000".into() } else { "nobody@nowhere".into() });
        }
        if which & 8 != 0 {
            let time = NfsTime { seconds: self.tape.number() as i64, nanoseconds: self.tape.number32() };
            values.time_modify_set = Some(SetTime::ClientTime(time));
        }
        let mut fattr = values.to_fattr();
        if which & 0x80 != 0 {
            fattr.bitmap.insert(self.tape.number32() % 127);
        }
        if which & 0x40 != 0 {
            fattr.encoded = [&fattr.encoded[..], self.tape.bytes()].concat().into();
        }
        fattr
    }

    fn open(&mut self) -> NfsArgOp {
        let how = self.tape.byte();
        let access = match self.tape.number32() {
            0 => bits::share_access::BOTH,
            access => access,
        };
        let deny = self.tape.number32();
        let owner = self.owner();
        let how_to = match how % 8 {
            0..=2 => OpenHow::NoCreate,
            3 | 4 => OpenHow::Create(CreateHow::Unchecked(self.attributes())),
            5 => OpenHow::Create(CreateHow::Guarded(self.attributes())),
            6 => OpenHow::Create(CreateHow::Exclusive(Verifier([self.tape.byte(); 8]))),
            _ => OpenHow::Create(CreateHow::Exclusive41 {
                verifier: Verifier([self.tape.byte(); 8]),
                attributes: self.attributes(),
            }),
        };
        let claim = match how >> 4 {
            0..=7 => OpenClaim::Null(self.name()),
            8..=10 => OpenClaim::FileHandle,
            11 | 12 => OpenClaim::Previous(DelegationType::None),
            13 => OpenClaim::Previous(DelegationType::Write),
            14 => OpenClaim::DelegateCurrentFileHandle(self.state_id()),
            _ => OpenClaim::DelegatePreviousFileHandle,
        };
        NfsArgOp::Open(OpenArgs {
            seqid: 0,
            share_access: access,
            share_deny: deny,
            owner,
            how: how_to,
            claim,
        })
    }

    fn lock_type(&mut self) -> LockType {
        [LockType::Write, LockType::Read, LockType::ReadWait, LockType::WriteWait]
            [usize::from(self.tape.byte() % 4)]
    }

    fn lock(&mut self) -> NfsArgOp {
        let lock_type = self.lock_type();
        let how = self.tape.byte();
        let (offset, length) = self.range();
        let locker = match how & 2 {
            0 => {
                let open_state_id = self.state_id();
                Locker::New { open_seqid: 0, open_state_id, lock_seqid: 0, owner: self.owner() }
            }
            _ => Locker::Existing { lock_state_id: self.state_id(), lock_seqid: 0 },
        };
        NfsArgOp::Lock(LockArgs { lock_type, reclaim: how & 4 != 0, offset, length, locker })
    }

    fn create(&mut self) -> NfsArgOp {
        let object_type = match self.tape.byte() % 8 {
            0 | 1 => CreateType::Directory,
            2 => CreateType::SymbolicLink(LinkText(self.name().0)),
            3 => CreateType::Fifo,
            4 => CreateType::Socket,
            5 => {
                CreateType::BlockDevice(SpecData { major: self.tape.number32(), minor: self.tape.number32() })
            }
            6 => CreateType::CharacterDevice(SpecData { major: 1, minor: 2 }),
            _ => CreateType::Other(self.tape.number32() | 0x10),
        };
        NfsArgOp::Create(CreateArgs { object_type, name: self.name(), attributes: self.attributes() })
    }

    fn exchange_id(&mut self) -> NfsArgOp {
        let owner = match self.tape.byte() % 3 {
            0 => World::owner(self.client),
            1 => "c",
            _ => "d",
        };
        NfsArgOp::ExchangeId(World::exchange_id(
            owner,
            self.tape.byte(),
            self.tape.number32() & nfs4::bits::exchange_id::ARGUMENTS,
        ))
    }

    fn client_id(&mut self) -> ClientId {
        match self.tape.byte() {
            own if own & 1 == 0 => self.world.clients[self.client].id,
            _ => self.tape.pick(&self.world.client_ids).unwrap_or(ClientId(1)),
        }
    }

    fn session(&mut self) -> SessionId {
        match self.tape.byte() {
            own if own & 1 == 0 => self.world.clients[self.client].session,
            other => SessionId([other; 16]),
        }
    }

    fn space(&mut self) -> AllocateArgs {
        AllocateArgs { state_id: self.state_id(), offset: self.tape.number(), length: self.tape.number() }
    }
}
