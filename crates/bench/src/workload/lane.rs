//! One of the operations that a client has on the way, and those after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use bytes::Bytes;
use nfs4_client::OpenFile;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::client::Client;
use super::{PASSES, Workload, mix, names};
use crate::arrivals::Work;
use crate::personality::Act;

/// What does them.
pub(super) struct Lane {
    workload: Workload,
    client: Arc<Client>,
    /// Of all lanes of the client: the next unit.
    next: Arc<AtomicU64>,
    share: u64,
    shrink: u64,
    random: SmallRng,
    /// What it reads and writes in pieces.
    file: Option<OpenFile>,
    content: Bytes,
    script: mix::Script,
    acts: VecDeque<Act>,
}

impl Lane {
    pub fn new(
        workload: Workload,
        client: Arc<Client>,
        number: usize,
        next: Arc<AtomicU64>,
        content: Bytes,
        share: u64,
        shrink: u64,
    ) -> Lane {
        let acts = match workload {
            Workload::Load(personality) => personality.rounds(number).into_iter().flatten().collect(),
            _ => VecDeque::new(),
        };
        let random = SmallRng::seed_from_u64((client.number as u64) << 32 | number as u64);
        let file = client.big().ok();
        Lane {
            workload,
            client,
            next,
            share,
            shrink,
            random,
            file,
            content,
            script: mix::Script::default(),
            acts,
        }
    }

    async fn operation(&mut self, n: u64) -> Result<&'static str> {
        let (client, shrink) = (&self.client, self.shrink);
        if let Some(file) = &self.file {
            let place = self.random.random::<u64>();
            return match self.workload {
                Workload::SequentialWrite => {
                    client.write_piece(file, n, &self.content).await.map(|()| "write")
                }
                Workload::SequentialReadWarm => {
                    client.read_piece(file, n % (self.share / PASSES)).await.map(|()| "read")
                }
                Workload::RandomWrite(_) => {
                    client.random_write(file, place, &self.content).await.map(|()| "write")
                }
                Workload::RandomRead(_) => client.random_read(file, place).await.map(|()| "read"),
                _ => client.read_piece(file, n).await.map(|()| "read"),
            };
        }
        match self.workload {
            Workload::Create => client.create(n).await.map(|()| "create"),
            Workload::Stat => client.stat(n % (self.share / PASSES)).await.map(|()| "stat"),
            Workload::Unlink => client.unlink(n).await.map(|()| "unlink"),
            Workload::List => {
                let at = self.random.random_range(0..names::directories(shrink));
                client.list(at).await.map(|()| "list")
            }
            Workload::SmallWrite(_) => client.write_small(n, &self.content).await.map(|()| "write"),
            Workload::VectorWrite(_) => {
                let files = n..self.share.min(n + self.workload.at_once());
                client.write_vector(files, &self.content).await.map(|()| "write")
            }
            Workload::SmallRead(size) => {
                let at = self.random.random_range(0..self.share);
                client.read_small(at, size).await.map(|()| "read")
            }
            Workload::LockedRead { delegated: false } => {
                client.locked_read(n, shrink).await.map(|()| "locked read")
            }
            Workload::LockedRead { delegated: true } => {
                client.delegated_read(n, shrink).await.map(|()| "locked read")
            }
            Workload::Recall { .. } => client.open_for_writing(n, shrink).await.map(|()| "open"),
            Workload::Mix(reads) => client.mixed(&mut self.script, &mut self.random, reads, shrink).await,
            other => bail!("{} has no operation", other.name()),
        }
    }
}

impl Work for Lane {
    fn is_done(&self) -> bool {
        match self.workload {
            Workload::Load(_) => self.acts.is_empty(),
            _ => self.next.load(Ordering::Relaxed) >= self.share,
        }
    }

    async fn next(&mut self) -> Result<Option<&'static str>> {
        if let Workload::Load(personality) = self.workload {
            let Some(act) = self.acts.pop_front() else { return Ok(None) };
            self.client.act(personality, &act, &self.content).await?;
            return Ok(Some(act.kind()));
        }
        let n = self.next.fetch_add(self.workload.at_once(), Ordering::Relaxed);
        if n >= self.share {
            return Ok(None);
        }
        self.operation(n).await.map(Some)
    }
}
