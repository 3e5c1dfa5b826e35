//! Delegations for writing: who works on a file alone need not say what it does, and everybody else gets to see it all
//! the same (RFC 8881 §10.4, RFC 9754).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Environment;
use nfs4::bits::{open_result, open_want, sequence_status, share_access, share_deny};
use nfs4::{
    Attribute, AttributeValues, Bitmap, CbRecallAnyArgs, CbRecallArgs, ClientId, DelegPurgeArgs,
    DelegReturnArgs, DelegationClaim, DelegationType, FileHandle, FreeStateIdArgs, GetDirDelegationArgs,
    LockTestArgs, LockType, NfsArgOp, NfsCbArgOp, NfsCbResOp, NfsResOp, NfsStatus, NfsTime, NoDelegation,
    OpenClaim, OpenDelegation, OpenHow, Outcome, ReclaimCompleteArgs, SpaceLimit, StableHow, StateId,
    WantDelegationArgs, WriteDelegation,
};
use nfs4_client::operations::{close, get_attributes, owner, put_handle, read, remove, rename, write};
use nfs4_client::{Callback, Config, OpenFile, Session};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::delegations::{give_back, make, open_handle, opened, opening, sized};
use crate::harness::{LEASE, Running, World, home, outcome};

/// What a holder does when it is called back.
#[derive(Default)]
struct Manner {
    /// What it says about its file; nothing: it knows of none.
    says: Mutex<Option<AttributeValues>>,
    /// How often it was asked.
    asked: AtomicUsize,
    /// How many delegations it was told to keep.
    keep: Mutex<Option<CbRecallAnyArgs>>,
    /// Whether it does not answer when asked.
    mute: Mutex<bool>,
}

struct Told {
    manner: Arc<Manner>,
    recalls: mpsc::UnboundedSender<CbRecallArgs>,
}

#[async_trait]
impl Callback for Told {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        match operation {
            NfsCbArgOp::Recall(recall) => {
                self.recalls.send(recall).unwrap();
                NfsCbResOp::Recall(NfsStatus::Ok)
            }
            NfsCbArgOp::GetAttr(args) => {
                assert_eq!(args.request, Attribute::set(&[Attribute::Change, Attribute::Size]));
                self.manner.asked.fetch_add(1, Ordering::SeqCst);
                if *self.manner.mute.lock() {
                    std::future::pending::<()>().await;
                }
                NfsCbResOp::GetAttr(match &*self.manner.says.lock() {
                    Some(values) => Outcome::Ok(values.to_fattr()),
                    None => Outcome::Err(NfsStatus::BadHandle),
                })
            }
            NfsCbArgOp::RecallAny(args) => {
                *self.manner.keep.lock() = Some(args);
                NfsCbResOp::RecallAny(NfsStatus::Ok)
            }
            other => NfsCbResOp::failure(other.op_code(), NfsStatus::NotSupp),
        }
    }
}

/// A client that is delegated files.
struct Holder {
    session: Session,
    root: FileHandle,
    manner: Arc<Manner>,
    recalls: mpsc::UnboundedReceiver<CbRecallArgs>,
}

impl Holder {
    async fn connect(running: &Running, name: &str) -> Holder {
        Holder::with(running, Config::new(name.to_owned(), [1; 8])).await
    }

    async fn with(running: &Running, config: Config) -> Holder {
        let (sender, recalls) = mpsc::unbounded_channel();
        let manner = Arc::<Manner>::default();
        let callback: Arc<dyn Callback> = Arc::new(Told { manner: manner.clone(), recalls: sender });
        let session = Session::connect(running.address, config, Some(callback)).await.unwrap();
        let root = home(&session).await;
        Holder { session, root, manner, recalls }
    }

    async fn open(&self, name: &str, access: u32) -> OpenFile {
        self.session.open(&self.root, name, access, OpenHow::NoCreate, owner("o")).await.unwrap()
    }

    /// Opens for reading and writing, which has to be delegated.
    async fn delegated(&self, name: &str) -> (OpenFile, StateId) {
        let file = self.open(name, share_access::BOTH).await;
        let id = writing(&file.delegation).state_id;
        (file, id)
    }

    fn says(&self, change: u64, size: u64) {
        let values = AttributeValues { change: Some(change), size: Some(size), ..AttributeValues::default() };
        *self.manner.says.lock() = Some(values);
    }

    fn asked(&self) -> usize {
        self.manner.asked.load(Ordering::SeqCst)
    }

    async fn give_back(&self, recall: &CbRecallArgs) -> NfsStatus {
        give_back(&self.session, &recall.file_handle, recall.state_id).await
    }

    fn is_left_alone(&mut self) -> bool {
        self.recalls.try_recv().is_err()
    }
}

fn writing(delegation: &OpenDelegation) -> &WriteDelegation {
    match delegation {
        OpenDelegation::Write(write) => write,
        other => panic!("{other:?} instead of a delegation for writing"),
    }
}

const SEEN: Bitmap =
    Attribute::set(&[Attribute::Change, Attribute::Size, Attribute::TimeModify, Attribute::TimeMetadata]);

async fn seen(session: &Session, file: &FileHandle) -> AttributeValues {
    session.attributes(file, SEEN).await.unwrap()
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[tokio::test]
async fn who_opens_a_file_alone_to_write_it_gets_it_delegated() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f", "g"]).await;
    let holder = Holder::connect(&running, "holder").await;
    for access in [share_access::WRITE, share_access::BOTH | share_access::WANT_WRITE_DELEG] {
        let file = holder.open("f", access).await;
        let given = writing(&file.delegation);
        assert!(!given.recall);
        assert_eq!(given.space_limit, SpaceLimit::Size(64 << 20));
        assert_eq!(give_back(&holder.session, &file.handle, given.state_id).await, NfsStatus::Ok);
        holder.session.close(&file).await.unwrap();
    }
    // A wish goes beyond the share.
    let file = holder.open("f", share_access::READ | share_access::WANT_WRITE_DELEG).await;
    writing(&file.delegation);
    let again = holder.open("f", share_access::READ | share_access::WANT_READ_DELEG).await;
    assert_eq!(again.delegation, OpenDelegation::NoneExt(NoDelegation::DOWNGRADE_NOT_SUPPORTED));

    let root = home(&maker).await;
    let open = maker.open(&root, "g", share_access::READ, OpenHow::NoCreate, owner("o")).await.unwrap();
    let wish = share_access::BOTH | share_access::WANT_ANY_DELEG;
    let contention = OpenDelegation::NoneExt(NoDelegation::Contention { will_push: false });
    assert_eq!(holder.open("g", wish).await.delegation, contention, "another client has it open");
    maker.close(&open).await.unwrap();
    writing(&holder.open("g", wish).await.delegation);
    running.stop().await;
}

#[tokio::test]
async fn nobody_gets_more_by_a_delegation_than_the_mode_bits_allow() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let handle = maker.lookup(&["home", "f"]).await.unwrap();
    let set = AttributeValues { mode: Some(0o602), ..AttributeValues::default() };
    maker.set_attributes(&handle, StateId::ANONYMOUS, &set).await.unwrap();
    let holder = Holder::connect(&running, "holder").await;
    let user = holder.session.with_credential(onc_rpc::Credential::Sys(onc_rpc::AuthSys {
        uid: 1000,
        gid: 1000,
        ..onc_rpc::AuthSys::default()
    }));
    let access = share_access::WRITE | share_access::WANT_WRITE_DELEG;
    let file = user.open(&holder.root, "f", access, OpenHow::NoCreate, owner("u")).await.unwrap();
    let resource = OpenDelegation::NoneExt(NoDelegation::Resource { will_signal: false });
    assert_eq!(file.delegation, resource, "he may not read it");
    running.stop().await;
}

#[tokio::test]
async fn whatever_another_client_does_with_the_file_it_sees_all_that_the_holder_has_written() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f", "there"]).await;
    let root = home(&maker).await;
    let f = maker.lookup(&["home", "f"]).await.unwrap();
    let mut holder = Holder::connect(&running, "holder").await;
    let opens = |access| vec![put_handle(&root), opening("f", access, 0, OpenHow::NoCreate)];
    let test = NfsArgOp::LockTest(LockTestArgs {
        lock_type: LockType::Write,
        offset: 0,
        length: 1,
        owner: owner("l"),
    });
    let mode = AttributeValues { mode: Some(0o640), ..AttributeValues::default() };
    let set =
        |values| vec![put_handle(&f), nfs4_client::operations::set_attributes(StateId::ANONYMOUS, &values)];
    let requests = [
        opens(share_access::READ),
        opens(share_access::WRITE),
        vec![put_handle(&f), read(StateId::ANONYMOUS, 0, 9)],
        vec![put_handle(&f), read(StateId::READ_BYPASS, 0, 9)],
        vec![put_handle(&f), write(StateId::ANONYMOUS, 0, StableHow::FileSync, bytes("x"))],
        vec![put_handle(&f), test],
        set(sized(9)),
        set(mode),
        vec![put_handle(&root), NfsArgOp::SaveFh, rename("f", "f2")],
        vec![put_handle(&root), NfsArgOp::SaveFh, rename("there", "f2")],
        vec![put_handle(&root), remove("f2")],
    ];
    let there = maker.lookup(&["home", "there"]).await.unwrap();
    for (number, request) in requests.into_iter().enumerate() {
        // So that the last conflict is forgotten.
        world.clock.advance(Duration::from_secs(31));
        maker.renew().await.unwrap();
        let handle = if number == 10 { &there } else { &f };
        let by_handle = open_handle(OpenClaim::FileHandle, share_access::BOTH);
        let results = holder.session.execute(&[put_handle(handle), by_handle]).await.unwrap();
        let given = opened(&results).unwrap();
        let id = writing(&given.delegation).state_id;
        holder.session.execute(&[put_handle(handle), close(given.state_id)]).await.unwrap();

        let session = maker.clone();
        let done = tokio::spawn(async move { session.execute(&request).await });
        let recall = holder.recalls.recv().await.unwrap();
        assert_eq!((recall.state_id, &recall.file_handle), (id, handle), "request {number}");
        let flush = [put_handle(handle), write(id, 0, StableHow::FileSync, bytes("flushed"))];
        assert_eq!(outcome(&holder.session, &flush).await, (NfsStatus::Ok, 2), "request {number}");
        assert!(!done.is_finished(), "request {number}");
        assert_eq!(holder.give_back(&recall).await, NfsStatus::Ok);
        let results = done.await.unwrap().unwrap_or_else(|error| panic!("request {number}: {error}"));
        if let Some(NfsResOp::Read(Outcome::Ok(read))) = results.last() {
            assert_eq!(read.data.clone().into_bytes(), "flushed");
        }
        assert!(holder.is_left_alone(), "request {number}");
        if let Some(made) = opened(&results) {
            maker.execute(&[put_handle(handle), close(made.state_id)]).await.unwrap();
        }
    }
    assert_eq!((running.server.metrics().census.delegations, holder.asked()), (0, 0));
    running.stop().await;
}

#[tokio::test]
async fn the_holder_is_asked_for_size_and_change_and_keeps_its_delegation() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let mut holder = Holder::connect(&running, "holder").await;
    let (file, id) = holder.delegated("f").await;
    let before = seen(&holder.session, &file.handle).await;
    let change = before.change.unwrap();
    assert_eq!(holder.asked(), 0, "the holder itself");

    holder.says(change, 4);
    assert_eq!(seen(&maker, &file.handle).await, before, "it has changed nothing");
    assert_eq!(holder.asked(), 1);

    world.clock.advance(Duration::from_secs(1));
    holder.says(change + 1, 9);
    let during = seen(&maker, &file.handle).await;
    assert_eq!(during.size, Some(9));
    assert!(during.change > before.change && during.time_modify > before.time_modify);
    assert_eq!(during.time_metadata, during.time_modify);
    assert_eq!(seen(&maker, &file.handle).await, during, "the same again is no news");
    holder.says(change + 1, 12);
    let later = seen(&maker, &file.handle).await;
    assert_eq!(later.size, Some(12));
    assert!(later.change > during.change);
    assert_eq!(holder.asked(), 4);

    // A listing asks nobody, and says what was said.
    for (session, size) in [(&maker, 12), (&holder.session, 4)] {
        let root = home(session).await;
        let entries = session.read_directory(&root, SEEN).await.unwrap();
        let listed = entries.iter().find(|entry| entry.name.as_ref() == b"f").unwrap();
        assert_eq!(listed.attributes.values().unwrap().size, Some(size));
    }

    // What is not among it is answered without a question, and so is a directory.
    maker.attributes(&file.handle, Bitmap::EMPTY.with(Attribute::Mode)).await.unwrap();
    seen(&maker, &home(&maker).await).await;
    assert_eq!(holder.asked(), 4);

    // The holder loses what it wrote: nothing goes backwards but the size.
    assert_eq!(give_back(&holder.session, &file.handle, id).await, NfsStatus::Ok);
    let after = seen(&maker, &file.handle).await;
    assert_eq!(after.size, Some(4));
    assert!(after.change >= later.change && after.time_modify >= later.time_modify);
    assert!(holder.is_left_alone(), "nothing was recalled");
    running.stop().await;
}

#[tokio::test]
async fn a_request_that_looks_at_many_files_causes_one_question_of_each() {
    let world = World::new().await;
    let running = world.start().await;
    let names: Vec<String> = (0..80).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let maker = make(&running, &names).await;
    let holder = Holder::connect(&running, "holder").await;
    holder.says(1, 77);
    let mut look = Vec::new();
    for name in &names {
        let (file, _) = holder.delegated(name).await;
        // Twice in one request, which is once.
        look.extend([put_handle(&file.handle), get_attributes(SEEN), get_attributes(SEEN)]);
    }
    let results = maker.execute(&look).await.unwrap();
    let sizes = results.iter().filter_map(|result| match result {
        NfsResOp::GetAttr(Outcome::Ok(values)) => values.values().unwrap().size,
        _ => None,
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [77; 160]);
    assert_eq!(holder.asked(), 80, "one question of each");
    running.stop().await;
}

#[tokio::test]
async fn a_holder_that_does_not_answer_has_the_delegation_recalled() {
    for mute in [false, true] {
        let world = World::new().await;
        let running = world.start().await;
        let maker = make(&running, &["f"]).await;
        let mut holder = Holder::connect(&running, "holder").await;
        let (file, _) = holder.delegated("f").await;
        *holder.manner.mute.lock() = mute;
        let look = [put_handle(&file.handle), get_attributes(SEEN)];
        let (session, request) = (maker.clone(), look.clone());
        let first = tokio::spawn(async move { outcome(&session, &request).await });
        while !first.is_finished() {
            world.clock.advance(Duration::from_millis(10));
            tokio::task::yield_now().await;
        }
        assert_eq!(first.await.unwrap(), (NfsStatus::Delay, 2), "PUTFH was done");
        let recall = holder.recalls.recv().await.unwrap();
        assert_eq!(holder.give_back(&recall).await, NfsStatus::Ok);
        assert_eq!(outcome(&maker, &look).await, (NfsStatus::Ok, 2));
        assert_eq!(holder.asked(), 1);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_loses_a_delegation_for_writing_may_not_reclaim_it() {
    for takes_notice in [false, true] {
        let world = World::new().await;
        let running = world.start().await;
        let maker = make(&running, &["f"]).await;
        let mut holder = Holder::connect(&running, "holder").await;
        let (file, id) = holder.delegated("f").await;
        let change =
            [put_handle(&home(&maker).await), opening("f", share_access::WRITE, 0, OpenHow::NoCreate)];
        let (session, request) = (maker.clone(), change.clone());
        let first = tokio::spawn(async move { outcome(&session, &request).await });
        holder.recalls.recv().await.unwrap();
        while !first.is_finished() {
            world.clock.advance(Duration::from_millis(10));
            tokio::task::yield_now().await;
        }
        for _ in 0..2 {
            world.clock.advance(LEASE / 2 + Duration::from_secs(1));
            holder.session.renew().await.unwrap();
            maker.renew().await.unwrap();
        }
        assert_eq!(outcome(&maker, &change).await, (NfsStatus::Ok, 2));
        let flush = [put_handle(&file.handle), write(id, 0, StableHow::FileSync, bytes("late"))];
        assert_eq!(outcome(&holder.session, &flush).await, (NfsStatus::DelegRevoked, 2));
        let flags = holder.session.renew().await.unwrap();
        assert_ne!(flags & sequence_status::RECALLABLE_STATE_REVOKED, 0);
        if takes_notice {
            let free = NfsArgOp::FreeStateId(FreeStateIdArgs { state_id: id });
            assert_eq!(outcome(&holder.session, &[free]).await.0, NfsStatus::Ok);
        }
        running.stop().await;

        let running = world.start().await;
        let config = Config { reclaim_complete: false, ..Config::new("holder", [1; 8]) };
        let holder = Holder::with(&running, config).await;
        let previous = OpenClaim::Previous(DelegationType::None);
        let reclaim = [put_handle(&file.handle), open_handle(previous, share_access::READ)];
        let expected = if takes_notice { NfsStatus::Ok } else { NfsStatus::NoGrace };
        assert_eq!(outcome(&holder.session, &reclaim).await.0, expected);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_delegation_for_writing_is_reclaimed_after_a_restart_to_be_returned() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let holder = Holder::connect(&running, "holder").await;
    let (file, _) = holder.delegated("f").await;
    maker.destroy_client().await.unwrap();
    running.stop().await;

    let running = world.start().await;
    let config = Config { reclaim_complete: false, ..Config::new("holder", [1; 8]) };
    let holder = Holder::with(&running, config).await;
    let previous = OpenClaim::Previous(DelegationType::Write);
    let reclaim = [put_handle(&file.handle), open_handle(previous, share_access::BOTH)];
    let results = holder.session.execute(&reclaim).await.unwrap();
    let reclaimed = writing(&opened(&results).unwrap().delegation).clone();
    assert!(reclaimed.recall, "it may have been wanted back before, and nobody remembers");
    let want = NfsArgOp::WantDelegation(WantDelegationArgs {
        want: 0,
        claim: DelegationClaim::Previous(DelegationType::Write),
    });
    let results = holder.session.execute(&[put_handle(&file.handle), want]).await.unwrap();
    let Some(NfsResOp::WantDelegation(Outcome::Ok(again))) = results.last() else { panic!("{results:?}") };
    assert_eq!(writing(again), &reclaimed, "by the other operation, too");
    let complete = NfsArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    assert_eq!(outcome(&holder.session, &[complete]).await.0, NfsStatus::Ok);

    let maker = running.client("maker").await;
    let look = [put_handle(&home(&maker).await), opening("f", share_access::READ, 0, OpenHow::NoCreate)];
    let looked = tokio::spawn(async move { maker.execute(&look).await.unwrap() });
    let id = reclaimed.state_id;
    let flush = [put_handle(&file.handle), write(id, 0, StableHow::FileSync, bytes("kept"))];
    assert_eq!(outcome(&holder.session, &flush).await, (NfsStatus::Ok, 2));
    assert_eq!(give_back(&holder.session, &file.handle, id).await, NfsStatus::Ok);
    looked.await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_delegation_is_not_given_up_before_others_can_see_what_was_written_under_it() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let mut holder = Holder::connect(&running, "holder").await;
    let (file, id) = holder.delegated("f").await;
    holder.session.close(&file).await.unwrap();
    let commits = world.home.hold_visible_commits();
    let request = [
        put_handle(&file.handle),
        write(id, 0, StableHow::Unstable, bytes("news")),
        NfsArgOp::DelegReturn(DelegReturnArgs { state_id: id }),
    ];
    let look = [put_handle(&home(&maker).await), opening("f", share_access::READ, 0, OpenHow::NoCreate)];
    let (writer, ()) = tokio::join!(outcome(&holder.session, &request), async {
        commits.arrival().await;
        let mut looking = std::pin::pin!(outcome(&maker, &look));
        tokio::select! {
            _ = &mut looking => panic!("it is open, and the file is as it was"),
            recall = holder.recalls.recv() => assert_eq!(recall.unwrap().state_id, id),
        }
        commits.open();
        assert_eq!(looking.await, (NfsStatus::Ok, 2));
    });
    assert_eq!(writer, (NfsStatus::Ok, 3));
    running.stop().await;
}

#[tokio::test]
async fn files_that_were_opened_by_the_delegation_are_opened_here_before_it_is_returned() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let root = home(&maker).await;
    let mut holder = Holder::connect(&running, "holder").await;
    let (file, id) = holder.delegated("f").await;
    let change = [put_handle(&root), opening("f", share_access::READ, share_deny::WRITE, OpenHow::NoCreate)];
    let session = maker.clone();
    let refused = tokio::spawn(async move { outcome(&session, &change).await });
    // The holder closes what it opened here, and has another one open that it did not speak of.
    holder.session.close(&file).await.unwrap();
    let recall = holder.recalls.recv().await.unwrap();
    let claim = OpenClaim::DelegateCurrent { state_id: id, file: "f".into() };
    let results = holder.session.execute(&[put_handle(&root), open_handle(claim, share_access::BOTH)]).await;
    assert_eq!(opened(&results.unwrap()).unwrap().delegation, OpenDelegation::None);
    assert_eq!(holder.give_back(&recall).await, NfsStatus::Ok);
    assert_eq!(refused.await.unwrap(), (NfsStatus::ShareDenied, 2));
    running.stop().await;
}

#[tokio::test]
async fn an_open_or_a_delegation_but_not_both_if_the_client_wants_that() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let holder = Holder::connect(&running, "holder").await;
    let access = share_access::BOTH | share_access::WANT_OPEN_XOR_DELEGATION;
    let open = |deny| [put_handle(&holder.root), opening("f", access, deny, OpenHow::NoCreate)];
    let read_all = read(StateId::CURRENT, 0, 9);
    let request = [open(share_deny::NONE).to_vec(), vec![read_all]].concat();
    let results = holder.session.execute(&request).await.unwrap();
    let first = opened(&results).unwrap().clone();
    let id = writing(&first.delegation).state_id;
    assert_eq!(first.flags & open_result::NO_OPEN_STATE_ID, open_result::NO_OPEN_STATE_ID);
    assert_eq!(first.state_id, StateId::ANONYMOUS);
    assert_eq!(running.server.metrics().census.opens, 0);
    let f = holder.session.lookup(&["home", "f"]).await.unwrap();
    let flush = [put_handle(&f), write(id, 0, StableHow::FileSync, bytes("x")), read(id, 0, 9)];
    assert_eq!(outcome(&holder.session, &flush).await, (NfsStatus::Ok, 3));

    // It has the delegation already: an open it is.
    let results = holder.session.execute(&open(share_deny::NONE)).await.unwrap();
    let second = opened(&results).unwrap().clone();
    assert_eq!(
        (second.flags & open_result::NO_OPEN_STATE_ID, &second.delegation),
        (0, &OpenDelegation::None)
    );
    give_back(&holder.session, &f, id).await;
    // What it has open stays.
    let results = holder.session.execute(&open(share_deny::NONE)).await.unwrap();
    let third = opened(&results).unwrap().clone();
    assert_eq!(third.flags & open_result::NO_OPEN_STATE_ID, 0);
    assert_eq!((third.state_id.other, third.state_id.seqid), (second.state_id.other, 2));
    give_back(&holder.session, &f, writing(&third.delegation).state_id).await;
    holder.session.execute(&[put_handle(&f), close(third.state_id)]).await.unwrap();
    // A delegation says nothing of what others may not.
    let results = holder.session.execute(&open(share_deny::WRITE)).await.unwrap();
    assert_eq!(opened(&results).unwrap().flags & open_result::NO_OPEN_STATE_ID, 0);
    running.stop().await;
}

#[tokio::test]
async fn what_is_removed_while_it_is_delegated_lives_until_it_is_returned() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let holder = Holder::connect(&running, "holder").await;
    let (file, id) = holder.delegated("f").await;
    holder.session.close(&file).await.unwrap();
    holder.session.remove(&holder.root, "f").await.unwrap();
    let work = [put_handle(&file.handle), write(id, 0, StableHow::FileSync, bytes("x")), read(id, 0, 9)];
    assert_eq!(outcome(&holder.session, &work).await, (NfsStatus::Ok, 3));
    assert_eq!(give_back(&holder.session, &file.handle, id).await, NfsStatus::Ok);
    assert_eq!(
        outcome(&holder.session, &[put_handle(&file.handle), get_attributes(SEEN)]).await.0,
        NfsStatus::Stale
    );
    running.stop().await;
}

#[tokio::test]
async fn delegations_are_wanted_without_an_open() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let mut holder = Holder::connect(&running, "holder").await;
    let f = maker.lookup(&["home", "f"]).await.unwrap();
    let want = |handle: &FileHandle, want| {
        let claim = DelegationClaim::FileHandle;
        [put_handle(handle), NfsArgOp::WantDelegation(WantDelegationArgs { want, claim })]
    };
    let wanted = async |handle: &FileHandle, wish| {
        let results = holder.session.execute(&want(handle, wish)).await.unwrap();
        match results.last() {
            Some(NfsResOp::WantDelegation(Outcome::Ok(delegation))) => delegation.clone(),
            other => panic!("{other:?}"),
        }
    };
    let is_directory = OpenDelegation::NoneExt(NoDelegation::IS_DIRECTORY);
    let pseudo_root = holder.session.lookup(&[]).await.unwrap();
    assert_eq!(wanted(&holder.root, share_access::WANT_READ_DELEG).await, is_directory);
    assert_eq!(wanted(&pseudo_root, share_access::WANT_READ_DELEG).await, is_directory);
    let OpenDelegation::Read(given) = wanted(&f, share_access::WANT_ANY_DELEG).await else { panic!("none") };
    let upgrade = OpenDelegation::NoneExt(NoDelegation::UPGRADE_NOT_SUPPORTED);
    assert_eq!(wanted(&f, share_access::WANT_WRITE_DELEG).await, upgrade);
    give_back(&holder.session, &f, given.state_id).await;
    let cancelled = OpenDelegation::NoneExt(NoDelegation::CANCELLED);
    assert_eq!(wanted(&f, share_access::WANT_CANCEL).await, cancelled);
    let id = writing(&wanted(&f, share_access::WANT_WRITE_DELEG).await).state_id;
    for bad in [0, share_access::READ | share_access::WANT_READ_DELEG] {
        assert_eq!(outcome(&holder.session, &want(&f, bad)).await.0, NfsStatus::Inval);
    }
    let claim = DelegationClaim::DelegatePreviousFileHandle;
    let former = NfsArgOp::WantDelegation(WantDelegationArgs { want: share_access::WANT_READ_DELEG, claim });
    assert_eq!(outcome(&holder.session, &[put_handle(&f), former]).await.0, NfsStatus::NotSupp);

    let root = home(&maker).await;
    let looked = tokio::spawn(async move {
        maker.open(&root, "f", share_access::READ, OpenHow::NoCreate, owner("o")).await.unwrap()
    });
    let recall = holder.recalls.recv().await.unwrap();
    assert_eq!(recall.state_id, id);
    holder.give_back(&recall).await;
    looked.await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn who_has_nearly_too_many_delegations_is_asked_for_some_of_them() {
    let limits = nfs4_server::Limits { delegations_per_client: 8, ..nfs4_server::Limits::default() };
    let world = World { limits, ..World::new().await };
    let running = world.start().await;
    let names: Vec<String> = (0..8).map(|number| format!("f{number}")).collect();
    let _maker = make(&running, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut holder = Holder::connect(&running, "holder").await;
    for name in &names {
        holder.delegated(name).await;
    }
    while holder.manner.keep.lock().is_none() {
        holder.session.renew().await.unwrap();
    }
    let args = holder.manner.keep.lock().unwrap();
    assert_eq!((args.objects_to_keep, args.type_mask), (4, Bitmap::of(&[0, 1])));
    assert!(holder.is_left_alone(), "which ones is its choice");
    running.stop().await;
}

#[tokio::test]
async fn what_open_takes_is_told() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("c").await;
    let asked = Bitmap::EMPTY.with(Attribute::OpenArguments);
    for path in [&[][..], &["home"]] {
        let handle = session.lookup(path).await.unwrap();
        let told = session.attributes(&handle, asked).await.unwrap().open_arguments.unwrap();
        let xor = open_want::OPEN_XOR_DELEGATION;
        assert_eq!(
            told.wants,
            Bitmap::of(&[open_want::ANY_DELEG, open_want::NO_DELEG, open_want::CANCEL, xor])
        );
        assert_eq!(told.share_access, Bitmap::of(&[1, 2, 3]));
        assert_eq!(told.share_deny, Bitmap::of(&[0, 1, 2, 3]));
        assert_eq!(told.claims, Bitmap::of(&[0, 1, 2, 4, 5]), "as CLAIM_DELEGATE_PREV is not taken");
        assert_eq!(told.create_modes, Bitmap::of(&[0, 1, 2, 3]));
    }
    running.stop().await;
}

#[tokio::test]
async fn directories_are_not_delegated_and_nothing_survives_a_restart_of_the_client() {
    let world = World::new().await;
    let running = world.start().await;
    let holder = Holder::connect(&running, "holder").await;
    let purge = NfsArgOp::DelegPurge(DelegPurgeArgs { client: ClientId(0) });
    assert_eq!(outcome(&holder.session, &[purge]).await.0, NfsStatus::NotSupp);
    let delay = NfsTime { seconds: 0, nanoseconds: 0 };
    let directory = NfsArgOp::GetDirDelegation(GetDirDelegationArgs {
        signal_available: false,
        notification_types: Bitmap::EMPTY,
        child_attribute_delay: delay,
        directory_attribute_delay: delay,
        child_attributes: Bitmap::EMPTY,
        directory_attributes: Bitmap::EMPTY,
    });
    let request = [put_handle(&holder.root), directory];
    assert_eq!(outcome(&holder.session, &request).await, (NfsStatus::NotSupp, 2));
    running.stop().await;
}

/// Five requests at the same time open all the files; `access` is what it opens them for, and they are delegated for writing or reading. Says
/// how long it took by the clock on the wall, which proves nothing.
async fn opens_of_a_thousand(delegated: u32, access: u32) -> Duration {
    const FILES: usize = 1000;
    const REQUESTS: usize = 5;
    let world = World::new().await;
    let running = world.start().await;
    let names: Vec<String> = (0..FILES).map(|number| format!("f{number}")).collect();
    make(&running, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let opener = running.connect(Config { operations: 2048, ..Config::new("opener", [1; 8]) }).await;
    let mut holder = Holder::connect(&running, "holder").await;
    for name in &names {
        let file = holder.open(name, delegated).await;
        assert!(!matches!(file.delegation, OpenDelegation::None), "{name}");
        holder.session.close(&file).await.unwrap();
    }
    let root = home(&opener).await;
    let clock = Environment::real().clock;
    let started = clock.monotonic();
    let requests = names.chunks(FILES / REQUESTS).map(|names| {
        let open = |name: &String| [put_handle(&root), opening(name, access, 0, OpenHow::NoCreate)];
        let (request, session) = (names.iter().flat_map(open).collect::<Vec<_>>(), opener.clone());
        tokio::spawn(async move { outcome(&session, &request).await })
    });
    let requests: Vec<_> = requests.collect();
    // Not one delegation is returned before all are wanted back: no recall waits for another.
    let mut recalls = Vec::new();
    while recalls.len() < FILES {
        recalls.push(holder.recalls.recv().await.unwrap());
    }
    assert!(requests.iter().all(|request| !request.is_finished()));
    for recall in &recalls {
        assert_eq!(holder.give_back(recall).await, NfsStatus::Ok);
    }
    for request in requests {
        assert_eq!(request.await.unwrap(), (NfsStatus::Ok, 2 * FILES / REQUESTS), "without one delay");
    }
    let took = clock.monotonic() - started;
    assert!(holder.is_left_alone(), "one recall of each");
    let metrics = running.server.metrics();
    assert_eq!((metrics.census.delegations, metrics.census.opens), (0, FILES));
    running.stop().await;
    took
}

#[tokio::test]
#[allow(clippy::print_stdout)] // a measurement beside the proof
async fn a_thousand_delegated_files_are_opened_at_once_and_no_recall_waits_for_another() {
    for (name, delegated, access) in [
        ("delegated to read, opened to write", share_access::READ, share_access::WRITE),
        ("delegated to write, opened to read", share_access::BOTH, share_access::READ),
    ] {
        println!("1,000 files {name}: {:?}", opens_of_a_thousand(delegated, access).await);
    }
}
