//! Copies that go on after their COPY was answered (RFC 7862 §4, §15.2, §15.8, §15.9, §16.1).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nfs4::bits::{share_access, share_deny};
use nfs4::{
    AllocateArgs, CbOffloadArgs, CopyArgs, CopyOk, CopyRes, DestroyClientIdArgs, FileHandle, NfsArgOp,
    NfsCbArgOp, NfsCbResOp, NfsResOp, NfsStatus, OffloadArgs, OffloadInfo, OffloadStatusOk, OpenDelegation,
    OpenHow, Outcome, StableHow, StateId, TestStateIdArgs, WriteResponse,
};
use nfs4_client::operations::{owner, put_handle, remove, set_attributes};
use nfs4_client::{Callback, Config, OpenFile, Session};
use nfs4_server::{Export, ExportOptions, Limits};
use tokio::sync::{mpsc, oneshot};

use crate::delegations::{opening, sized};
use crate::harness::{LEASE, Running, World, home, outcome, statuses};

const MIB: u64 = 1 << 20;

/// What one transaction moves.
const PIECE: u64 = 4 * MIB;

/// How a copy ended, and how to answer that.
struct Told {
    args: CbOffloadArgs,
    answer: oneshot::Sender<NfsStatus>,
}

impl Told {
    /// The bytes that were copied, if it went well.
    fn count(&self) -> u64 {
        match self.args.info {
            OffloadInfo::Ok(WriteResponse {
                callback_id: None,
                count,
                committed: StableHow::FileSync,
                ..
            }) => count,
            other => panic!("{other:?}"),
        }
    }

    fn failed(&self) -> (NfsStatus, u64) {
        match self.args.info {
            OffloadInfo::Failed { status, bytes_copied } => (status, bytes_copied),
            other => panic!("{other:?}"),
        }
    }

    fn answer(self, status: NfsStatus) {
        let _ = self.answer.send(status); // the connection may be gone
    }
}

struct Listener(mpsc::UnboundedSender<Told>);

#[async_trait]
impl Callback for Listener {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        match operation {
            NfsCbArgOp::Offload(args) => {
                let (answer, answered) = oneshot::channel();
                let _ = self.0.send(Told { args, answer }); // the test may be over
                NfsCbResOp::Offload(answered.await.unwrap_or(NfsStatus::Ok))
            }
            other => NfsCbResOp::failure(other.op_code(), NfsStatus::NotSupp),
        }
    }
}

/// A client that can be told how its copies end.
struct Copier {
    session: Session,
    root: FileHandle,
    told: mpsc::UnboundedReceiver<Told>,
}

fn content(length: u64) -> Vec<u8> {
    (0..length).map(|at| (at % 251 + at / PIECE) as u8).collect()
}

impl Copier {
    async fn connect(running: &Running, name: &str) -> Copier {
        let (sender, told) = mpsc::unbounded_channel();
        let callback: Arc<dyn Callback> = Arc::new(Listener(sender));
        let config = Config::new(name.to_owned(), [1; 8]);
        let session = Session::connect(running.address, config, Some(callback)).await.unwrap();
        let root = home(&session).await;
        Copier { session, root, told }
    }

    /// A file of so many bytes.
    async fn source(&self, length: u64) -> OpenFile {
        let file = self.session.create(&self.root, "from", 0o666).await.unwrap();
        let data = Bytes::from(content(length));
        for at in (0..length).step_by(PIECE as usize) {
            let part = data.slice(at as usize..(at + PIECE).min(length) as usize);
            self.session.write(&file, at, StableHow::Unstable, part).await.unwrap();
        }
        file
    }

    async fn target(&self, name: &str) -> OpenFile {
        self.session.create(&self.root, name.to_owned(), 0o666).await.unwrap()
    }

    /// To where no block of it can be shared, and in the background if that is all right.
    async fn copy(&self, from: &OpenFile, to: &OpenFile) -> CopyOk {
        self.copy_as(from, to, |args| CopyArgs { destination_offset: 1, ..args }).await
    }

    async fn copy_as(&self, from: &OpenFile, to: &OpenFile, change: impl Fn(CopyArgs) -> CopyArgs) -> CopyOk {
        let results = self.session.execute(&request(from, to, change)).await.unwrap();
        copied(&results)
    }

    /// A copy in the background.
    async fn begin(&self, from: &OpenFile, to: &OpenFile) -> StateId {
        let begun = self.copy(from, to).await;
        assert!(begun.requirements.consecutive && !begun.requirements.synchronous);
        assert_eq!(begun.response.count, 0);
        begun.response.callback_id.unwrap()
    }

    async fn status(&self, to: &OpenFile, state_id: StateId) -> Result<OffloadStatusOk, NfsStatus> {
        let status = NfsArgOp::OffloadStatus(OffloadArgs { state_id });
        let reply = self.session.compound(&[put_handle(&to.handle), status]).await.unwrap();
        match reply.results.last() {
            Some(NfsResOp::OffloadStatus(Outcome::Ok(status))) => Ok(*status),
            _ => Err(reply.status),
        }
    }

    async fn cancel(&self, to: &OpenFile, state_id: StateId) -> NfsStatus {
        cancel(&self.session, to, state_id).await
    }

    async fn content(&self, file: &OpenFile) -> Vec<u8> {
        let mut content = Vec::new();
        loop {
            let part = self.session.read(file, content.len() as u64, 4 << 20).await.unwrap();
            content.extend_from_slice(&part.data.into_bytes());
            if part.eof {
                return content;
            }
        }
    }

    /// Waits until no copy of anybody goes on.
    async fn settle(&self, running: &Running) {
        while running.server.metrics().census.offloads > 0 {
            self.session.renew().await.unwrap();
        }
    }
}

fn request(from: &OpenFile, to: &OpenFile, change: impl Fn(CopyArgs) -> CopyArgs) -> [NfsArgOp; 4] {
    let args = CopyArgs {
        source_state_id: from.state_id,
        destination_state_id: to.state_id,
        source_offset: 0,
        destination_offset: 0,
        count: 0,
        consecutive: true,
        synchronous: false,
        source_servers: Vec::new(),
    };
    [put_handle(&from.handle), NfsArgOp::SaveFh, put_handle(&to.handle), NfsArgOp::Copy(change(args))]
}

fn copied(results: &[NfsResOp]) -> CopyOk {
    match results.last() {
        Some(NfsResOp::Copy(CopyRes::Ok(copied))) => *copied,
        other => panic!("{other:?}"),
    }
}

async fn cancel(session: &Session, to: &OpenFile, state_id: StateId) -> NfsStatus {
    let cancel = NfsArgOp::OffloadCancel(OffloadArgs { state_id });
    outcome(session, &[put_handle(&to.handle), cancel]).await.0
}

fn progress(count: u64, complete: Option<NfsStatus>) -> Result<OffloadStatusOk, NfsStatus> {
    Ok(OffloadStatusOk { count, complete })
}

#[tokio::test]
async fn a_long_copy_goes_on_by_itself_and_its_client_is_told_how_it_ends() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let length = 2 * PIECE + 7;
    let from = copier.source(length).await;
    let other = copier.session.lookup(&["other"]).await.unwrap();
    let far = copier.session.create(&other, "far", 0o644).await.unwrap();
    for to in [copier.target("to").await, far] {
        let reads = world.home.hold_reads();
        let id = copier.begin(&from, &to).await;
        reads.arrival().await;
        assert_eq!(copier.status(&to, id).await, progress(0, None));
        reads.let_through(1);
        reads.arrival().await;
        assert_eq!(copier.status(&to, id).await, progress(PIECE, None));
        assert_eq!(running.server.metrics().census.offloads, 1);
        assert_eq!(running.server.client(copier.session.client_id()).unwrap().copies, 1);
        let test = NfsArgOp::TestStateId(TestStateIdArgs { state_ids: vec![id] });
        let results = copier.session.execute(&[test]).await.unwrap();
        assert_eq!(results, [NfsResOp::TestStateId(Outcome::Ok(vec![NfsStatus::Ok]))]);
        reads.open();
        let told = copier.told.recv().await.unwrap();
        assert_eq!((told.args.state_id, &told.args.file_handle), (id, &to.handle));
        assert_eq!(told.count(), length);
        assert_eq!(copier.status(&to, id).await, progress(length, Some(NfsStatus::Ok)), "not answered yet");
        told.answer(NfsStatus::Ok);
        while copier.status(&to, id).await.is_ok() {}
        assert_eq!(copier.status(&to, id).await, Err(NfsStatus::BadStateId));
        assert_eq!(copier.cancel(&to, id).await, NfsStatus::BadStateId);
        assert!(copier.content(&to).await[1..] == content(length));
    }
    let metrics = running.server.metrics();
    assert_eq!((metrics.counts.offloads_done, metrics.counts.offloads_failed), (2, 0));
    running.stop().await;
}

#[tokio::test]
async fn what_is_short_or_shared_or_wanted_at_once_is_done_when_it_is_answered() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let length = 3 * PIECE;
    let (from, to) = (copier.source(length).await, copier.target("to").await);
    let short = |args| CopyArgs { destination_offset: 1, count: PIECE, ..args };
    let at_once = |args| CopyArgs { destination_offset: 1, synchronous: true, ..args };
    let changes: [(&dyn Fn(CopyArgs) -> CopyArgs, u64); 3] =
        [(&short, PIECE), (&|args| args, length), (&at_once, PIECE)];
    for (change, count) in changes {
        let done = copier.copy_as(&from, &to, change).await;
        assert_eq!((done.response.callback_id, done.response.count), (None, count));
        assert!(done.requirements.synchronous && done.response.committed == StableHow::FileSync);
    }
    // Long, but nearly nothing in it.
    let all = AllocateArgs { state_id: to.state_id, offset: 0, length: 1 << 40 };
    let sparse = copier.target("sparse").await;
    let all = AllocateArgs { state_id: sparse.state_id, ..all };
    copier.session.execute(&[put_handle(&sparse.handle), NfsArgOp::Allocate(all)]).await.unwrap();
    assert_eq!(copier.copy(&sparse, &to).await.response.count, 1 << 40);
    // Who cannot be told gets it in pieces.
    let deaf = running.client("deaf").await;
    let [from, to] = ["from", "to"].map(|name| {
        let (deaf, root) = (deaf.clone(), copier.root.clone());
        async move { deaf.open(&root, name, share_access::BOTH, OpenHow::NoCreate, owner("o")).await.unwrap() }
    });
    let change = |args| CopyArgs { destination_offset: 1, ..args };
    let done = copied(&deaf.execute(&request(&from.await, &to.await, change)).await.unwrap());
    assert_eq!((done.response.callback_id, done.response.count), (None, PIECE));
    assert!(copier.told.try_recv().is_err());
    assert_eq!(running.server.metrics().counts.offloads_done, 0);
    running.stop().await;
}

#[tokio::test]
async fn a_copy_that_is_cancelled_changes_nothing_any_more_and_is_not_told_of() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let from = copier.source(3 * PIECE).await;

    // While it reads.
    let to = copier.target("reading").await;
    let reads = world.home.hold_reads();
    let id = copier.begin(&from, &to).await;
    reads.arrival().await;
    reads.let_through(1);
    reads.arrival().await;
    assert_eq!(copier.cancel(&to, id).await, NfsStatus::Ok);
    assert_eq!(running.server.metrics().census.offloads, 0);
    reads.open();
    assert_eq!(copier.status(&to, id).await, Err(NfsStatus::BadStateId));
    assert_eq!(copier.content(&to).await.len() as u64, 1 + PIECE);

    // While it commits: the answer waits for that.
    let to = copier.target("committing").await;
    let commits = world.home.hold_visible_commits();
    let id = copier.begin(&from, &to).await;
    commits.arrival().await;
    let cancelling = {
        let (session, to) = (copier.session.clone(), to.clone());
        tokio::spawn(async move { cancel(&session, &to, id).await })
    };
    while running.server.client(copier.session.client_id()).unwrap().busy_slots == 0 {
        tokio::task::yield_now().await;
    }
    commits.open();
    assert_eq!(cancelling.await.unwrap(), NfsStatus::Ok);
    assert_eq!(running.server.metrics().census.offloads, 0);
    assert_eq!(copier.status(&to, id).await, Err(NfsStatus::BadStateId));
    assert_eq!(copier.content(&to).await.len() as u64, 1 + PIECE);

    // After it has ended, and before that is answered.
    let to = copier.target("ended").await;
    let id = copier.begin(&from, &to).await;
    let told = copier.told.recv().await.unwrap();
    assert_eq!(told.args.state_id, id, "nothing was said of the others");
    assert_eq!(copier.cancel(&to, id).await, NfsStatus::Ok);
    assert_eq!(copier.status(&to, id).await, Err(NfsStatus::BadStateId));
    told.answer(NfsStatus::Ok);
    assert_eq!(copier.content(&to).await.len() as u64, 1 + 3 * PIECE);
    running.stop().await;
}

#[tokio::test]
async fn the_end_is_told_again_until_it_is_answered() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let length = PIECE + 1;
    let (from, to) = (copier.source(length).await, copier.target("to").await);
    let id = copier.begin(&from, &to).await;
    // The connection is lost with the callback.
    let told = copier.told.recv().await.unwrap();
    copier.session.peer().close();
    told.answer(NfsStatus::Ok);
    let again = copier.session.sibling(running.address).await.unwrap();
    copier.session = again;
    let told = copier.told.recv().await.unwrap();
    assert_eq!((told.args.state_id, told.count()), (id, length));
    // The client does not know of it yet.
    told.answer(NfsStatus::Delay);
    let told = loop {
        world.clock.advance(Duration::from_millis(10));
        copier.session.renew().await.unwrap();
        if let Ok(told) = copier.told.try_recv() {
            break told;
        }
    };
    assert_eq!(copier.status(&to, id).await, progress(length, Some(NfsStatus::Ok)));
    told.answer(NfsStatus::Ok);
    while copier.status(&to, id).await.is_ok() {}
    running.stop().await;
}

#[tokio::test]
async fn a_copy_that_the_client_does_not_want_to_hear_of_can_be_asked_for() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let (from, to) = (copier.source(PIECE + 1).await, copier.target("to").await);
    let id = copier.begin(&from, &to).await;
    copier.told.recv().await.unwrap().answer(NfsStatus::NotSupp);
    while running.server.metrics().other_callbacks.refused == 0 {
        copier.session.renew().await.unwrap();
    }
    assert_eq!(copier.status(&to, id).await, progress(PIECE + 1, Some(NfsStatus::Ok)));
    running.stop().await;
}

#[tokio::test]
async fn copies_are_named_by_target_state_id_and_client() {
    let world = World::new().await;
    let running = world.start().await;
    let copier = Copier::connect(&running, "a").await;
    let other = Copier::connect(&running, "b").await;
    let (from, to) = (copier.source(2 * PIECE).await, copier.target("to").await);
    let reads = world.home.hold_reads();
    let id = copier.begin(&from, &to).await;
    reads.arrival().await;
    let root = OpenFile { handle: copier.session.lookup(&[]).await.unwrap(), ..to.clone() };
    let cases = [
        (&copier, &to, StateId { seqid: 0, ..id }),
        (&copier, &to, StateId { seqid: 2, ..id }),
        (&copier, &to, to.state_id),
        (&copier, &from, id),
        (&copier, &root, id),
        (&other, &to, id),
    ];
    for (number, (copier, file, id)) in cases.into_iter().enumerate() {
        assert_eq!(copier.status(file, id).await, Err(NfsStatus::BadStateId), "{number}");
        assert_eq!(copier.cancel(file, id).await, NfsStatus::BadStateId, "{number}");
    }
    let bare = NfsArgOp::OffloadStatus(OffloadArgs { state_id: id });
    assert_eq!(outcome(&copier.session, &[bare]).await.0, NfsStatus::NoFileHandle);
    assert_eq!(copier.status(&to, id).await, progress(0, None));
    running.stop().await;
}

#[tokio::test]
async fn a_repeated_copy_is_the_same_copy_and_one_that_is_taken_back_is_none() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let (from, to) = (copier.source(PIECE + 1).await, copier.target("to").await);
    let reads = world.home.hold_reads();
    let request = request(&from, &to, |args| CopyArgs { destination_offset: 1, ..args });
    let mut slot = copier.session.slot().await.unwrap();
    world.home.refuse_commits(2);
    let first = copier.session.send(slot.arguments(false), &request).await.unwrap();
    let second = copier.session.send(slot.arguments(false), &request).await.unwrap();
    slot.executed();
    assert_eq!(statuses(&first.results), [NfsStatus::Ok; 5]);
    assert_eq!(first, second);
    assert_eq!(running.server.metrics().census.offloads, 1, "neither twice nor for each conflict");
    reads.open();
    let told = copier.told.recv().await.unwrap();
    assert_eq!(Some(told.args.state_id), copied(&first.results).response.callback_id);
    assert_eq!(told.count(), PIECE + 1);
    told.answer(NfsStatus::Ok);
    copier.settle(&running).await;
    assert_eq!(running.server.metrics().counts.offloads_done, 1);
    running.stop().await;
}

#[tokio::test]
async fn copies_meet_conflicts_and_go_on() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let (from, to) = (copier.source(3 * PIECE).await, copier.target("to").await);
    let reads = world.home.hold_reads();
    copier.begin(&from, &to).await;
    reads.arrival().await;
    world.home.refuse_commits(6);
    reads.open();
    let told = copier.told.recv().await.unwrap();
    assert_eq!(told.count(), 3 * PIECE);
    assert!(running.server.metrics().conflicts >= 6);
    assert!(copier.content(&to).await[1..] == content(3 * PIECE));
    running.stop().await;
}

#[tokio::test]
async fn a_copy_that_gets_nowhere_ends_where_it_is_and_never_looks_like_an_empty_source() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let (from, to) = (copier.source(3 * PIECE).await, copier.target("to").await);
    for pieces in [0, 1] {
        let reads = world.home.hold_reads();
        copier.begin(&from, &to).await;
        reads.let_through(pieces);
        for _ in 0..=pieces {
            reads.arrival().await;
        }
        world.home.refuse_commits(u32::MAX);
        reads.open();
        let told = loop {
            world.clock.advance(Duration::from_secs(1));
            copier.session.renew().await.unwrap();
            if let Ok(told) = copier.told.try_recv() {
                break told;
            }
        };
        world.home.refuse_commits(0);
        match pieces {
            0 => assert_eq!(told.failed(), (NfsStatus::Delay, 0)),
            _ => assert_eq!(told.count(), PIECE),
        }
        told.answer(NfsStatus::Ok);
    }
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_is_gone_leaves_no_copy_behind() {
    let world = World::new().await;
    let running = world.start().await;
    let watcher = Copier::connect(&running, "watcher").await;
    for how in ["evicted", "new", "silent"] {
        let copier = Copier::connect(&running, how).await;
        let (from, to) = (copier.source(3 * PIECE).await, copier.target(how).await);
        let reads = world.home.hold_reads();
        copier.begin(&from, &to).await;
        reads.arrival().await;
        assert_eq!(running.server.metrics().census.offloads, 1);
        match how {
            "evicted" => drop(running.server.evict(copier.session.client_id()).await.unwrap().unwrap()),
            // Put off until the piece that is under way has stopped.
            "new" => loop {
                match Session::connect(running.address, Config::new(how.to_owned(), [2; 8]), None).await {
                    Err(error) if error.asks_to_retry() => {}
                    connected => break drop(connected.unwrap()),
                }
            },
            _ => {
                world.clock.advance(LEASE / 2 + Duration::from_secs(1));
                watcher.session.renew().await.unwrap();
                world.clock.advance(LEASE / 2 + Duration::from_secs(1));
                reads.let_through(1);
            }
        }
        watcher.settle(&running).await;
        reads.open();
        let size = nfs4::Attribute::set(&[nfs4::Attribute::Size]);
        let size = watcher.session.attributes(&to.handle, size).await.unwrap().size.unwrap();
        // A piece that was under way when the lease ran out counts.
        assert_eq!(size, if how == "silent" { 1 + PIECE } else { 0 }, "{how}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_was_silent_hears_of_what_was_copied_until_then() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let (from, to) = (copier.source(3 * PIECE).await, copier.target("to").await);
    let reads = world.home.hold_reads();
    copier.begin(&from, &to).await;
    reads.arrival().await;
    world.clock.advance(LEASE + Duration::from_secs(1));
    reads.open();
    let told = copier.told.recv().await.unwrap();
    assert_eq!(told.count(), PIECE, "it asks for the rest");
    running.stop().await;
}

#[tokio::test]
async fn a_client_with_a_copy_is_not_destroyed() {
    let world = World::new().await;
    let running = world.start().await;
    let copier = Copier::connect(&running, "a").await;
    let (from, to) = (copier.source(2 * PIECE).await, copier.target("to").await);
    let reads = world.home.hold_reads();
    copier.begin(&from, &to).await;
    reads.arrival().await;
    for file in [&from, &to] {
        copier.session.close(file).await.unwrap();
    }
    let client = copier.session.client_id();
    let destroy = [NfsArgOp::DestroyClientId(DestroyClientIdArgs { client })];
    let other = Copier::connect(&running, "other").await;
    copier.session.destroy().await.unwrap();
    assert_eq!(other.session.bare_compound(&destroy).await.unwrap().status, NfsStatus::ClientIdBusy);
    reads.open();
    other.settle(&running).await;
    assert_eq!(other.session.bare_compound(&destroy).await.unwrap().status, NfsStatus::Ok);
    running.stop().await;
}

#[tokio::test]
async fn a_client_has_as_many_copies_as_it_leaves_free_and_others_by_the_piece() {
    let mut world = World::new().await;
    world.limits = Limits { offloads: 2, ..world.limits };
    let running = world.start().await;
    let copier = Copier::connect(&running, "a").await;
    let other = Copier::connect(&running, "b").await;
    let from = copier.source(2 * PIECE).await;
    let (to, second, third) = (copier.target("1").await, copier.target("2").await, other.target("3").await);
    let reads = world.home.hold_reads();
    let id = copier.begin(&from, &to).await;
    reads.arrival().await;
    let refused = {
        let (session, request) = (
            copier.session.clone(),
            request(&from, &second, |args| CopyArgs { destination_offset: 1, ..args }),
        );
        tokio::spawn(async move { copied(&session.execute(&request).await.unwrap()) })
    };
    reads.arrival().await;
    let from = other.session.open(&other.root, "from", share_access::READ, OpenHow::NoCreate, owner("o"));
    other.begin(&from.await.unwrap(), &third).await;
    reads.arrival().await;
    assert_eq!(running.server.metrics().census.offloads, 2);
    assert_eq!(copier.cancel(&to, id).await, NfsStatus::Ok);
    reads.open();
    let refused = refused.await.unwrap();
    assert_eq!((refused.response.callback_id, refused.response.count), (None, PIECE));
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_leaves_copies_where_they_are_and_knows_nothing_of_them_later() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let (from, to) = (copier.source(3 * PIECE).await, copier.target("to").await);
    let reads = world.home.hold_reads();
    let id = copier.begin(&from, &to).await;
    reads.arrival().await;
    reads.let_through(1);
    reads.arrival().await;
    running.stop().await; // though the copy is being held up
    reads.open();
    assert!(copier.told.try_recv().is_err());

    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    assert_eq!(copier.status(&to, id).await, Err(NfsStatus::BadStateId));
    assert_eq!(copier.cancel(&to, id).await, NfsStatus::BadStateId);
    let open =
        |name| copier.session.open(&copier.root, name, share_access::BOTH, OpenHow::NoCreate, owner("o"));
    let (from, to) = (open("from").await.unwrap(), open("to").await.unwrap());
    assert_eq!(copier.content(&to).await.len() as u64, 1 + PIECE);
    let id = copier.begin(&from, &to).await;
    let told = copier.told.recv().await.unwrap();
    assert_eq!((told.args.state_id, told.count()), (id, 3 * PIECE));
    assert!(copier.content(&to).await[1..] == content(3 * PIECE));
    running.stop().await;
}

#[tokio::test]
async fn a_copy_outlives_opens_and_names_but_heeds_the_share_reservations_of_others() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let other = running.client("other").await;
    for denied in [false, true] {
        let (from, to) = (copier.source(3 * PIECE).await, copier.target("to").await);
        let reads = world.home.hold_reads();
        copier.begin(&from, &to).await;
        reads.arrival().await;
        reads.let_through(1);
        reads.arrival().await;
        let deny = opening("to", share_access::READ, share_deny::WRITE, OpenHow::NoCreate);
        assert_eq!(
            outcome(&other, &[put_handle(&copier.root), deny.clone()]).await.0,
            NfsStatus::ShareDenied,
            "it is open"
        );
        for file in [&from, &to] {
            copier.session.close(file).await.unwrap();
        }
        if denied {
            assert_eq!(outcome(&other, &[put_handle(&copier.root), deny]).await.0, NfsStatus::Ok);
        } else {
            for name in ["from", "to"] {
                let remove = [put_handle(&copier.root), remove(name)];
                assert_eq!(outcome(&copier.session, &remove).await.0, NfsStatus::Ok);
            }
        }
        reads.open();
        let told = copier.told.recv().await.unwrap();
        match denied {
            false => assert_eq!(told.count(), 3 * PIECE),
            true => assert_eq!(told.failed(), (NfsStatus::Locked, 2 * PIECE)),
        }
        told.answer(NfsStatus::Ok);
    }
    running.stop().await;
}

#[tokio::test]
async fn nobody_is_delegated_what_is_being_copied_to() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let other = Copier::connect(&running, "b").await;
    let (from, to) = (copier.source(2 * PIECE).await, copier.target("to").await);
    let reads = world.home.hold_reads();
    copier.begin(&from, &to).await;
    reads.arrival().await;
    copier.session.close(&to).await.unwrap();
    copier.session.close(&from).await.unwrap();
    let open = async || {
        let open = other.session.open(&other.root, "to", share_access::READ, OpenHow::NoCreate, owner("o"));
        let open = open.await.unwrap();
        other.session.close(&open).await.unwrap();
        open.delegation
    };
    assert!(!matches!(open().await, OpenDelegation::Read(_) | OpenDelegation::Write(_)));
    reads.open();
    copier.told.recv().await.unwrap().answer(NfsStatus::Ok);
    copier.settle(&running).await;
    assert!(matches!(open().await, OpenDelegation::Read(_) | OpenDelegation::Write(_)));
    running.stop().await;
}

#[tokio::test]
async fn a_copy_ends_where_its_source_ends_by_then() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let cases = [
        (0, 0, 0),
        (0, 3, 3),
        (0, PIECE + 9, PIECE + 9),
        (1, 3, PIECE),
        (1, PIECE + 9, PIECE + 9),
        (1, 0, PIECE),
    ];
    for (pieces, cut, count) in cases {
        let (from, to) = (copier.source(3 * PIECE).await, copier.target("to").await);
        let reads = world.home.hold_reads();
        copier.begin(&from, &to).await;
        reads.let_through(pieces);
        for _ in 0..=pieces {
            reads.arrival().await;
        }
        // A conflict for the piece that has just been read.
        let cut = [put_handle(&from.handle), set_attributes(from.state_id, &sized(cut))];
        assert_eq!(outcome(&copier.session, &cut).await.0, NfsStatus::Ok);
        reads.open();
        let told = copier.told.recv().await.unwrap();
        assert_eq!(told.count(), count);
        told.answer(NfsStatus::Ok);
    }
    running.stop().await;
}

#[tokio::test]
async fn a_copy_fails_when_its_volume_may_no_longer_be_changed_or_does_not_take_it() {
    let world = World::new().await;
    let running = world.start().await;
    let mut copier = Copier::connect(&running, "a").await;
    let exports = |options: ExportOptions| {
        vec![Export::new("home", world.home.clone()).with(options), Export::new("other", world.other.clone())]
    };
    let read_only = ExportOptions { read_only: true, ..Default::default() };
    let from = copier.source(3 * PIECE).await;
    for (status, name) in [(NfsStatus::Rofs, "1"), (NfsStatus::Io, "2")] {
        let to = copier.target(name).await;
        let reads = world.home.hold_reads();
        let id = copier.begin(&from, &to).await;
        reads.arrival().await;
        reads.let_through(1);
        reads.arrival().await;
        match status {
            NfsStatus::Rofs => running.server.replace_exports(exports(read_only.clone())).unwrap(),
            _ => world.home.break_next_commit(),
        }
        reads.open();
        let told = copier.told.recv().await.unwrap();
        let copied = if status == NfsStatus::Rofs { 2 * PIECE } else { PIECE };
        assert_eq!(told.failed(), (status, copied));
        assert_eq!(copier.status(&to, id).await, progress(copied, Some(status)));
        told.answer(NfsStatus::Ok);
        running.server.replace_exports(exports(ExportOptions::default())).unwrap();
    }
    assert_eq!(running.server.metrics().counts.offloads_failed, 2);
    running.stop().await;
}
