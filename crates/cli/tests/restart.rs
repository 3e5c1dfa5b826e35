//! A restart is not noticed: handles stay, opens and locks are reclaimed, a clean stop leaves nothing behind.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::time::{Duration, Instant};

use bytes::Bytes;
use nfs4::bits::{share_access, share_deny};
use nfs4::{
    Bitmap, CreateType, DelegationType, LockArgs, LockType, Locker, NfsArgOp, NfsStatus, OpenArgs, OpenClaim,
    OpenHow, ReclaimCompleteArgs, StableHow, StateId,
};
use nfs4_client::operations::{self, put_handle};
use nfs4_client::{Config, OpenFile, Session};
use support::{Client, Gateway, Random, Settings, files_below};

const LEASE: Duration = Duration::from_secs(10);

fn gateway(folder: &tempfile::TempDir) -> Gateway {
    let settings = Settings { lease: "10s", ..Settings::in_folder(folder.path()) };
    Gateway::start_with(&folder.path().join("data"), &settings)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handles_taken_before_a_restart_work_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = gateway(&folder);
    let client = Client::connect(gateway.nfs, "client").await;
    let data = Random::from_environment("handles").bytes(200_000);
    client.make_directory("folder").await;
    client.write("folder/file", &data).await;
    let mut request = client.walk("folder");
    request.push(operations::create(CreateType::SymbolicLink("target".into()), "link", 0o777));
    client.run(&request).await.unwrap();
    let mut handles = vec![client.home.clone()];
    for path in ["folder", "folder/file", "folder/link"] {
        handles.push(client.find(path).await.unwrap());
    }
    for clean in [false, true, false] {
        if clean {
            assert_eq!(gateway.stop(), Some(0))
        } else {
            gateway.kill()
        }
        gateway.launch();
        let client = Client::connect(gateway.nfs, "client").await;
        for handle in &handles {
            client.run(&[put_handle(handle), operations::get_attributes(Bitmap::EMPTY)]).await.unwrap();
        }
        assert!(client.read_handle(&handles[2]).await.unwrap() == data);
        // What was removed meanwhile stays removed: its handle is stale, and no other object takes its place.
        client.write("short", &Bytes::from_static(b"lived")).await;
        let gone = client.find("short").await.unwrap();
        client.remove("short").await;
        gateway.kill();
        gateway.launch();
        let client = Client::connect(gateway.nfs, "client").await;
        client.write("other", &Bytes::from_static(b"another file")).await;
        let error =
            client.run(&[put_handle(&gone), operations::get_attributes(Bitmap::EMPTY)]).await.unwrap_err();
        assert_eq!(error.status(), Some(NfsStatus::Stale));
    }
}

/// A client that still has to reclaim what it held.
async fn returning(gateway: &Gateway, name: &str) -> Session {
    let mut config = Config::new(name.to_owned(), *b"verifier");
    config.reclaim_complete = false;
    Session::connect(gateway.nfs, config, None).await.unwrap()
}

fn reclaim_open(share_access: u32, share_deny: u32) -> NfsArgOp {
    NfsArgOp::Open(OpenArgs {
        seqid: 0,
        share_access,
        share_deny,
        owner: operations::owner("opener"),
        how: OpenHow::NoCreate,
        claim: OpenClaim::Previous(DelegationType::None),
    })
}

fn open_denying_writers(name: &str) -> NfsArgOp {
    NfsArgOp::Open(OpenArgs {
        seqid: 0,
        share_access: share_access::BOTH | share_access::WANT_NO_DELEG,
        share_deny: share_deny::WRITE,
        owner: operations::owner("opener"),
        how: operations::unchecked(0o644),
        claim: OpenClaim::Null(name.into()),
    })
}

fn open_state(results: &[nfs4::NfsResOp]) -> StateId {
    let opened = results.iter().find_map(|result| match result {
        nfs4::NfsResOp::Open(nfs4::Outcome::Ok(opened)) => Some(opened.state_id),
        _ => None,
    });
    opened.expect("an open")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn opens_and_locks_are_reclaimed_before_anybody_else_gets_in() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = gateway(&folder);
    let holder = Client::connect(gateway.nfs, "holder").await;
    let request = [put_handle(&holder.home), open_denying_writers("file")];
    let state_id = open_state(&holder.run(&request).await.unwrap());
    let handle = holder.find("file").await.unwrap();
    let file = OpenFile { handle, state_id, delegation: nfs4::OpenDelegation::None };
    holder.session.lock(&file, operations::owner("locker"), LockType::Write, 10, 20).await.unwrap();
    for round in 0..2 {
        gateway.kill();
        gateway.launch();
        // Somebody new has to wait: nobody knows yet what the holder will claim.
        let intruder = Client::connect(gateway.nfs, "intruder").await;
        let intrusion = [
            put_handle(&intruder.home),
            operations::open("file", share_access::WRITE, OpenHow::NoCreate, operations::owner("intruder")),
        ];
        let refused = intruder.session.execute(&intrusion).await.unwrap_err();
        assert_eq!(refused.status(), Some(NfsStatus::Grace), "round {round}");

        let session = returning(&gateway, "holder").await;
        let access = share_access::BOTH | share_access::WANT_NO_DELEG;
        let request = [put_handle(&file.handle), reclaim_open(access, share_deny::WRITE)];
        let open = open_state(&session.execute(&request).await.unwrap());
        let lock = NfsArgOp::Lock(LockArgs {
            lock_type: LockType::Write,
            reclaim: true,
            offset: 10,
            length: 20,
            locker: Locker::New {
                open_seqid: 0,
                open_state_id: open,
                lock_seqid: 0,
                owner: operations::owner("locker"),
            },
        });
        session.execute(&[put_handle(&file.handle), lock]).await.unwrap();
        let complete = NfsArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        session.execute(&[complete]).await.unwrap();

        // Grace is over with the last one who held something; from now on what it holds is in the way.
        let refused = intruder.session.execute(&intrusion).await.unwrap_err();
        assert_eq!(refused.status(), Some(NfsStatus::ShareDenied), "round {round}");
        let reader = [
            put_handle(&intruder.home),
            operations::open("file", share_access::READ, OpenHow::NoCreate, operations::owner("intruder")),
        ];
        let open = open_state(&intruder.run(&reader).await.unwrap());
        let lock = operations::first_lock(open, operations::owner("intruder"), LockType::Read, 25, 10);
        let refused = intruder.session.execute(&[put_handle(&file.handle), lock]).await.unwrap_err();
        assert_eq!(refused.status(), Some(NfsStatus::Denied), "round {round}");
        let again = open_of(&session, &file).await;
        let data = Bytes::from_static(b"mine");
        let request = [put_handle(&file.handle), operations::write(again, 0, StableHow::FileSync, data)];
        session.execute(&request).await.unwrap();
        intruder.session.execute(&[put_handle(&file.handle), operations::close(open)]).await.unwrap();
        intruder.session.destroy_client().await.unwrap();
    }
}

/// The holder's open, asked for once more: the same owner gets the same state.
async fn open_of(session: &Session, file: &OpenFile) -> StateId {
    let again = NfsArgOp::Open(OpenArgs {
        seqid: 0,
        share_access: share_access::BOTH | share_access::WANT_NO_DELEG,
        share_deny: share_deny::WRITE,
        owner: operations::owner("opener"),
        how: OpenHow::NoCreate,
        claim: OpenClaim::FileHandle,
    });
    open_state(&session.execute(&[put_handle(&file.handle), again]).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn there_is_no_grace_period_when_nobody_held_anything() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = gateway(&folder);
    for clean in [true, false] {
        let client = Client::connect(gateway.nfs, "client").await;
        client.write("file", &Bytes::from_static(b"content")).await;
        // At a stop it is known that it holds nothing, whether it says that it goes or not.
        if clean {
            assert_eq!(gateway.stop(), Some(0))
        } else {
            client.session.destroy_client().await.unwrap();
            gateway.kill()
        }
        gateway.launch();
        let other = Client::connect(gateway.nfs, "other").await;
        // Not through `run`, which would wait.
        let file = other.session.create(&other.home, "new", 0o644).await.unwrap();
        other.session.close(&file).await.unwrap();
        other.session.destroy_client().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_that_never_returns_holds_the_others_up_for_a_lease_time_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = gateway(&folder);
    let lost = Client::connect(gateway.nfs, "lost").await;
    lost.session.create(&lost.home, "held", 0o644).await.unwrap();
    gateway.kill();
    gateway.launch();
    let began = Instant::now();
    let other = Client::connect(gateway.nfs, "other").await;
    other.write("new", &Bytes::from_static(b"content")).await;
    let waited = began.elapsed();
    println!("waited {waited:.1?} with a lease of {LEASE:?}");
    assert!(waited < 3 * LEASE, "waited {waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_clean_stop_leaves_nothing_dirty_and_needs_no_journal() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { write_back_wait: "1h", ..Settings::in_folder(folder.path()) };
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    let mut random = Random::from_environment("clean stop");
    let files: Vec<(String, Bytes)> =
        (0..30).map(|number| (format!("file{number}"), random.bytes(7000 * number + 1))).collect();
    for (path, data) in &files {
        client.write(path, data).await;
    }
    client.session.destroy_client().await.unwrap();
    assert_eq!(gateway.stop(), Some(0), "log:\n{}", gateway.log());
    assert!(!gateway.log().contains("not yet in the clouds"), "log:\n{}", gateway.log());
    for part in ["journal", "cache"] {
        for file in files_below(&gateway.data.join(part)) {
            std::fs::remove_file(file).unwrap();
        }
    }
    gateway.launch();
    gateway.json(&["flush", "--timeout", "1s"], &[0]);
    let client = Client::connect(gateway.nfs, "client").await;
    for (path, data) in &files {
        client.expect(path, data).await;
    }
    client.write("more", &files[20].1).await;
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_with_clouds_away_keeps_what_is_dirty_for_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { write_back_wait: "1h", stop_wait: "1s", ..Settings::in_folder(folder.path()) };
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    let data = Random::from_environment("clouds away").bytes(300_000);
    client.write("file", &data).await;
    let (clouds, elsewhere) = (folder.path().join("clouds"), folder.path().join("elsewhere"));
    std::fs::rename(&clouds, &elsewhere).unwrap();
    assert_eq!(gateway.stop(), Some(0), "log:\n{}", gateway.log());
    assert!(gateway.log().contains("not yet in the clouds"), "log:\n{}", gateway.log());
    std::fs::rename(&elsewhere, &clouds).unwrap();
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    client.expect("file", &data).await;
    gateway.flush();
    gateway.drop_cache();
    client.expect("file", &data).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_file_that_was_removed_while_open_is_reclaimed_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = gateway(&folder);
    let holder = Client::connect(gateway.nfs, "holder").await;
    let request = [put_handle(&holder.home), open_denying_writers("file")];
    let results = holder.run(&request).await.unwrap();
    let promised = results.iter().any(|result| match result {
        nfs4::NfsResOp::Open(nfs4::Outcome::Ok(opened)) => {
            opened.flags & nfs4::bits::open_result::PRESERVE_UNLINKED != 0
        }
        _ => false,
    });
    assert!(promised);
    let handle = holder.find("file").await.unwrap();
    let data = Bytes::from_static(b"without a name");
    let write = operations::write(open_state(&results), 0, StableHow::FileSync, data.clone());
    holder.run(&[put_handle(&handle), write]).await.unwrap();
    holder.remove("file").await;
    let mut last = None;
    for _ in 0..2 {
        gateway.kill();
        gateway.launch();
        let session = returning(&gateway, "holder").await;
        let access = share_access::BOTH | share_access::WANT_NO_DELEG;
        let read = operations::read(StateId::CURRENT, 0, 100);
        let request = [put_handle(&handle), reclaim_open(access, share_deny::WRITE), read];
        let results = session.execute(&request).await.unwrap();
        let Some(nfs4::NfsResOp::Read(nfs4::Outcome::Ok(read))) = results.last() else { panic!("a read") };
        assert_eq!(read.data.segments().concat(), data);
        let complete = NfsArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        session.execute(&[complete]).await.unwrap();
        last = Some((open_state(&results), session));
    }
    let (open, session) = last.unwrap();
    session.execute(&[put_handle(&handle), operations::close(open)]).await.unwrap();
    // It may take a moment until the server knows that nobody else comes back for it.
    let asked = [put_handle(&handle), operations::get_attributes(Bitmap::EMPTY)];
    let deadline = Instant::now() + 3 * LEASE;
    let error = loop {
        match session.execute(&asked).await {
            Err(error) => break error,
            Ok(_) => assert!(Instant::now() < deadline, "it is still there"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(error.status(), Some(NfsStatus::Stale));
}
