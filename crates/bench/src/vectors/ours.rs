//! Workloads by the vectorized client.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use vector_client::{AttributeSet, Client, CopyOptions, Done, Make, Options, Read, Step, Write};

use super::delay::Line;
use super::page;
use super::place::{Place, at_once};
use super::workload::Workload;
use crate::personality::{Act, Personality};

/// A client that has nothing in memory, and the tools' binary.
pub struct Ours {
    client: Client,
    line: Line,
    kurma: PathBuf,
    /// Of the tools.
    requests: u64,
}

impl Ours {
    pub async fn connect(line: &Line, kurma: PathBuf, workload: Workload) -> Result<Ours> {
        // As long as the kernel believes what it knows of directories (`acdirmin`).
        let mut options = Options { entry_timeout: Duration::from_secs(30), ..Options::default() };
        if workload == Workload::Page {
            // As kurma-web: all in one message, if the server grants it.
            options.transfer = 4 << 20;
        }
        let client = Client::connect(line.address, options).await?;
        Ok(Ours { client, line: line.clone(), kurma, requests: 0 })
    }

    pub async fn close(self) -> Result<()> {
        Ok(self.client.close().await?)
    }

    pub fn round_trips(&self) -> u64 {
        self.client.statistics().round_trips + self.requests
    }

    pub async fn run(&mut self, workload: Workload, place: &Place<'_>) -> Result<()> {
        let client = &self.client;
        match workload {
            Workload::Write { files, size } => {
                let data = Bytes::from(vec![place.fill(); size]);
                let write = |n| Write::whole(place.file(size, n), 0o644, data.clone());
                for start in (0..files).step_by(at_once(size, files)) {
                    let end = files.min(start + at_once(size, files));
                    client.vwrite((start..end).map(write).collect()).await?;
                }
            }
            Workload::Read { files, size } => {
                for start in (0..files).step_by(at_once(size, files)) {
                    let end = files.min(start + at_once(size, files));
                    let read = |n| Read::new(place.file(size, n), 0, size as u64);
                    let data = client.vread((start..end).map(read).collect()).await?;
                    ensure!(data.iter().all(|data| data.len() == size as u64), "a file is too short");
                }
            }
            Workload::ReadAgain { size, times } => {
                for _ in 0..times {
                    let data = client.vread(vec![Read::new(place.again(size), 0, size as u64)]).await?;
                    ensure!(data[0].len() == size as u64, "the file is too short");
                }
            }
            Workload::Stat { files } => {
                let targets = (0..files).map(|n| place.file(1 << 10, n).into()).collect();
                let found = client.vgetattrs(targets, AttributeSet::STAT).await?;
                ensure!(found.iter().all(|it| it.size == Some(1 << 10)), "a file has another size");
            }
            Workload::List => {
                let (mut names, tree) = (0, place.original());
                client.vlistdir(vec![tree.into()], AttributeSet::STAT, true, |_, _| names += 1).await?;
                ensure!(names == place.tree.objects().count(), "{names} names are listed");
            }
            Workload::Copy | Workload::Link => {
                let make = if workload == Workload::Link { Make::SymbolicLink } else { Make::Copy };
                let options = CopyOptions { make, ..CopyOptions::default() };
                let copies = vec![(place.original().into(), place.made(workload).into())];
                let failed = client.cp_recursive(copies, client, &options, &mut ()).await?;
                ensure!(failed == 0, "{failed} files were not copied");
            }
            Workload::Remove => {
                let failed = client.rm_recursive(vec![place.made(workload).into()], |_| {}).await?;
                ensure!(failed == 0, "{failed} files were not removed");
            }
            Workload::Pack => {
                let tree = self.url(&place.original());
                self.tool(Command::new(&self.kurma).args(["tar", "-f"]).arg(&place.packed).arg(tree))?;
            }
            Workload::Unpack { touch } => {
                let into = self.url(&place.made(workload));
                let mut untar = Command::new(&self.kurma);
                untar.args(["untar", "-f"]).arg(&place.archive).arg("-C").arg(into);
                if touch {
                    untar.args(["-m", "-o"]);
                }
                self.tool(&mut untar)?;
            }
            Workload::Page => page::get(client, &place.page()).await?,
            Workload::Load(personality) => {
                let folder = place.load(personality);
                let threads =
                    (0..personality.threads).map(|thread| load(client, personality, thread, &folder));
                try_join_all(threads).await?;
            }
        }
        Ok(())
    }

    fn url(&self, path: &str) -> String {
        format!("nfs://{}{path}", self.line.address)
    }

    /// Runs a tool; its round trips are those of its connection, too.
    fn tool(&mut self, command: &mut Command) -> Result<()> {
        let before = self.line.requests();
        let output = tokio::task::block_in_place(|| command.output()).context("the kurma binary")?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        self.requests += self.line.requests() - before;
        Ok(())
    }
}

/// One thread of a load. All of a round is one vector, what changes files before what asks.
async fn load(client: &Client, personality: Personality, thread: usize, folder: &str) -> Result<()> {
    let data = Bytes::from(vec![b'n'; personality.largest()]);
    let path = |name: &String| format!("{folder}/{name}");
    for acts in personality.rounds(thread) {
        let step = |act: &Act| match act {
            Act::Create { name, size } => {
                let write = Write::whole(path(name), 0o644, data.slice(..*size));
                Step::Write(Write { stable: true, ..write })
            }
            Act::Append { name, size } => {
                Step::Write(Write { stable: true, ..Write::append(path(name), data.slice(..*size)) })
            }
            Act::Delete { name } => Step::Remove(path(name).into()),
            Act::Read { name } => Step::Read(Read::new(path(name), 0, personality.largest() as u64)),
            Act::Stat { name } => {
                Step::GetAttributes { target: path(name).into(), wanted: AttributeSet::STAT, follow: true }
            }
        };
        let done = client.execute(acts.iter().map(step).collect()).await?;
        for done in done {
            match done {
                Done::Read(data) => ensure!(data.end_of_file && !data.is_empty(), "a file is not read whole"),
                Done::Attributes(found) => ensure!(found.size.is_some_and(|size| size > 0), "an empty file"),
                _ => {}
            }
        }
    }
    Ok(())
}
