//! Delegations: who reads alone need not ask, and who changes a file waits until everybody has been asked
//! (RFC 8881 §10.4).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nfs4::bits::{compound_mode, sequence_status, share_access, share_deny};
use nfs4::{
    AttributeValues, CbRecallArgs, CompoundModeArgs, CreateHow, CreateType, DelegReturnArgs, DelegationType,
    FileHandle, FreeStateIdArgs, LinkArgs, NfsArgOp, NfsCbArgOp, NfsCbResOp, NfsResOp, NfsStatus,
    NoDelegation, OpenArgs, OpenClaim, OpenDelegation, OpenHow, OpenOk, Outcome, ReclaimCompleteArgs,
    RemoveXattrArgs, SetXattrArgs, SetXattrOption, StableHow, StateId, TestStateIdArgs,
};
use nfs4_client::operations::{
    close, create, lookup, owner, put_handle, read, remove, rename, set_attributes, write,
};
use nfs4_client::{Callback, Config, OpenFile, Session};
use tokio::sync::mpsc;

use crate::harness::{LEASE, Running, World, home, outcome, status};
use crate::minor0::old::Old;

/// Tells the test of every recall.
struct Recalls(mpsc::UnboundedSender<CbRecallArgs>);

#[async_trait]
impl Callback for Recalls {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        match operation {
            NfsCbArgOp::Recall(recall) => {
                self.0.send(recall).unwrap();
                NfsCbResOp::Recall(NfsStatus::Ok)
            }
            other => NfsCbResOp::failure(other.op_code(), NfsStatus::NotSupp),
        }
    }
}

/// A client that can be called back.
struct Holder {
    session: Session,
    root: FileHandle,
    recalls: mpsc::UnboundedReceiver<CbRecallArgs>,
}

impl Holder {
    async fn connect(running: &Running, name: &str) -> Holder {
        Holder::with(running, Config::new(name.to_owned(), [1; 8])).await
    }

    async fn with(running: &Running, config: Config) -> Holder {
        let (sender, recalls) = mpsc::unbounded_channel();
        let callback: Arc<dyn Callback> = Arc::new(Recalls(sender));
        let session = Session::connect(running.address, config, Some(callback)).await.unwrap();
        let root = home(&session).await;
        Holder { session, root, recalls }
    }

    async fn open(&self, name: &str, access: u32) -> OpenFile {
        self.session.open(&self.root, name, access, OpenHow::NoCreate, owner("o")).await.unwrap()
    }

    /// Opens for reading, which has to be delegated.
    async fn delegated(&self, name: &str) -> (OpenFile, StateId) {
        let file = self.open(name, share_access::READ).await;
        let id = state_id(&file.delegation);
        (file, id)
    }

    async fn give_back(&self, recall: &CbRecallArgs) -> NfsStatus {
        give_back(&self.session, &recall.file_handle, recall.state_id).await
    }

    fn is_left_alone(&mut self) -> bool {
        self.recalls.try_recv().is_err()
    }
}

pub async fn give_back(session: &Session, file: &FileHandle, state_id: StateId) -> NfsStatus {
    outcome(session, &[put_handle(file), NfsArgOp::DelegReturn(DelegReturnArgs { state_id })]).await.0
}

fn state_id(delegation: &OpenDelegation) -> StateId {
    match delegation {
        OpenDelegation::Read(read) => {
            assert!(!read.recall);
            read.state_id
        }
        other => panic!("{other:?} instead of a delegation for reading"),
    }
}

/// Makes files with some data, and nobody has them open.
pub async fn make(running: &Running, names: &[&str]) -> Session {
    let maker = running.client("maker").await;
    let root = home(&maker).await;
    for name in names {
        let file = maker.create(&root, *name, 0o666).await.unwrap();
        maker.write(&file, 0, StableHow::FileSync, Bytes::from_static(b"data")).await.unwrap();
        maker.close(&file).await.unwrap();
    }
    maker
}

pub fn opening(name: &str, access: u32, deny: u32, how: OpenHow) -> NfsArgOp {
    let claim = OpenClaim::Null(name.into());
    let owner = owner("other");
    NfsArgOp::Open(OpenArgs { seqid: 0, share_access: access, share_deny: deny, owner, how, claim })
}

pub fn sized(size: u64) -> AttributeValues {
    AttributeValues { size: Some(size), ..AttributeValues::default() }
}

/// OPEN of the current filehandle for reading.
pub fn open_handle(claim: OpenClaim, access: u32) -> NfsArgOp {
    let (owner, how) = (owner("o"), OpenHow::NoCreate);
    NfsArgOp::Open(OpenArgs { seqid: 0, share_access: access, share_deny: 0, owner, how, claim })
}

pub fn opened(results: &[NfsResOp]) -> Option<&OpenOk> {
    results.iter().find_map(|result| match result {
        NfsResOp::Open(Outcome::Ok(opened)) => Some(opened),
        _ => None,
    })
}

#[tokio::test]
async fn everybody_who_changes_a_file_waits_for_its_delegation_and_no_longer() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f", "there"]).await;
    let root = home(&maker).await;
    let (f, there) =
        (maker.lookup(&["home", "f"]).await.unwrap(), maker.lookup(&["home", "there"]).await.unwrap());
    let mut holder = Holder::connect(&running, "holder").await;
    let cut = OpenHow::Create(CreateHow::Unchecked(sized(0).to_fattr()));
    let mode = AttributeValues { mode: Some(0o640), ..AttributeValues::default() };
    let xattr =
        SetXattrArgs { option: SetXattrOption::Either, name: "x".into(), value: Bytes::from_static(b"v") };
    let in_root = |operation| vec![put_handle(&root), operation];
    let on_f = |operation| vec![put_handle(&f), operation];
    let within_root = |operation| vec![put_handle(&root), NfsArgOp::SaveFh, operation];
    let link = NfsArgOp::Link(LinkArgs { new_name: "link".into() });
    let changes = [
        (&f, in_root(opening("f", share_access::WRITE, 0, OpenHow::NoCreate))),
        (&f, in_root(opening("f", share_access::READ, share_deny::READ, OpenHow::NoCreate))),
        (&f, in_root(opening("f", share_access::READ, 0, cut))),
        (&f, on_f(set_attributes(StateId::ANONYMOUS, &sized(1)))),
        (&f, on_f(set_attributes(StateId::ANONYMOUS, &mode))),
        (&f, on_f(write(StateId::ANONYMOUS, 0, StableHow::Unstable, Bytes::from_static(b"x")))),
        (&f, on_f(NfsArgOp::SetXattr(xattr))),
        (&f, on_f(NfsArgOp::RemoveXattr(RemoveXattrArgs { name: "x".into() }))),
        (&f, vec![put_handle(&f), NfsArgOp::SaveFh, put_handle(&root), link]),
        (&f, in_root(remove("link"))),
        (&f, within_root(rename("f", "g"))),
        (&f, within_root(rename("there", "g"))),
        (&there, in_root(remove("g"))),
    ];
    for (number, (file, change)) in changes.into_iter().enumerate() {
        // So that the last conflict is forgotten.
        world.clock.advance(Duration::from_secs(31));
        maker.renew().await.unwrap();
        let by_handle = open_handle(OpenClaim::FileHandle, share_access::READ);
        let request = [put_handle(file), by_handle, close(StateId::CURRENT)];
        let results = holder.session.execute(&request).await.unwrap();
        let id = state_id(&opened(&results).unwrap().delegation);

        let session = maker.clone();
        let changed = tokio::spawn(async move { session.execute(&change).await });
        let recall = holder.recalls.recv().await.unwrap();
        assert_eq!((recall.state_id, &recall.file_handle), (id, file), "change {number}");
        let read = [put_handle(file), read(id, 0, 9)];
        assert_eq!(outcome(&holder.session, &read).await, (NfsStatus::Ok, 2), "change {number}");
        assert!(!changed.is_finished(), "change {number}");
        assert_eq!(holder.give_back(&recall).await, NfsStatus::Ok);
        // The clock stands still: the change has waited, and was not put off.
        let results = changed.await.unwrap().unwrap_or_else(|error| panic!("change {number}: {error}"));
        assert!(holder.is_left_alone(), "change {number}");
        if let Some(made) = opened(&results) {
            maker.execute(&[put_handle(file), close(made.state_id)]).await.unwrap();
        }
    }
    assert_eq!(running.server.metrics().census.delegations, 0);
    running.stop().await;
}

#[tokio::test]
async fn who_does_not_return_a_delegation_makes_others_come_again_until_it_is_revoked() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let root = home(&maker).await;
    let mut holder = Holder::connect(&running, "holder").await;
    let (file, id) = holder.delegated("f").await;
    let change = [put_handle(&root), opening("f", share_access::WRITE, 0, OpenHow::NoCreate)];
    let try_once = || {
        let (session, change) = (maker.clone(), change.clone());
        tokio::spawn(async move { outcome(&session, &change).await })
    };
    let first = try_once();
    holder.recalls.recv().await.unwrap();
    while !first.is_finished() {
        world.clock.advance(Duration::from_millis(10));
        tokio::task::yield_now().await;
    }
    assert_eq!(first.await.unwrap(), (NfsStatus::Delay, 2), "PUTFH was done");
    for _ in 0..2 {
        world.clock.advance(LEASE / 2 + Duration::from_secs(1));
        holder.session.renew().await.unwrap();
        maker.renew().await.unwrap();
    }
    while holder.session.renew().await.unwrap() & sequence_status::RECALLABLE_STATE_REVOKED == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(outcome(&maker, &change).await, (NfsStatus::Ok, 2));
    assert!(holder.is_left_alone(), "one recall is enough");

    let session = &holder.session;
    let test = NfsArgOp::TestStateId(TestStateIdArgs { state_ids: vec![id, file.state_id] });
    let results = session.execute(&[test]).await.unwrap();
    let expected = vec![NfsStatus::DelegRevoked, NfsStatus::Ok];
    assert_eq!(results, [NfsResOp::TestStateId(Outcome::Ok(expected))], "the open is not lost");
    let read = [put_handle(&file.handle), read(id, 0, 9)];
    assert_eq!(outcome(session, &read).await, (NfsStatus::DelegRevoked, 2));
    assert_eq!(give_back(session, &file.handle, id).await, NfsStatus::DelegRevoked);
    let free = NfsArgOp::FreeStateId(FreeStateIdArgs { state_id: id });
    assert_eq!(outcome(session, std::slice::from_ref(&free)).await.0, NfsStatus::Ok);
    assert_eq!(outcome(session, &[free]).await.0, NfsStatus::BadStateId);
    assert_eq!(session.renew().await.unwrap(), 0);
    assert_eq!(running.server.metrics().census.delegations, 0);
    running.stop().await;
}

#[tokio::test]
async fn an_atomic_compound_waits_for_a_delegation_and_then_has_done_all_or_nothing() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let root = home(&maker).await;
    let mut holder = Holder::connect(&running, "holder").await;
    let (file, _) = holder.delegated("f").await;
    let made = create(CreateType::Directory, "d", 0o755);
    let atomic = NfsArgOp::CompoundMode(CompoundModeArgs { flags: compound_mode::ATOMIC });
    let request = [atomic, put_handle(&root), made, put_handle(&root), remove("f")];
    let try_once = || {
        let (session, request) = (maker.clone(), request.clone());
        tokio::spawn(async move { outcome(&session, &request).await })
    };
    let first = try_once();
    let recall = holder.recalls.recv().await.unwrap();
    while !first.is_finished() {
        world.clock.advance(Duration::from_millis(10));
        tokio::task::yield_now().await;
    }
    assert_eq!(first.await.unwrap(), (NfsStatus::Delay, 5));
    assert_eq!(outcome(&maker, &[put_handle(&root), lookup("d")]).await.0, NfsStatus::NoEnt);
    let second = try_once();
    maker.close(&maker.create(&root, "other", 0o644).await.unwrap()).await.unwrap();
    assert!(!second.is_finished(), "it waits");
    assert_eq!(holder.give_back(&recall).await, NfsStatus::Ok);
    assert_eq!(second.await.unwrap(), (NfsStatus::Ok, 5));
    assert_eq!(outcome(&maker, &[put_handle(&root), lookup("d")]).await.0, NfsStatus::Ok);
    holder.session.close(&file).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn who_is_gone_for_longer_than_a_lease_is_in_nobodys_way() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let root = home(&maker).await;
    let holder = Holder::connect(&running, "holder").await;
    holder.delegated("f").await;
    world.clock.advance(LEASE + Duration::from_secs(1));
    let change = [put_handle(&root), remove("f")];
    assert_eq!(outcome(&maker, &change).await, (NfsStatus::Ok, 2));
    assert_eq!(status(holder.session.renew().await), NfsStatus::BadSession);
    running.stop().await;
}

#[tokio::test]
async fn readers_and_the_holder_itself_recall_nothing() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let mut holder = Holder::connect(&running, "holder").await;
    let mut other = Holder::connect(&running, "other").await;
    let (file, _) = holder.delegated("f").await;
    let (_, second) = other.delegated("f").await;
    assert_eq!(other.open("f", share_access::READ).await.delegation, OpenDelegation::None, "has it");
    let read = [put_handle(&file.handle), read(StateId::ANONYMOUS, 0, 9)];
    assert_eq!(outcome(&other.session, &read).await.0, NfsStatus::Ok);
    assert!(holder.is_left_alone());
    assert_eq!(give_back(&other.session, &file.handle, second).await, NfsStatus::Ok);
    assert_eq!(give_back(&other.session, &file.handle, second).await, NfsStatus::BadStateId);

    let writing = holder.open("f", share_access::WRITE).await;
    holder.session.write(&writing, 0, StableHow::FileSync, Bytes::from_static(b"mine")).await.unwrap();
    holder.session.set_attributes(&file.handle, writing.state_id, &sized(2)).await.unwrap();
    holder.session.rename(&holder.root, "f", &holder.root, "g").await.unwrap();
    holder.session.remove(&holder.root, "g").await.unwrap();
    assert!(holder.is_left_alone() && other.is_left_alone());
    assert_eq!(running.server.metrics().census.delegations, 1);
    running.stop().await;
}

#[tokio::test]
async fn who_closes_a_file_and_then_changes_it_waits_as_well() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let root = home(&maker).await;
    let mut holder = Holder::connect(&running, "holder").await;
    let (file, _) = holder.delegated("f").await;
    let reading = maker.open(&root, "f", share_access::READ, OpenHow::NoCreate, owner("o")).await.unwrap();
    let change = [
        put_handle(&file.handle),
        close(reading.state_id),
        set_attributes(
            StateId::ANONYMOUS,
            &AttributeValues { mode: Some(0o600), ..AttributeValues::default() },
        ),
    ];
    let changed = tokio::spawn(async move { outcome(&maker, &change).await });
    let recall = holder.recalls.recv().await.unwrap();
    holder.give_back(&recall).await;
    assert_eq!(changed.await.unwrap(), (NfsStatus::Ok, 3));
    running.stop().await;
}

#[tokio::test]
async fn a_reader_who_closes_a_file_keeps_nobody_from_a_delegation() {
    let world = World::new().await;
    let running = world.start().await;
    let a = make(&running, &["f"]).await;
    let root = home(&a).await;
    let read_only = share_access::READ | share_access::WANT_NO_DELEG;
    let file = a.open(&root, "f", read_only, OpenHow::NoCreate, owner("o")).await.unwrap();
    let other = a.create(&root, "other", 0o666).await.unwrap();
    let b = Holder::connect(&running, "b").await;
    // What it does besides is not over yet.
    let commits = world.home.hold_visible_commits();
    let request = [
        put_handle(&other.handle),
        write(other.state_id, 0, StableHow::Unstable, Bytes::from_static(b"news")),
        put_handle(&file.handle),
        close(file.state_id),
    ];
    let (closed, ()) = tokio::join!(outcome(&a, &request), async {
        commits.arrival().await;
        b.delegated("f").await;
        commits.open();
    });
    assert_eq!(closed, (NfsStatus::Ok, 4));
    running.stop().await;
}

#[tokio::test]
async fn wishes_are_heard() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f", "g"]).await;
    let root = home(&maker).await;
    let holder = Holder::connect(&running, "holder").await;
    let refused = [
        (share_access::WANT_NO_DELEG, NoDelegation::NOT_WANTED),
        (share_access::WANT_CANCEL, NoDelegation::CANCELLED),
    ];
    for (want, why) in refused {
        let file = holder.open("f", share_access::READ | want).await;
        assert_eq!(file.delegation, OpenDelegation::NoneExt(why));
    }
    let file = holder.open("f", share_access::READ | share_access::WANT_READ_DELEG).await;
    state_id(&file.delegation);
    let file = holder.open("g", share_access::READ | share_access::WANT_ANY_DELEG).await;
    let id = state_id(&file.delegation);
    give_back(&holder.session, &file.handle, id).await;

    let writing = maker.open(&root, "g", share_access::WRITE, OpenHow::NoCreate, owner("o")).await.unwrap();
    assert_eq!(writing.delegation, OpenDelegation::None);
    let wish = share_access::READ | share_access::WANT_READ_DELEG;
    let contention = OpenDelegation::NoneExt(NoDelegation::Contention { will_push: false });
    assert_eq!(holder.open("g", wish).await.delegation, contention, "open for writing");
    assert_eq!(holder.open("g", share_access::READ).await.delegation, OpenDelegation::None);
    maker.close(&writing).await.unwrap();
    state_id(&holder.open("g", wish).await.delegation);

    let file = maker.open(&root, "f", wish, OpenHow::NoCreate, owner("o")).await.unwrap();
    let resource = OpenDelegation::NoneExt(NoDelegation::Resource { will_signal: false });
    assert_eq!(file.delegation, resource, "who cannot be called back");
    running.stop().await;
}

#[tokio::test]
async fn a_file_that_was_wanted_by_others_is_not_delegated_for_a_while() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let root = home(&maker).await;
    let mut holder = Holder::connect(&running, "holder").await;
    holder.delegated("f").await;
    let session = maker.clone();
    let change = [put_handle(&root), opening("f", share_access::WRITE, 0, OpenHow::NoCreate)];
    let changed = tokio::spawn(async move { session.execute(&change).await.unwrap() });
    let recall = holder.recalls.recv().await.unwrap();
    holder.give_back(&recall).await;
    let writing = opened(&changed.await.unwrap()).unwrap().state_id;
    maker.execute(&[put_handle(&recall.file_handle), close(writing)]).await.unwrap();
    assert_eq!(holder.open("f", share_access::READ).await.delegation, OpenDelegation::None);
    world.clock.advance(Duration::from_secs(31));
    holder.delegated("f").await;
    running.stop().await;
}

#[tokio::test]
async fn a_recall_finds_another_connection_when_the_first_is_lost() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let root = home(&maker).await;
    let mut holder = Holder::connect(&running, "holder").await;
    holder.delegated("f").await;
    holder.session.peer().close();
    let session = maker.clone();
    let change = [put_handle(&root), remove("f")];
    let changed = tokio::spawn(async move { session.execute(&change).await.unwrap() });
    let again = holder.session.sibling(running.address).await.unwrap();
    let recall = holder.recalls.recv().await.unwrap();
    assert_eq!(give_back(&again, &recall.file_handle, recall.state_id).await, NfsStatus::Ok);
    changed.await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn files_are_opened_by_a_delegation_while_it_is_recalled() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f", "g"]).await;
    let root = home(&maker).await;
    let mut holder = Holder::connect(&running, "holder").await;
    let (file, id) = holder.delegated("f").await;
    let session = maker.clone();
    let change = [put_handle(&root), opening("f", share_access::WRITE, 0, OpenHow::NoCreate)];
    let changed = tokio::spawn(async move { session.execute(&change).await.unwrap() });
    let recall = holder.recalls.recv().await.unwrap();
    let by_handle = |id, access| {
        [put_handle(&file.handle), open_handle(OpenClaim::DelegateCurrentFileHandle(id), access)]
    };
    let by_name = |name: &str| {
        let claim = OpenClaim::DelegateCurrent { state_id: id, file: name.into() };
        [put_handle(&root), open_handle(claim, share_access::READ)]
    };
    for request in [by_handle(id, share_access::READ), by_name("f")] {
        let results = holder.session.execute(&request).await.unwrap();
        assert_eq!(opened(&results).unwrap().delegation, OpenDelegation::None);
    }
    assert_eq!(outcome(&holder.session, &by_name("g")).await.0, NfsStatus::BadStateId);
    let session = &holder.session;
    assert_eq!(outcome(session, &by_handle(id, share_access::BOTH)).await.0, NfsStatus::Access);
    let open = by_handle(file.state_id.newest(), share_access::READ);
    assert_eq!(outcome(session, &open).await.0, NfsStatus::BadStateId, "an open is no delegation");
    assert_eq!(outcome(&maker, &by_handle(id, share_access::READ)).await.0, NfsStatus::BadStateId);
    assert!(!changed.is_finished());
    holder.give_back(&recall).await;
    changed.await.unwrap();
    assert_eq!(outcome(&holder.session, &by_name("f")).await.0, NfsStatus::BadStateId);
    running.stop().await;
}

#[tokio::test]
async fn delegations_are_reclaimed_after_a_restart_to_be_returned() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let holder = Holder::connect(&running, "holder").await;
    let (file, former) = holder.delegated("f").await;
    maker.destroy_client().await.unwrap();
    running.stop().await;

    let running = world.start().await;
    let config = Config { reclaim_complete: false, ..Config::new("holder", [1; 8]) };
    let holder = Holder::with(&running, config).await;
    assert_eq!(give_back(&holder.session, &file.handle, former).await, NfsStatus::BadStateId);
    let previous = OpenClaim::Previous(DelegationType::Read);
    let reclaim = [put_handle(&file.handle), open_handle(previous, share_access::READ)];
    let results = holder.session.execute(&reclaim).await.unwrap();
    let OpenDelegation::Read(reclaimed) = &opened(&results).unwrap().delegation else {
        panic!("{results:?}")
    };
    assert!(reclaimed.recall, "it may have been revoked before, and nobody remembers");
    let id = reclaimed.state_id;
    let complete = NfsArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    assert_eq!(outcome(&holder.session, &[complete]).await.0, NfsStatus::Ok);

    let maker = running.client("maker").await;
    let change = [put_handle(&home(&maker).await), remove("f")];
    let changed = tokio::spawn(async move { maker.execute(&change).await.unwrap() });
    assert_eq!(give_back(&holder.session, &file.handle, id).await, NfsStatus::Ok);
    changed.await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn an_open_that_is_run_again_is_delegated_once() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let holder = Holder::connect(&running, "holder").await;
    world.home.refuse_commits(2);
    let (file, id) = holder.delegated("f").await;
    assert_eq!(running.server.metrics().census.delegations, 1);
    assert_eq!(give_back(&holder.session, &file.handle, id).await, NfsStatus::Ok);
    assert_eq!(running.server.metrics().census.delegations, 0);
    running.stop().await;
}

#[tokio::test]
async fn clients_of_4_0_wait_like_others() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let mut holder = Holder::connect(&running, "holder").await;
    holder.delegated("f").await;
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    // The first OPEN of an owner is put off, and counts.
    let args = old.open_args("f", share_access::WRITE, 0);
    let first = tokio::spawn(async move {
        let status = old.open(&root, args).await.unwrap_err();
        (old, root, status)
    });
    let recall = holder.recalls.recv().await.unwrap();
    while !first.is_finished() {
        world.clock.advance(Duration::from_millis(10));
        tokio::task::yield_now().await;
    }
    let (mut old, root, status) = first.await.unwrap();
    assert_eq!(status, NfsStatus::Delay);
    holder.give_back(&recall).await;
    let args = old.open_args("f", share_access::WRITE, 0);
    old.open(&root, args).await.unwrap();
    assert!(holder.is_left_alone());
    running.stop().await;
}

#[tokio::test]
async fn a_thousand_delegated_files_are_written_without_one_delay() {
    const FILES: usize = 1000;
    let world = World::new().await;
    let running = world.start().await;
    let names: Vec<String> = (0..FILES).map(|number| format!("f{number}")).collect();
    let maker = make(&running, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut holder = Holder::connect(&running, "holder").await;
    for name in &names {
        holder.delegated(name).await;
    }
    let returning = tokio::spawn(async move {
        for _ in 0..FILES {
            let recall = holder.recalls.recv().await.unwrap();
            assert_eq!(holder.give_back(&recall).await, NfsStatus::Ok);
        }
    });
    let root = home(&maker).await;
    for name in names {
        let change = [put_handle(&root), opening(&name, share_access::WRITE, 0, OpenHow::NoCreate)];
        assert_eq!(outcome(&maker, &change).await, (NfsStatus::Ok, 2));
    }
    returning.await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn nothing_is_delegated_when_that_is_turned_off() {
    let world = World { delegations: false, ..World::new().await };
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let holder = Holder::connect(&running, "holder").await;
    assert_eq!(holder.open("f", share_access::READ).await.delegation, OpenDelegation::None);
    running.stop().await;
}
