//! A folder with something of every kind, all that can be seen of it, and what can be done to it: of each operation some
//! that succeed and one that fails. Needs no more than a session, so that servers over other file systems are tried with it
//! as well.

#[path = "scene/attributes.rs"] // from wherever this file is included
mod attributes;

use std::collections::BTreeMap;

use bytes::Bytes;
use nfs4::bits::{compound_mode, share_access};
use nfs4::{
    AllocateArgs, Attribute, AttributeValues, Bitmap, CloneArgs, CompoundModeArgs, CopyArgs, CreateHow,
    CreateType, FileHandle, GetXattrArgs, LinkArgs, ListXattrsArgs, LockType, NfsArgOp, NfsResOp, NfsStatus,
    OpenHow, Outcome, RemoveXattrArgs, SetXattrArgs, SetXattrOption, StableHow, StateId, TestStateIdArgs,
};
use nfs4_client::operations::{self as op, put_handle};
use nfs4_client::{OpenFile, Reply, Session};

/// Bytes of the file `a`: more than a block of 64 KiB, and no whole number of them.
const LENGTH: usize = 200_003;

/// The first operation of a compound that is done whole or not at all.
pub fn atomic() -> NfsArgOp {
    NfsArgOp::CompoundMode(CompoundModeArgs { flags: compound_mode::ATOMIC })
}

pub fn data(length: usize, seed: u8) -> Bytes {
    (0..length).map(|at| (at % 251) as u8 ^ seed).collect::<Vec<_>>().into()
}

/// The folder; `a`, `b` and `c` are open.
pub struct Scene {
    pub session: Session,
    pub folder: FileHandle,
    pub a: OpenFile,
    pub b: OpenFile,
    pub c: OpenFile,
    /// Whether the server offers access control lists.
    pub has_acls: bool,
}

/// What is done, with those that succeed one after the other and one that fails wherever it stands.
pub struct Kind {
    pub name: &'static str,
    pub good: [Vec<NfsArgOp>; 3],
    pub bad: Vec<NfsArgOp>,
    pub status: NfsStatus,
}

/// What an object looks like, by path; what clients hold, by name.
pub type Snapshot = BTreeMap<String, String>;

async fn run(session: &Session, operations: &[NfsArgOp]) -> Vec<NfsResOp> {
    let done = again(session, operations).await.into_results();
    done.unwrap_or_else(|error| panic!("{operations:?}: {error}"))
}

fn set_xattr(name: &str, value: &'static [u8], option: SetXattrOption) -> NfsArgOp {
    NfsArgOp::SetXattr(SetXattrArgs { option, name: name.into(), value: Bytes::from_static(value) })
}

fn symlink(name: &str) -> NfsArgOp {
    op::create(CreateType::SymbolicLink("somewhere/else".into()), name, 0o777)
}

fn directory(name: &str) -> NfsArgOp {
    op::create(CreateType::Directory, name, 0o750)
}

impl Scene {
    /// Makes a new folder of this name below `root`.
    pub async fn new(session: &Session, root: &FileHandle, name: &str) -> Scene {
        let folder = session.make_directory(root, name, 0o755).await.unwrap();
        let d = session.make_directory(&folder, "d", 0o755).await.unwrap();
        session.make_directory(&folder, "e", 0o700).await.unwrap();
        for (seed, (directory, name, length)) in
            [(&folder, "a", LENGTH), (&folder, "b", 70_000), (&folder, "c", 10), (&d, "x", 5_000)]
                .into_iter()
                .enumerate()
        {
            let request = [
                put_handle(directory),
                op::open(name, share_access::BOTH, op::guarded(0o640), op::owner("maker")),
                op::write(StateId::CURRENT, 0, StableHow::FileSync, data(length, seed as u8)),
                op::close(StateId::CURRENT),
            ];
            run(session, &request).await;
        }
        let open = async |name: &str| {
            let access = share_access::BOTH | share_access::WANT_NO_DELEG;
            session.open(&folder, name, access, OpenHow::NoCreate, op::owner("holder")).await.unwrap()
        };
        let (a, b, c) = (open("a").await, open("b").await, open("c").await);
        let request = [
            put_handle(&a.handle),
            set_xattr("one", b"1", SetXattrOption::Create),
            set_xattr("two", b"22", SetXattrOption::Create),
            set_xattr("three", b"333", SetXattrOption::Create),
            NfsArgOp::SaveFh,
            put_handle(&folder),
            NfsArgOp::Link(LinkArgs { new_name: "a2".into() }),
            symlink("l"),
        ];
        run(session, &request).await;
        let supported = Bitmap::EMPTY.with(Attribute::SupportedAttrs);
        let supported = session.attributes(&folder, supported).await.unwrap().supported_attrs.unwrap();
        let has_acls = supported.contains(Attribute::Acl);
        Scene { session: session.clone(), folder, a, b, c, has_acls }
    }

    fn in_folder(&self, operation: NfsArgOp) -> Vec<NfsArgOp> {
        vec![put_handle(&self.folder), operation]
    }

    /// On an open file.
    fn on(&self, file: &OpenFile, operation: NfsArgOp) -> Vec<NfsArgOp> {
        vec![put_handle(&file.handle), operation]
    }

    /// With one file saved and another one current.
    fn between(&self, from: &FileHandle, to: &FileHandle, operation: NfsArgOp) -> Vec<NfsArgOp> {
        vec![put_handle(from), NfsArgOp::SaveFh, put_handle(to), operation]
    }

    fn rename(&self, from: &str, to: &str) -> Vec<NfsArgOp> {
        self.between(&self.folder, &self.folder, op::rename(from, to))
    }

    fn link(&self, name: &str) -> Vec<NfsArgOp> {
        let link = NfsArgOp::Link(LinkArgs { new_name: name.into() });
        self.between(&self.b.handle, &self.folder, link)
    }

    fn open(&self, name: &str, how: OpenHow) -> Vec<NfsArgOp> {
        self.in_folder(op::open(name, share_access::BOTH, how, op::owner("other")))
    }

    fn cut(&self, name: &str) -> Vec<NfsArgOp> {
        let size = AttributeValues { size: Some(0), ..AttributeValues::default() };
        self.open(name, OpenHow::Create(CreateHow::Unchecked(size.to_fattr())))
    }

    fn copy(&self, source_offset: u64, destination_offset: u64, count: u64) -> Vec<NfsArgOp> {
        let args = CopyArgs {
            source_state_id: self.a.state_id,
            destination_state_id: self.b.state_id,
            source_offset,
            destination_offset,
            count,
            consecutive: true,
            synchronous: true,
            source_servers: Vec::new(),
        };
        self.between(&self.a.handle, &self.b.handle, NfsArgOp::Copy(args))
    }

    fn clone(&self, to: &OpenFile, source_offset: u64) -> Vec<NfsArgOp> {
        let args = CloneArgs {
            source_state_id: self.a.state_id,
            destination_state_id: to.state_id,
            source_offset,
            destination_offset: 0,
            count: 0,
        };
        self.between(&self.a.handle, &to.handle, NfsArgOp::Clone(args))
    }

    fn lock(&self, file: &OpenFile, owner: &'static str, kind: LockType) -> Vec<NfsArgOp> {
        self.on(file, op::first_lock(file.state_id, op::owner(owner), kind, 10, 20))
    }

    /// Every operation that changes something.
    pub fn kinds(&self) -> Vec<Kind> {
        use NfsStatus::*;
        let (a, b, c) = (&self.a, &self.b, &self.c);
        let nobody = StateId { seqid: 1, other: [9; 12] };
        let write = |file: &OpenFile, offset, stable, length| {
            self.on(file, op::write(file.state_id, offset, stable, data(length, 77)))
        };
        let space =
            |file: &OpenFile, offset, length| AllocateArgs { state_id: file.state_id, offset, length };
        let mut kinds = vec![
            Kind {
                name: "open-create",
                good: [
                    self.open("n1", op::guarded(0o600)),
                    [
                        self.open("n2", op::unchecked(0o644)),
                        vec![op::write(StateId::CURRENT, 3, StableHow::Unstable, data(100, 4))],
                    ]
                    .concat(),
                    [self.open("n3", op::unchecked(0o644)), vec![op::close(StateId::CURRENT)]].concat(),
                ],
                bad: self.open("a", op::guarded(0o600)),
                status: Exist,
            },
            Kind {
                name: "open-truncate",
                good: [self.cut("a"), self.cut("b"), self.cut("c")],
                bad: self.cut("d"),
                status: IsDir,
            },
            Kind {
                name: "open",
                good: ["a", "b", "c"].map(|name| self.open(name, OpenHow::NoCreate)),
                bad: self.open("absent", OpenHow::NoCreate),
                status: NoEnt,
            },
            Kind {
                name: "close",
                good: [a, b, c].map(|file| self.on(file, op::close(file.state_id))),
                bad: self.on(a, op::close(nobody)),
                status: BadStateId,
            },
            Kind {
                name: "lock",
                good: [
                    self.lock(a, "one", LockType::Write),
                    self.lock(b, "two", LockType::Read),
                    self.lock(c, "three", LockType::Write),
                ],
                bad: self.on(a, op::first_lock(nobody, op::owner("four"), LockType::Write, 0, 1)),
                status: BadStateId,
            },
            Kind {
                name: "write",
                good: [
                    write(a, 100, StableHow::FileSync, 70_000),
                    write(b, 1_000_000, StableHow::Unstable, 5),
                    write(a, 120, StableHow::DataSync, 66_000),
                ],
                bad: self.on(c, op::write(nobody, 0, StableHow::FileSync, data(3, 3))),
                status: BadStateId,
            },
            Kind {
                name: "allocate",
                good: [(a, 300_000), (b, 10), (c, 70_000)]
                    .map(|(file, length)| self.on(file, NfsArgOp::Allocate(space(file, 100, length)))),
                bad: self.on(a, NfsArgOp::Allocate(space(a, 0, 0))),
                status: Inval,
            },
            Kind {
                name: "deallocate",
                good: [(a, 100_000), (b, 10), (c, 70_000)]
                    .map(|(file, length)| self.on(file, NfsArgOp::Deallocate(space(file, 1, length)))),
                bad: self.on(a, NfsArgOp::Deallocate(space(a, 0, 0))),
                status: Inval,
            },
            Kind {
                name: "copy",
                good: [self.copy(0, 0, 0), self.copy(5, 100_000, 80_000), self.copy(65_536, 65_536, 65_536)],
                bad: self.copy(LENGTH as u64 + 1, 0, 1),
                status: Inval,
            },
            Kind {
                name: "clone",
                good: [self.clone(b, 0), self.clone(c, 0), self.clone(b, 0)],
                bad: self.clone(b, 1),
                status: Inval,
            },
            Kind {
                name: "mkdir",
                good: ["m1", "m2", "m3"].map(|name| self.in_folder(directory(name))),
                bad: self.in_folder(directory("a")),
                status: Exist,
            },
            Kind {
                name: "symlink",
                good: ["s1", "s2", "s3"].map(|name| self.in_folder(symlink(name))),
                bad: self.in_folder(symlink("d")),
                status: Exist,
            },
            Kind {
                name: "link",
                good: ["h1", "h2", "h3"].map(|name| self.link(name)),
                bad: self.link("a"),
                status: Exist,
            },
            Kind {
                name: "remove",
                good: ["a2", "e", "l"].map(|name| self.in_folder(op::remove(name))),
                bad: self.in_folder(op::remove("absent")),
                status: NoEnt,
            },
            Kind {
                name: "remove-what-is-open",
                good: ["a", "b", "c"].map(|name| self.in_folder(op::remove(name))),
                bad: self.in_folder(op::remove("d")),
                status: NotEmpty,
            },
            Kind {
                name: "rename",
                good: [self.rename("a", "b"), self.rename("l", "r1"), self.rename("c", "l2")],
                bad: self.rename("absent", "r2"),
                status: NoEnt,
            },
            Kind {
                name: "rename-directory",
                good: [self.rename("d", "r1"), self.rename("r1", "e"), self.rename("e", "r2")],
                bad: self.rename("l", "."),
                status: BadName,
            },
            Kind {
                name: "setxattr",
                good: [
                    self.on(a, set_xattr("one", b"another", SetXattrOption::Replace)),
                    self.on(a, set_xattr("four", b"4444", SetXattrOption::Create)),
                    self.on(b, set_xattr("one", b"", SetXattrOption::Either)),
                ],
                bad: self.on(a, set_xattr("two", b"2", SetXattrOption::Create)),
                status: Exist,
            },
            Kind {
                name: "removexattr",
                good: ["one", "two", "three"].map(|name| self.on(a, remove_xattr(name))),
                bad: self.on(a, remove_xattr("absent")),
                status: NoXattr,
            },
        ];
        kinds.extend(self.creations());
        kinds.extend(self.settings());
        kinds
    }

    /// Everything of the folder that a client can see, and what the client holds.
    pub async fn look(&self) -> Snapshot {
        let mut seen = Snapshot::new();
        let mut folders = vec![(".".to_owned(), self.folder.clone())];
        while let Some((path, folder)) = folders.pop() {
            seen.insert(path.clone(), self.describe(&folder).await);
            for entry in self.session.read_directory(&folder, Bitmap::EMPTY).await.unwrap() {
                let name = String::from_utf8(entry.name.as_ref().to_vec()).unwrap();
                let path = format!("{path}/{name}");
                let handle = self.session.lookup_in(&folder, &[&name]).await.unwrap();
                let kind = Bitmap::EMPTY.with(Attribute::Type);
                match self.session.attributes(&handle, kind).await.unwrap().r#type {
                    Some(nfs4::FileType::Directory) => folders.push((path, handle)),
                    _ => drop(seen.insert(path, self.describe(&handle).await)),
                }
            }
        }
        for (name, file) in [("a", &self.a), ("b", &self.b), ("c", &self.c)] {
            // Open, readable by the open, and locked or not.
            let probe = op::first_lock(file.state_id, op::owner("prober"), LockType::Write, 0, u64::MAX);
            let request = [
                NfsArgOp::TestStateId(TestStateIdArgs { state_ids: vec![file.state_id] }),
                put_handle(&file.handle),
                op::read(file.state_id, 0, 8),
                probe,
            ];
            let reply = self.session.compound(&request).await.unwrap();
            if let Some(NfsResOp::Lock(nfs4::LockRes::Ok(lock))) = reply.results.last() {
                let lock = self.session.unlock(&file.handle, *lock, 0, u64::MAX).await.unwrap();
                let free = NfsArgOp::FreeStateId(nfs4::FreeStateIdArgs { state_id: lock });
                run(&self.session, &[put_handle(&file.handle), free]).await;
            }
            let statuses: Vec<_> = reply.results.iter().map(NfsResOp::status).collect();
            let valid = match &reply.results[0] {
                NfsResOp::TestStateId(Outcome::Ok(valid)) => valid.clone(),
                other => panic!("{other:?}"),
            };
            seen.insert(format!("open {name}"), format!("{valid:?} {statuses:?}"));
        }
        seen
    }

    async fn describe(&self, handle: &FileHandle) -> String {
        let wanted = Attribute::set(&[
            Attribute::Type,
            Attribute::Change,
            Attribute::Size,
            Attribute::Acl,
            Attribute::Dacl,
            Attribute::Fileid,
            Attribute::Mode,
            Attribute::Numlinks,
            Attribute::Owner,
            Attribute::OwnerGroup,
            Attribute::SpaceUsed,
            Attribute::TimeAccess,
            Attribute::TimeCreate,
            Attribute::TimeMetadata,
            Attribute::TimeModify,
        ]);
        let values = self.session.attributes(handle, wanted).await.unwrap();
        let mut text = format!("{:?} {:?} {:?}", values.r#type, values.mode, values.numlinks);
        text += &format!(" size {:?} {:?} change {:?}", values.size, values.space_used, values.change);
        text += &format!(" {:?} {:?} {:?}", values.time_access, values.time_metadata, values.time_modify);
        text += &format!(" created {:?}", values.time_create);
        text += &format!(" {:?} {:?} {:?}", values.fileid, values.owner, values.owner_group);
        assert_eq!((values.acl.is_some(), values.dacl.is_some()), (self.has_acls, self.has_acls));
        text += &format!(" {:?} {:?}", values.acl, values.dacl);
        match values.r#type {
            Some(nfs4::FileType::SymbolicLink) => {
                let results = run(&self.session, &[put_handle(handle), NfsArgOp::ReadLink]).await;
                return text + &format!(" {:?}", results[1]);
            }
            Some(nfs4::FileType::Regular) => {
                let read = op::read(StateId::ANONYMOUS, 0, 2 << 20);
                let results = run(&self.session, &[put_handle(handle), read]).await;
                let NfsResOp::Read(Outcome::Ok(read)) = &results[1] else { panic!("{results:?}") };
                assert!(read.eof);
                let bytes = read.data.clone().into_bytes();
                let sum = bytes.iter().fold(0_u64, |sum, &byte| sum.wrapping_mul(31) + u64::from(byte) + 1);
                text += &format!(" {} bytes of sum {sum:x}", bytes.len());
            }
            _ => {}
        }
        let list = NfsArgOp::ListXattrs(ListXattrsArgs { cookie: 0, max_count: 4096 });
        let results = run(&self.session, &[put_handle(handle), list]).await;
        let NfsResOp::ListXattrs(Outcome::Ok(list)) = &results[1] else { panic!("{results:?}") };
        for name in &list.names {
            let get = NfsArgOp::GetXattr(GetXattrArgs { name: name.clone() });
            let results = run(&self.session, &[put_handle(handle), get]).await;
            text += &format!(" {name:?}: {:?}", results[1]);
        }
        text
    }

    /// Whether the state ids that a reply tells of are good for anything.
    pub async fn are_any_open(&self, reply: &Reply) -> bool {
        let opened = reply.results.iter().filter_map(|result| match result {
            NfsResOp::Open(Outcome::Ok(opened)) => Some(opened.state_id),
            NfsResOp::Lock(nfs4::LockRes::Ok(lock)) => Some(*lock),
            _ => None,
        });
        let held = [self.a.state_id.other, self.b.state_id.other, self.c.state_id.other];
        let state_ids: Vec<_> = opened.filter(|id| !held.contains(&id.other)).collect();
        let test = NfsArgOp::TestStateId(TestStateIdArgs { state_ids });
        match &run(&self.session, &[test]).await[0] {
            NfsResOp::TestStateId(Outcome::Ok(statuses)) => statuses.contains(&NfsStatus::Ok),
            other => panic!("{other:?}"),
        }
    }
}

fn remove_xattr(name: &str) -> NfsArgOp {
    NfsArgOp::RemoveXattr(RemoveXattrArgs { name: name.into() })
}

/// The elements of a vector with the bad one at `place`, as one atomic compound; and the place of the operation that fails.
fn with_bad(kind: &Kind, place: usize) -> (Vec<NfsArgOp>, usize) {
    let mut operations = vec![atomic()];
    for good in &kind.good[..place] {
        operations.extend(good.iter().cloned());
    }
    operations.extend(kind.bad.iter().cloned());
    let fails_at = operations.len() - 1;
    for good in &kind.good[place..] {
        operations.extend(good.iter().cloned());
    }
    (operations, fails_at)
}

/// For every kind of operation: a vector with one that fails, wherever that stands, leaves everything as it was; and without
/// it all of it is done. The names of the kinds.
pub async fn try_every_operation(session: &Session, root: &FileHandle) -> Vec<&'static str> {
    let names: Vec<_> =
        Scene::new(session, root, "kinds").await.kinds().into_iter().map(|k| k.name).collect();
    for (number, &name) in names.iter().enumerate() {
        let scene = Scene::new(session, root, name).await;
        let kind = scene.kinds().swap_remove(number);
        let before = scene.look().await;
        assert_eq!(scene.look().await, before, "{name}: looking changes nothing");
        for place in 0..=kind.good.len() {
            let (operations, fails_at) = with_bad(&kind, place);
            let reply = again(session, &operations).await;
            let context = format!("{name} with a bad one at {place}");
            assert_eq!((reply.status, reply.results.len() - 1), (kind.status, fails_at), "{context}");
            assert_eq!(scene.look().await, before, "{context}");
            assert!(!scene.are_any_open(&reply).await, "{context}");
        }
        let good: Vec<_> = [vec![atomic()], kind.good.concat()].concat();
        let reply = again(session, &good).await;
        assert_eq!(reply.status, NfsStatus::Ok, "{name}: {:?}", reply.results.last());
        let after = scene.look().await;
        let is_visible = after != before || scene.are_any_open(&reply).await;
        assert!(is_visible, "{name} without a bad one");
    }
    names
}

/// How often a server may put off one compound, by far: usually none is. Whoever loses to others that commit first is not put off for
/// that, however many they are: after four tries beside them the server keeps all of them from committing until it is done (decision
/// 15, `Limits::optimistic_tries`). What else puts a compound off ends by itself: a journal without room, which the tries beside
/// others wait for; content on its way from the clouds, or replaced there, which the next try finds. Whoever is put off this often
/// would be for ever.
const MOST_DELAYS: usize = 100;

/// The reply to a compound that is sent again while the server asks for it, and how often it did.
pub async fn counted(session: &Session, operations: &[NfsArgOp]) -> (Reply, usize) {
    for delays in 0..=MOST_DELAYS {
        let reply = session.compound(operations).await.unwrap();
        if reply.status != NfsStatus::Delay {
            return (reply, delays);
        }
        tokio::task::yield_now().await;
    }
    let operations: Vec<_> = operations.iter().map(NfsArgOp::op_code).collect();
    panic!("put off more than {MOST_DELAYS} times: {operations:?}");
}

/// The reply to a compound that is sent again while the server asks for it.
pub async fn again(session: &Session, operations: &[NfsArgOp]) -> Reply {
    counted(session, operations).await.0
}
