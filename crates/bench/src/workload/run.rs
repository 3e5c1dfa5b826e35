//! One run of a workload: what it needs before, all clients at once, what it leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures::stream::{self, StreamExt, TryStreamExt};
use nfs4::OpenHow;
use nfs4_client::operations::unchecked;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::Client;
use super::data::RANDOM_FILE;
use super::lane::Lane;
use super::{PASSES, Workload};
use crate::arrivals::{Pace, Pacer, drive};
use crate::kernel::Totals;
use crate::latency::Latencies;

/// What a run did.
pub struct Done {
    pub seconds: f64,
    pub units: u64,
    /// What the clients sent.
    pub traffic: Totals,
    pub latencies: Latencies,
    /// Between the first and the last lane that began.
    pub skew: Duration,
    /// Delegations that were recalled.
    pub recalls: u64,
}

/// Those that work, and those that only hold something.
fn split(workload: Workload, clients: &[Arc<Client>]) -> (&[Arc<Client>], &[Arc<Client>]) {
    match workload.further_clients() {
        0 => (clients, &[]),
        further => {
            let (others, working) = clients.split_at(clients.len() - further);
            (working, others)
        }
    }
}

/// Units of each client that works, however many there are.
fn share(workload: Workload, clients: &[Arc<Client>], amount: u64) -> u64 {
    (amount / split(workload, clients).0.len() as u64).max(PASSES)
}

/// Prepares what `workload` needs and does not measure. What lasts is made `first` only.
pub async fn prepare(
    workload: Workload,
    clients: &[Arc<Client>],
    amount: u64,
    shrink: u64,
    first: bool,
) -> Result<()> {
    let (share, (working, others)) = (share(workload, clients, amount), split(workload, clients));
    match workload {
        Workload::List if first => working[0].make_tree(shrink).await?,
        Workload::LockedRead { .. } if first => working[0].make_shared(shrink).await?,
        Workload::Recall { .. } => working[0].make_shared(shrink).await?,
        _ => {}
    }
    each(others, move |client| async move {
        match workload {
            Workload::Recall { delegated } => client.hold_all(shrink, delegated).await,
            _ => Ok(()),
        }
    })
    .await?;
    each(working, move |client| async move {
        match workload {
            Workload::SequentialReadWarm if first => client.fill(share / PASSES).await,
            Workload::SequentialReadCold if first => client.fill(share).await,
            Workload::RandomRead(_) | Workload::RandomWrite(_) if first => client.fill(RANDOM_FILE).await,
            Workload::Stat if first => client.create_all(share / PASSES).await,
            Workload::Unlink => client.create_all(share).await,
            Workload::SmallRead(size) if first => {
                let content = client.content(size as usize);
                let files = stream::iter((0..share).map(|at| client.write_small(at, &content)));
                files.buffer_unordered(16).try_collect().await
            }
            Workload::VectorWrite(_) => client.vectors().await.map(drop),
            Workload::Mix(_) if first => client.make_mix_files(shrink).await,
            Workload::Load(personality) if first => client.make_set(personality).await,
            _ => Ok(()),
        }
    })
    .await
}

/// Runs `workload` over all clients at once.
pub async fn run(
    workload: Workload,
    clients: &[Arc<Client>],
    amount: u64,
    shrink: u64,
    pace: Pace,
) -> Result<Done> {
    let (share, (working, _)) = (share(workload, clients, amount), split(workload, clients));
    each(working, move |client| async move {
        match workload {
            Workload::SequentialWrite => client.open_big(unchecked(0o644)).await,
            Workload::SequentialReadWarm
            | Workload::SequentialReadCold
            | Workload::RandomRead(_)
            | Workload::RandomWrite(_) => client.open_big(OpenHow::NoCreate).await,
            _ => Ok(()),
        }
    })
    .await?;
    let sent = |clients: &[Arc<Client>]| {
        clients.iter().fold(Totals::default(), |sum, client| sum + client.traffic())
    };
    let recalls = |clients: &[Arc<Client>]| clients.iter().map(|client| client.recalls()).sum::<u64>();
    let (before, recalled) = (sent(clients), recalls(clients));

    let lanes = workload.lanes(pace != Pace::Closed);
    let (pacer, turns) = Pacer::new(pace, share, working.len());
    let barrier = Arc::new(Barrier::new(working.len() * lanes + 1));
    let mut tasks = JoinSet::new();
    for (client, turns) in working.iter().zip(turns) {
        let (next, left) = (Arc::<AtomicU64>::default(), Arc::new(AtomicUsize::new(lanes)));
        let content = client.content(workload.content_bytes());
        for number in 0..lanes {
            let (next, content) = (next.clone(), content.clone());
            let lane = Lane::new(workload, client.clone(), number, next, content, share, shrink);
            let (client, barrier) = (client.clone(), barrier.clone());
            let (turns, left) = (turns.clone(), left.clone());
            tasks.spawn(async move {
                barrier.wait().await;
                let begun = Instant::now();
                drive(lane, turns, &client.recorder).await?;
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    finish(workload, &client).await?;
                }
                anyhow::Ok(begun)
            });
        }
    }
    barrier.wait().await;
    let (mut first, mut last) = (Instant::now(), None);
    pacer.start(first);
    while let Some(begun) = tasks.join_next().await {
        let begun = begun??;
        (first, last) = (first.min(begun), last.max(Some(begun)));
    }
    let seconds = first.elapsed().as_secs_f64();
    let traffic = sent(clients) - before;
    let mut latencies = Latencies::default();
    working.iter().for_each(|client| latencies.add(&client.recorder.take()));
    each(
        working,
        |client| async move { if client.big().is_ok() { client.close_big().await } else { Ok(()) } },
    )
    .await?;
    Ok(Done {
        seconds,
        units: share * working.len() as u64,
        traffic,
        latencies,
        skew: last.map_or(Duration::ZERO, |last| last - first),
        recalls: recalls(clients) - recalled,
    })
}

/// What comes after the last operation of a client, and counts.
async fn finish(workload: Workload, client: &Client) -> Result<()> {
    if workload == Workload::SequentialWrite {
        let asked = Instant::now();
        client.commit_big().await?;
        client.recorder.beside("commit", asked.elapsed());
    }
    Ok(())
}

/// Removes what a repetition has left; after the `last` one, everything.
pub async fn clean(workload: Workload, clients: &[Arc<Client>], last: bool) -> Result<()> {
    each(split(workload, clients).0, move |client| async move {
        match workload {
            Workload::Create => client.remove_all("f").await,
            Workload::SmallWrite(_) => client.remove_all("s").await,
            Workload::VectorWrite(_) => client.remove_all("v").await,
            Workload::Stat if last => client.remove_all("f").await,
            Workload::SmallRead(_) if last => client.remove_all("s").await,
            Workload::Mix(_) if last => client.remove_all("m").await,
            Workload::Load(personality) if last => client.remove_set(personality).await,
            Workload::Load(personality) => client.turn_back(personality).await,
            _ => Ok(()),
        }
    })
    .await
}

async fn each<F, T>(clients: &[Arc<Client>], work: F) -> Result<()>
where
    F: Fn(Arc<Client>) -> T,
    T: Future<Output = Result<()>> + Send + 'static,
{
    let mut tasks: JoinSet<Result<()>> = clients.iter().map(|client| work(client.clone())).collect();
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
