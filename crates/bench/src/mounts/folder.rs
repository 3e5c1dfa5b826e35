//! The directory of one client, and what it does there.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::personality::{Act, LOG, Personality};
use crate::workload::{MIB, RANDOM, RANDOM_FILE, Workload};

pub struct Folder {
    pub number: usize,
    path: PathBuf,
    /// Held by whoever appends to the log.
    log: Mutex<()>,
}

impl Folder {
    /// Whether system calls can do it, and it is not about the server alone.
    pub fn can(workload: Workload) -> bool {
        !matches!(
            workload,
            Workload::SequentialReadCold
                | Workload::List
                | Workload::VectorWrite(_)
                | Workload::LockedRead { .. }
                | Workload::Recall { .. }
                | Workload::Mix(_)
        )
    }

    pub fn make(base: &Path, number: usize) -> Result<Folder> {
        let path = base.join(format!("client-{number}"));
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Folder { number, path, log: Mutex::default() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The file that is written or read in pieces.
    pub fn big(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        Ok(options.open(self.at("big"))?)
    }

    /// Makes sure that it is there, with so many MiB that were read once.
    pub fn fill(&self, mib: u64, block: &[u8]) -> Result<()> {
        let file = self.big()?;
        (0..mib).try_for_each(|at| file.write_all_at(block, at * MIB))?;
        file.sync_all()?;
        (0..mib).try_for_each(|at| Self::read_piece(&file, at))
    }

    pub fn write_piece(file: &File, at: u64, block: &[u8]) -> Result<()> {
        Ok(file.write_all_at(block, at * MIB)?)
    }

    pub fn read_piece(file: &File, at: u64) -> Result<()> {
        Ok(file.read_exact_at(&mut vec![0; MIB as usize], at * MIB)?)
    }

    pub fn random_read(file: &File, place: u64) -> Result<()> {
        let mut piece = [0; RANDOM as usize];
        Ok(file.read_exact_at(&mut piece, place % (RANDOM_FILE * MIB / RANDOM) * RANDOM)?)
    }

    /// Stable: `fdatasync` comes with it.
    pub fn random_write(file: &File, place: u64, content: &[u8]) -> Result<()> {
        file.write_all_at(&content[..RANDOM as usize], place % (RANDOM_FILE * MIB / RANDOM) * RANDOM)?;
        Ok(file.sync_data()?)
    }

    pub fn create(&self, at: u64) -> Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).open(self.at(&format!("f{at}")))?;
        Ok(())
    }

    pub fn stat(&self, at: u64) -> Result<()> {
        Ok(fs::symlink_metadata(self.at(&format!("f{at}"))).map(drop)?)
    }

    pub fn unlink(&self, at: u64) -> Result<()> {
        Ok(fs::remove_file(self.at(&format!("f{at}")))?)
    }

    pub fn write_small(&self, at: u64, content: &[u8]) -> Result<()> {
        write_new(&self.at(&format!("s{at}")), content)
    }

    pub fn read_small(&self, at: u64) -> Result<Vec<u8>> {
        Ok(fs::read(self.at(&format!("s{at}")))?)
    }

    /// Removes everything in it.
    pub fn remove_all(&self) -> Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }

    pub fn make_set(&self, personality: Personality, content: &[u8]) -> Result<()> {
        fs::create_dir_all(self.at("set"))?;
        for directory in 0..personality.directories() {
            fs::create_dir_all(self.at(&format!("set/{directory}")))?;
        }
        for (name, size) in personality.set() {
            // Not each one to the disk: the run begins when all is.
            fs::write(self.in_set(personality, &name), &content[..size])?;
        }
        Ok(())
    }

    /// Gives the files that the last round has made the names of those that the first has removed.
    pub fn turn_back(&self, personality: Personality) -> Result<()> {
        for (from, to) in personality.turns() {
            fs::rename(self.in_set(personality, &from), self.in_set(personality, &to))?;
        }
        Ok(())
    }

    fn in_set(&self, personality: Personality, name: &str) -> PathBuf {
        self.at("set").join(personality.place(name))
    }

    pub fn act(&self, personality: Personality, act: &Act, content: &[u8]) -> Result<()> {
        let path = self.in_set(personality, act.name());
        match act {
            Act::Create { size, .. } => write_new(&path, &content[..*size]),
            Act::Append { name, size } => {
                let _turn = (name == LOG).then(|| self.log.lock().unwrap_or_else(PoisonError::into_inner));
                let mut file = OpenOptions::new().append(true).open(path)?;
                file.write_all(&content[..*size])?;
                Ok(file.sync_data()?)
            }
            Act::Delete { .. } => Ok(fs::remove_file(path)?),
            Act::Read { .. } => {
                ensure!(!fs::read(path)?.is_empty(), "an empty file");
                Ok(())
            }
            Act::Stat { .. } => Ok(fs::symlink_metadata(path).map(drop)?),
        }
    }
}

/// Makes or replaces a file, which lasts when this returns, by the rules of Linux: `fsync` of a new file brings its name with it.
fn write_new(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .with_context(|| format!("making {}", path.display()))?;
    file.write_all(content)?;
    Ok(file.sync_all()?)
}
