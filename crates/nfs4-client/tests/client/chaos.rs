//! Many tasks on one client while connections break and the server restarts, again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{FileHandle, LockType, NfsResOp, NfsStatus, Outcome, StableHow};
use nfs4_client::operations::{owner, put_handle, read, unchecked, write};
use nfs4_client::{Client, ClientError, OpenState, Options};

use crate::proxy::Direction;
use crate::world::{World, home, make_directory, until};

const TASKS: usize = 12;
const ROUNDS: usize = 60;

/// Makes directories and writes numbers into a file that it holds open and locked. How often a directory may have been
/// made or not.
async fn work(client: Client, home: FileHandle, task: usize, progress: Arc<AtomicUsize>) -> usize {
    let access = share_access::BOTH | share_access::WANT_NO_DELEG;
    let open = loop {
        match client
            .open_file(&home, format!("f{task}"), access, unchecked(0o600), owner(format!("o{task}")))
            .await
        {
            Ok(open) => break open,
            Err(error) => assert!(matches!(error, ClientError::Unknown), "{error:?}"),
        }
    };
    let locker = owner(format!("l{task}"));
    while let Err(error) = client.lock(&open, &locker, LockType::Write, 0, 8).await {
        assert!(matches!(error, ClientError::Unknown), "{error:?}");
    }
    let mut unknown = 0;
    // The last number that is there for certain, and those that may have replaced it since.
    let mut possible = vec![0];
    for round in 1..=ROUNDS as u64 {
        let name = format!("{task} {round}");
        let mut doubtful = false;
        loop {
            match make_directory(&client, &home, &name).await {
                Ok(()) => break,
                Err(ClientError::Unknown) => doubtful = true,
                Err(error) => {
                    assert_eq!(error.status(), Some(NfsStatus::Exist), "{error:?}");
                    assert!(doubtful, "{name} was made twice");
                    break;
                }
            }
            unknown += 1;
        }
        match put(&client, &open, round).await {
            Ok(()) => possible = vec![round],
            Err(ClientError::Unknown) => possible.push(round),
            Err(error) => panic!("{error:?}"),
        }
        let found = get(&client, &open).await;
        assert!(possible.contains(&found), "{found} is none of {possible:?}");
        possible = vec![found];
        progress.fetch_add(1, SeqCst);
    }
    client.close_file(&open).await.unwrap();
    unknown
}

async fn put(client: &Client, open: &OpenState, number: u64) -> Result<(), ClientError> {
    let build = || {
        let data = Bytes::copy_from_slice(&number.to_be_bytes());
        Ok(vec![put_handle(open.handle()), write(open.state_id()?, 0, StableHow::FileSync, data)])
    };
    client.compound_with(build).await?.into_results().map(drop)
}

async fn get(client: &Client, open: &OpenState) -> u64 {
    let build = || Ok(vec![put_handle(open.handle()), read(open.state_id()?, 0, 8)]);
    let results = client.compound_with(build).await.unwrap().into_results().unwrap();
    match &results[..] {
        [_, NfsResOp::Read(Outcome::Ok(read))] => {
            let bytes = read.data.clone().into_bytes();
            bytes[..].try_into().map_or(0, u64::from_be_bytes)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_done_twice_and_nothing_that_was_told_is_lost() {
    let mut world = World::new().await;
    let client = world.connect(Options { connections: 3, slots: 8, ..world.options() }).await;
    let home = home(&client).await;
    let progress = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| tokio::spawn(work(client.clone(), home.clone(), task, progress.clone())))
        .collect();
    let step = TASKS * ROUNDS / 24;
    for disturbance in 1..24usize {
        until(|| progress.load(SeqCst) >= disturbance * step || tasks.iter().any(|task| task.is_finished()))
            .await;
        match disturbance % 4 {
            0 => world.restart().await,
            1 => world.proxy.cut_all(),
            2 => world.proxy.cut(Direction::Requests, 100 * disturbance),
            _ => world.proxy.cut(Direction::Replies, 100 * disturbance),
        }
    }
    let mut unknown = 0;
    for task in tasks {
        unknown += task.await.unwrap();
    }
    let statistics = client.statistics();
    // Restarts that follow one another closely are one.
    assert!(statistics.recoveries > 0 && statistics.resends > 0, "{statistics:?}");
    // Only a restart makes that, of what was under way.
    assert!(unknown as u64 <= TASKS as u64 * statistics.recoveries, "{unknown}, {statistics:?}");
    client.close().await.unwrap();
    assert_eq!(world.server().metrics().census.opens, 0);
}
