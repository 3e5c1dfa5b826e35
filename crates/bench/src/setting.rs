//! What every benchmark is told.

use std::path::PathBuf;

use anyhow::Result;
use tempfile::TempDir;

/// How often, where, and with which gateway.
#[derive(clap::Args)]
pub struct Setting {
    /// Folder of the report
    #[arg(long, default_value = "bench-report")]
    out: PathBuf,
    /// Repetitions
    #[arg(long, default_value_t = 3)]
    pub repeat: usize,
    /// Where servers keep their data; a folder on the disk to measure
    #[arg(long, default_value = "target/bench-data")]
    work: PathBuf,
    /// The gateway's binary [default: the one beside this]
    #[arg(long, default_value_os_t = beside("kurma"), hide_default_value = true)]
    pub kurma: PathBuf,
    /// Divides all sizes and counts, for a quick look
    #[arg(long, default_value_t = 1)]
    pub shrink: usize,
}

/// A program of the same build.
fn beside(name: &str) -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name(name)
}

impl Setting {
    /// Makes the folders: that of the report, and one for the data of this run.
    pub fn folder(&self) -> Result<TempDir> {
        std::fs::create_dir_all(&self.out)?;
        std::fs::create_dir_all(&self.work)?;
        let work = self.work.canonicalize()?;
        Ok(tempfile::Builder::new().prefix("run-").tempdir_in(work)?)
    }

    /// Where a file of the report belongs.
    pub fn report(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }
}
