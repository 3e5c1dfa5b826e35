//! What is done with a tree, in plain requests and in atomic ones.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use vector_client::{Client, CopyOptions, Options};

use super::{Cost, Transactions, line};
use crate::peer::{Kurma, Peer, write_out};
use crate::tree::{Tree, check_gone};

/// Each once in every repetition, in this order.
const ACTS: [Act; 4] = [Act::Copy, Act::Remove, Act::Unpack, Act::Remove];

#[derive(Clone, Copy, PartialEq)]
enum Act {
    /// From a local directory.
    Copy,
    Unpack,
    Remove,
}

impl Act {
    fn name(self) -> &'static str {
        match self {
            Act::Copy => "cp -r",
            Act::Unpack => "untar",
            Act::Remove => "rm -r",
        }
    }
}

/// A tree of this machine, packed and not.
struct Trees {
    tree: Tree,
    local: Client,
    folder: TempDir,
    kurma: PathBuf,
}

/// The rows of the report.
pub async fn rows(server: &mut Kurma, arguments: &Transactions, folder: &Path) -> Result<Vec<String>> {
    let setting = &arguments.setting;
    let folder = tempfile::tempdir_in(folder)?;
    let trees = Trees {
        tree: Tree::of(setting.shrink),
        local: Client::local(folder.path())?,
        kurma: setting.kurma.canonicalize()?,
        folder,
    };
    trees.tree.make(&trees.local, "/tree").await?;
    trees.tree.archive(&trees.archive())?;
    let mut costs: [[Cost; 2]; 3] = Default::default();
    let begun = Instant::now();
    for repetition in 0..arguments.at_most.max(setting.repeat) {
        if arguments.is_enough(repetition, begun, costs.iter()) {
            break;
        }
        server.command(&["gc"])?;
        // Neither is always the first.
        for kind in [repetition % 2, 1 - repetition % 2] {
            let options = Options { cache_bytes: 0, atomic: kind == 1, ..Options::default() };
            let client = Client::connect(server.address(), options).await?;
            for act in ACTS {
                server.settle()?;
                write_out();
                let (before, start) = (client.statistics().round_trips, Instant::now());
                trees.run(act, &client, server, kind == 1).await?;
                let cost = &mut costs[act as usize][kind];
                cost.seconds.push(start.elapsed().as_secs_f64());
                cost.round_trips = client.statistics().round_trips - before;
                trees.check(act, &client, server).await?;
            }
            client.close().await?;
        }
    }
    let rows = [Act::Copy, Act::Unpack, Act::Remove].into_iter().zip(&costs);
    Ok(rows.map(|(act, costs)| line(&format!("{} of the tree", act.name()), 1, "", costs)).collect())
}

impl Trees {
    fn archive(&self) -> PathBuf {
        self.folder.path().join("tree.tar")
    }

    async fn run(&self, act: Act, client: &Client, server: &Kurma, atomic: bool) -> Result<()> {
        let made = made(server);
        match act {
            Act::Copy => {
                let copies = vec![("/tree".into(), made.as_str().into())];
                let options = CopyOptions::default();
                let failed = self.local.cp_recursive(copies, client, &options, &mut ()).await?;
                ensure!(failed == 0, "{failed} files were not copied");
            }
            Act::Unpack => {
                client.ensure_directory(made.as_str(), 0o755).await?;
                let mut untar = Command::new(&self.kurma);
                untar.args(["untar", "-f"]).arg(self.archive());
                untar.arg("-C").arg(format!("nfs://{}{made}", server.address()));
                untar.args(atomic.then_some("--atomic"));
                let output = tokio::task::block_in_place(|| untar.output()).context("the kurma binary")?;
                ensure!(output.status.success(), "{untar:?}: {}", String::from_utf8_lossy(&output.stderr));
            }
            Act::Remove => {
                let failed = client.rm_recursive(vec![made.as_str().into()], |_| {}).await?;
                ensure!(failed == 0, "{failed} files were not removed");
            }
        }
        Ok(())
    }

    async fn check(&self, act: Act, client: &Client, server: &Kurma) -> Result<()> {
        match act {
            Act::Remove => check_gone(client, &made(server)).await,
            Act::Copy | Act::Unpack => self.tree.check(client, &made(server)).await,
        }
    }
}

fn made(server: &Kurma) -> String {
    server.export().iter().map(|name| format!("/{name}")).collect::<String>() + "/made"
}
