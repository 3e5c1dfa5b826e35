//! Reads and writes in a given ratio: a file is opened, read and written at random places, and closed.

use anyhow::{Context, Result};
use nfs4::OpenHow;
use nfs4_client::OpenFile;
use nfs4_client::operations::unchecked;
use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::MIB;
use super::client::Client;

/// Reads and writes of one open.
pub const OPERATIONS: usize = 60;
/// With OPEN and CLOSE.
const CYCLE: u64 = OPERATIONS as u64 + 2;
/// Files of 1 MiB of each client.
const FILES: u64 = 100;
/// Opens of one repetition.
const OPENS: u64 = 160;
/// Of each read and write, in bytes.
const SIZE: u64 = 4096;

pub(super) fn files(shrink: u64) -> u64 {
    (FILES / shrink).max(4)
}

/// Operations of one repetition: whole cycles for up to 16 clients.
pub(super) fn amount(shrink: u64) -> u64 {
    (OPENS / shrink).max(16) * CYCLE
}

/// The file that a client works on, and what it has still to do with it.
#[derive(Default)]
pub(super) struct Script {
    file: Option<OpenFile>,
    /// Whether the next ones are reads.
    reads: Vec<bool>,
}

impl Client {
    pub(super) async fn make_mix_files(&self, shrink: u64) -> Result<()> {
        let content = self.content(MIB as usize);
        for n in 0..files(shrink) {
            let file = self.open(&format!("m{n}"), unchecked(0o644)).await?;
            self.write_stable(&file, 0, &content).await?;
            self.close(&file).await?;
        }
        Ok(())
    }

    /// The next operation of a cycle of which so many are reads.
    pub(super) async fn mixed(
        &self,
        script: &mut Script,
        random: &mut SmallRng,
        reads: usize,
        shrink: u64,
    ) -> Result<&'static str> {
        let Some(file) = &script.file else {
            let name = format!("m{}", random.random_range(0..files(shrink)));
            script.file = Some(self.open(&name, OpenHow::NoCreate).await?);
            script.reads = (0..OPERATIONS).map(|n| n < reads).collect();
            script.reads.shuffle(random);
            return Ok("open");
        };
        let offset = random.random_range(0..MIB / SIZE) * SIZE;
        match script.reads.pop() {
            Some(true) => self.read_at(file, offset, SIZE as u32).await.map(|()| "read"),
            Some(false) => {
                let content = self.content(SIZE as usize);
                self.write_stable(file, offset, &content).await.map(|()| "write")
            }
            None => {
                let file = script.file.take().context("it is open")?;
                self.close(&file).await.map(|()| "close")
            }
        }
    }
}
