//! Vectors against one operation at a time, and against the Python package nfs4fs, over lines of different delays.

mod baseline;
mod chart;
mod contender;
mod degree;
mod delay;
mod foreign;
mod ours;
mod page;
mod place;
mod report;
mod scene;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use vector_client::{Client, Options, Removal};

use crate::peer::{Ganesha, Kurma, Names, Peer};
use crate::sample::estimate;
use crate::setting::Setting;
use crate::tree::Tree;
use delay::Line;
use place::Place;
use report::Run;
use scene::{Known, Scene};

/// What to measure.
#[derive(clap::Args)]
pub struct Vectors {
    #[command(flatten)]
    setting: Setting,
    /// Delays in milliseconds, each way
    #[arg(long, value_delimiter = ',', default_value = "0,0.2,1,5,30")]
    delays: Vec<f64>,
    /// Delays for calls with 1 to 256 elements
    #[arg(long, value_delimiter = ',', default_value = "0.2,5")]
    degree_delays: Vec<f64>,
    /// Only workloads and calls whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Seconds after which one operation at a time and nfs4fs are stopped over all lines but the first (which is to be the
    /// one with the shortest delay): hours otherwise. Their time is then in proportion to the round trips made
    #[arg(long)]
    patience: Option<u64>,
    /// Servers to leave out
    #[arg(long, value_delimiter = ',', default_value = "ganesha")]
    without: Vec<String>,
    /// A Python that has the package nfs4fs; without it, that is left out
    #[arg(long, default_value = "target/foreign/venv/bin/python")]
    nfs4fs: PathBuf,
}

pub async fn run(arguments: Vectors) -> Result<()> {
    let folder = arguments.setting.folder()?;
    if !arguments.nfs4fs.exists() {
        eprintln!("without nfs4fs, which tests/foreign/install would install");
    }
    let mut peers: Vec<Box<dyn Peer>> =
        vec![Box::new(Kurma::new(&arguments.setting.kurma)?), Box::new(Ganesha::new(Names::Synchronous)?)];
    peers.retain(|peer| {
        !arguments.without.iter().any(|name| !name.is_empty() && peer.name().starts_with(name.as_str()))
    });
    if let Some(reason) = peers.iter().find_map(|peer| peer.not_installed()) {
        bail!("{reason}, or leave it out by --without");
    }
    let tree = Tree::of(arguments.setting.shrink);
    tree.archive(&folder.path().join("tree.tar"))?;
    let (mut rows, mut degrees, mut unmeasured) = (Vec::new(), Vec::new(), Vec::new());
    for (at, peer) in peers.iter_mut().enumerate() {
        let data = folder.path().join(at.to_string());
        peer.start(&data).with_context(|| format!("starting {}", peer.name()))?;
        let near = Client::connect(peer.address(), Options::default()).await?;
        let export: String = peer.export().iter().map(|name| format!("/{name}")).collect();
        let mut known = Known::default();
        for delay in &arguments.delays {
            let line = Line::to(peer.as_ref(), Duration::from_secs_f64(delay / 1000.0))?;
            let base = format!("{export}/line-{delay}");
            let scene = Scene { arguments: &arguments, near: &near, line, delay: *delay, tree: &tree };
            if let Err(error) = Place::make_common(&near, &base, &tree).await {
                eprintln!("{}, {delay} ms: {error:#}", peer.name());
                unmeasured.push(format!("{} over {delay} ms", peer.name()));
                continue;
            }
            rows.extend(scene.run(peer.as_mut(), &export, &base, folder.path(), &mut known).await?);
            clean(&near, &base).await;
        }
        for delay in &arguments.degree_delays {
            let line = Line::to(peer.as_ref(), Duration::from_secs_f64(delay / 1000.0))?;
            let base = format!("{export}/degree-{delay}");
            let (repeat, only) = (arguments.setting.repeat, arguments.only.as_str());
            degrees.extend(degree::run(peer.name(), &line, *delay, &near, &base, repeat, only).await);
            clean(&near, &base).await;
        }
        near.close().await.ok();
        peer.kill();
    }
    ensure!(!rows.is_empty() || !degrees.is_empty(), "nothing was measured");
    report::write(&arguments, &rows, &degrees)?;
    ensure!(unmeasured.is_empty(), "not measured: {}", unmeasured.join(", "));
    Ok(())
}

/// Removes what is there no longer needed; it does no harm if it stays.
async fn clean(client: &Client, base: &str) {
    let mut failed = 0;
    let count = |removal: Removal<'_>| {
        failed += u64::from(removal.result.is_err_and(|error| !error.is_not_found()));
    };
    match client.rm_recursive(vec![base.into()], count).await {
        Ok(_) if failed == 0 => {}
        Ok(_) => eprintln!("{base}: {failed} files could not be removed"),
        Err(error) => eprintln!("{base}: {error}"),
    }
}

/// Mean of what was measured.
fn mean(runs: &[Run], what: fn(&Run) -> f64) -> f64 {
    estimate(&runs.iter().map(what).collect::<Vec<_>>()).mean
}
