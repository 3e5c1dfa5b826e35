//! Byte-range locks between clients.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use nfs4::bits::{open_result, share_access, share_deny};
use nfs4::{
    CbNotifyLockArgs, FileHandle, LockArgs, LockRes, LockTestArgs, LockTestRes, LockType, NfsArgOp,
    NfsCbArgOp, NfsCbResOp, NfsResOp, NfsStatus, OpenArgs, OpenHow, Outcome, StableHow, StateId,
};
use nfs4_client::operations::{close, first_lock, open, owner, put_handle, unlock, write};
use nfs4_client::{Callback, Config, OpenFile, Session};
use nfs4_server::{Export, ExportOptions, ExportSecurity};
use tokio::sync::mpsc;

use crate::harness::{LEASE, Running, World, home, outcome, status};
use crate::minor0::old::Old;

#[tokio::test]
async fn a_lock_of_one_client_is_in_the_way_of_another_until_it_is_given_up() {
    let world = World::new().await;
    let running = world.start().await;
    let (a, b) = (running.client("a").await, running.client("b").await);
    let root = home(&a).await;
    let (file_a, file_b) =
        (a.create(&root, "f", 0o666).await.unwrap(), b.create(&root, "f", 0o666).await.unwrap());
    let lock = a.lock(&file_a, owner("l"), LockType::Write, 100, 50).await.unwrap();

    let request =
        [put_handle(&file_b.handle), first_lock(file_b.state_id, owner("l"), LockType::Read, 0, u64::MAX)];
    let reply = b.compound(&request).await.unwrap();
    let NfsResOp::Lock(LockRes::Denied(denied)) = &reply.results[1] else { panic!("{:?}", reply.results) };
    assert_eq!((denied.offset, denied.length, denied.lock_type), (100, 50, LockType::Write));
    assert_eq!((denied.owner.client, &denied.owner.owner[..]), (a.client_id(), &b"l"[..]));

    let test = NfsArgOp::LockTest(LockTestArgs {
        lock_type: LockType::Write,
        offset: 120,
        length: 1,
        owner: owner("l"),
    });
    let reply = b.compound(&[put_handle(&file_b.handle), test.clone()]).await.unwrap();
    assert!(matches!(&reply.results[1], NfsResOp::LockTest(LockTestRes::Denied(_))));
    assert_eq!(reply.status, NfsStatus::Denied);
    a.unlock(&file_a.handle, lock, 0, u64::MAX).await.unwrap();
    let reply = b.compound(&[put_handle(&file_b.handle), test]).await.unwrap();
    assert_eq!(reply.status, NfsStatus::Ok);
    b.lock(&file_b, owner("l"), LockType::Write, 0, u64::MAX).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_lock_is_not_given_up_before_others_can_see_what_was_written_under_it() {
    let world = World::new().await;
    let running = world.start().await;
    let (a, b) = (running.client("a").await, running.client("b").await);
    let root = home(&a).await;
    let (file_a, file_b) =
        (a.create(&root, "f", 0o666).await.unwrap(), b.create(&root, "f", 0o666).await.unwrap());
    let lock = a.lock(&file_a, owner("l"), LockType::Write, 0, 10).await.unwrap();
    let commits = world.home.hold_visible_commits();
    let request = [
        put_handle(&file_a.handle),
        write(lock, 0, StableHow::Unstable, Bytes::from_static(b"news")),
        unlock(lock, 0, 10),
    ];
    let (writer, ()) = tokio::join!(outcome(&a, &request), async {
        commits.arrival().await;
        // LOCK does not touch the file system, so nothing holds it up.
        assert_eq!(status(b.lock(&file_b, owner("l"), LockType::Write, 0, 10).await), NfsStatus::Denied);
        commits.open();
    });
    assert_eq!(writer, (NfsStatus::Ok, 3));
    b.lock(&file_b, owner("l"), LockType::Write, 0, 10).await.unwrap();
    assert_eq!(b.read(&file_b, 0, 10).await.unwrap().data.into_bytes(), "news");
    running.stop().await;
}

/// OPEN for reading and writing.
fn open_denying(name: &str, who: &'static str, share_deny: u32) -> NfsArgOp {
    match open(name, share_access::BOTH | share_access::WANT_NO_DELEG, OpenHow::NoCreate, owner(who)) {
        NfsArgOp::Open(args) => NfsArgOp::Open(OpenArgs { share_deny, ..args }),
        other => panic!("{other:?} is no OPEN"),
    }
}

#[tokio::test]
async fn a_reservation_is_not_given_up_before_others_can_see_what_was_written_under_it() {
    let world = World::new().await;
    let running = world.start().await;
    let (a, b) = (running.client("a").await, running.client("b").await);
    let root = home(&a).await;
    let file = a.create(&root, "f", 0o666).await.unwrap();
    a.close(&file).await.unwrap();
    let commits = world.home.hold_visible_commits();
    let request = [
        put_handle(&root),
        open_denying("f", "o", share_deny::BOTH),
        write(StateId::CURRENT, 0, StableHow::Unstable, Bytes::from_static(b"news")),
        close(StateId::CURRENT),
    ];
    let others = [put_handle(&root), open_denying("f", "o", share_deny::NONE)];
    let (writer, ()) = tokio::join!(outcome(&a, &request), async {
        commits.arrival().await;
        assert_eq!(outcome(&b, &others).await.0, NfsStatus::ShareDenied);
        commits.open();
    });
    assert_eq!(writer, (NfsStatus::Ok, 4));
    assert_eq!(outcome(&b, &others).await, (NfsStatus::Ok, 2));
    running.stop().await;
}

#[tokio::test]
async fn what_a_compound_has_closed_is_in_nobodys_way_behind_that_and_of_no_use() {
    let world = World::new().await;
    let running = world.start().await;
    let a = running.client("a").await;
    let root = home(&a).await;
    let file = a.create(&root, "f", 0o666).await.unwrap();
    a.lock(&file, owner("l"), LockType::Write, 0, 10).await.unwrap();
    let data = || Bytes::from_static(b"news");
    let request = [
        put_handle(&root),
        open_denying("f", "two", share_deny::NONE),
        NfsArgOp::SaveFh,
        put_handle(&file.handle),
        close(file.state_id),
        NfsArgOp::RestoreFh,
        first_lock(StateId::CURRENT, owner("m"), LockType::Write, 0, 10),
        put_handle(&root),
        open_denying("f", "two", share_deny::NONE),
        close(StateId::CURRENT),
        put_handle(&root),
        open_denying("f", "three", share_deny::BOTH),
        close(StateId::CURRENT),
        write(StateId::ANONYMOUS, 0, StableHow::Unstable, data()),
    ];
    assert_eq!(outcome(&a, &request).await, (NfsStatus::Ok, request.len()));
    let file = a.create(&root, "g", 0o666).await.unwrap();
    let after = write(file.state_id, 0, StableHow::Unstable, data());
    let closed = [put_handle(&file.handle), close(file.state_id), after];
    assert_eq!(outcome(&a, &closed).await, (NfsStatus::BadStateId, 3));
    running.stop().await;
}

#[tokio::test]
async fn who_has_a_file_open_locks_no_more_of_it_when_the_export_demands_more_or_the_volume_moves() {
    let world = World::new().await;
    let running = world.start().await;
    let a = running.client("a").await;
    let file = a.create(&home(&a).await, "f", 0o644).await.unwrap();
    let lock = [put_handle(&file.handle), first_lock(file.state_id, owner("l"), LockType::Write, 0, 10)];
    let offer = |options| {
        let home = Export::new("home", world.home.clone()).with(options);
        running.server.replace_exports(vec![home]).unwrap();
    };
    let security = ExportSecurity { trusted: Vec::new(), ..ExportSecurity::default() };
    offer(ExportOptions { security, ..ExportOptions::default() });
    assert_eq!(outcome(&a, &lock).await, (NfsStatus::WrongSec, 2));
    let referral = vec!["box2.example.org:/f".parse().unwrap()];
    offer(ExportOptions { referral, ..ExportOptions::default() });
    assert_eq!(outcome(&a, &lock).await, (NfsStatus::Moved, 2));
    offer(ExportOptions::default());
    assert_eq!(outcome(&a, &lock).await.0, NfsStatus::Ok);
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_went_silent_loses_its_locks_when_another_wants_them() {
    let world = World::new().await;
    let running = world.start().await;
    let (a, b) = (running.client("a").await, running.client("b").await);
    let root = home(&a).await;
    let file_a = a.create(&root, "f", 0o666).await.unwrap();
    a.lock(&file_a, owner("l"), LockType::Write, 0, 1).await.unwrap();
    let half = LEASE / 2 + std::time::Duration::from_secs(1);
    world.clock.advance(half);
    b.renew().await.unwrap();
    world.clock.advance(half);
    let file_b = b.create(&root, "f", 0o666).await.unwrap();
    assert_eq!(running.server.metrics().census.clients, 2, "nobody wanted the lock yet");
    b.lock(&file_b, owner("l"), LockType::Write, 0, 1).await.unwrap();
    assert_eq!(status(a.renew().await), NfsStatus::BadSession);
    assert_eq!(running.server.metrics().census.clients, 1);
    running.stop().await;
}

/// Tells the test of every lock that may be had.
struct Notices(mpsc::UnboundedSender<CbNotifyLockArgs>);

#[async_trait]
impl Callback for Notices {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        match operation {
            NfsCbArgOp::NotifyLock(notice) => {
                self.0.send(notice).unwrap();
                NfsCbResOp::NotifyLock(NfsStatus::Ok)
            }
            other => NfsCbResOp::failure(other.op_code(), NfsStatus::NotSupp),
        }
    }
}

async fn waiter(running: &Running, name: &str) -> (Session, mpsc::UnboundedReceiver<CbNotifyLockArgs>) {
    let (sender, notices) = mpsc::unbounded_channel();
    let config = Config::new(name.to_owned(), [1; 8]);
    let callback: Arc<dyn Callback> = Arc::new(Notices(sender));
    (Session::connect(running.address, config, Some(callback)).await.unwrap(), notices)
}

/// Opens `f`, and says whether the server promises to call.
async fn open_f(session: &Session) -> (OpenFile, bool) {
    let access = share_access::BOTH | share_access::WANT_NO_DELEG;
    let request =
        [put_handle(&home(session).await), open("f", access, OpenHow::NoCreate, owner("o")), NfsArgOp::GetFh];
    let results = session.execute(&request).await.unwrap();
    let [_, NfsResOp::Open(Outcome::Ok(opened)), NfsResOp::GetFh(Outcome::Ok(handle))] = &results[..] else {
        panic!("{results:?}")
    };
    let delegation = opened.delegation.clone();
    let file = OpenFile { handle: handle.clone(), state_id: opened.state_id, delegation };
    (file, opened.flags & open_result::MAY_NOTIFY_LOCK != 0)
}

/// RFC 8881 §20.11.
#[tokio::test]
async fn who_waits_for_a_lock_is_called_when_it_may_be_had_and_nobody_takes_it_before() {
    let world = World::new().await;
    let running = world.start().await;
    let holder = running.client("holder").await;
    let root = home(&holder).await;
    let file = holder.create(&root, "f", 0o666).await.unwrap();
    let lock = holder.lock(&file, owner("l"), LockType::Write, 0, 10).await.unwrap();
    let (first, mut notices) = waiter(&running, "first").await;
    let (second, mut none) = waiter(&running, "second").await;
    let ((file_1, is_promised), (file_2, _)) = (open_f(&first).await, open_f(&second).await);
    assert!(is_promised && !open_f(&holder).await.1, "who cannot be called has to ask");
    let waiting = |file: &OpenFile| {
        [put_handle(&file.handle), first_lock(file.state_id, owner("w"), LockType::WriteWait, 5, 1)]
    };
    assert_eq!(outcome(&first, &waiting(&file_1)).await.0, NfsStatus::Denied);
    assert_eq!(outcome(&second, &waiting(&file_2)).await.0, NfsStatus::Denied);
    holder.unlock(&file.handle, lock, 0, 10).await.unwrap();
    let notice = notices.recv().await.unwrap();
    assert_eq!(notice.file_handle, file_1.handle);
    assert_eq!((notice.lock_owner.client, &notice.lock_owner.owner[..]), (first.client_id(), &b"w"[..]));
    assert_eq!(outcome(&second, &waiting(&file_2)).await.0, NfsStatus::Denied, "it is not its turn");
    let mine = first.lock(&file_1, owner("w"), LockType::WriteWait, 5, 1).await.unwrap();
    assert!(none.try_recv().is_err());
    first.unlock(&file_1.handle, mine, 5, 1).await.unwrap();
    none.recv().await.unwrap();
    second.lock(&file_2, owner("w"), LockType::WriteWait, 5, 1).await.unwrap();
    running.stop().await;
}

/// RFC 7530 §9.4: the same queue, without calls.
#[tokio::test]
async fn a_client_of_4_0_that_asks_again_is_not_passed() {
    let world = World::new().await;
    let running = world.start().await;
    let holder = running.client("holder").await;
    let root = home(&holder).await;
    let file = holder.create(&root, "f", 0o666).await.unwrap();
    let lock = holder.lock(&file, owner("l"), LockType::Write, 0, 10).await.unwrap();
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    let (handle, open) = old.make(&root, "f").await;
    assert_eq!(wait(&mut old, &handle, open).await, NfsStatus::Denied);
    holder.unlock(&file.handle, lock, 0, 10).await.unwrap();
    assert_eq!(status(holder.lock(&file, owner("m"), LockType::Read, 0, 1).await), NfsStatus::Denied);
    assert_eq!(wait(&mut old, &handle, open).await, NfsStatus::Ok);
    running.stop().await;
}

async fn wait(old: &mut Old, file: &FileHandle, open: StateId) -> NfsStatus {
    let NfsArgOp::Lock(lock) = old.lock_op(open, "w", false) else { panic!("no LOCK") };
    let lock = LockArgs { lock_type: LockType::WriteWait, ..lock };
    old.status(&[put_handle(file), NfsArgOp::Lock(lock)]).await
}
