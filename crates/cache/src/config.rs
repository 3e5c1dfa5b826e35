use std::path::PathBuf;
use std::time::Duration;

use journal::WriterKind;

/// Budgets of a node's cache.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Memory for file data, in bytes, all uses together; at least 16 MiB. Three eighths are for dirty data, but no more than the journal
    /// holds; an eighth, 256 MiB at most, for blocks on their way from the clouds; an eighth, 128 MiB at most, for those on their way to
    /// the disk tier; the rest for clean blocks.
    pub memory: u64,
    /// Most bytes of dirty data's bookkeeping, 320 for each range that was written at once; beyond a volume's share of
    /// it [`Cache::admit`](crate::Cache::admit) makes its writers wait.
    pub bookkeeping: u64,
    /// Most bytes of the journal that dirty data may take; beyond a volume's share of it its writers wait. What
    /// [`JournalConfig::most_kept`](journal::JournalConfig::most_kept) says.
    pub journal: u64,
    /// Size of the disk tier in bytes; zero turns it off.
    pub disk: u64,
    /// Where the disk tier lives: a directory of its own.
    pub directory: PathBuf,
    /// Where the disk tier is written.
    pub disk_writer: WriterKind,
    /// The largest readahead window of one sequential reader, in bytes; zero turns readahead off.
    pub readahead: u64,
    /// How long a block rests after its last change before it is written back, unless it is full, flushed, or
    /// space is short (`K52`). A block that keeps changing is written back after six times this.
    pub write_back_wait: Duration,
}

impl CacheConfig {
    /// 256 MiB of memory, no bound on the journal, no disk tier, 16 MiB of readahead, five seconds of rest.
    pub fn new(directory: PathBuf) -> CacheConfig {
        CacheConfig {
            memory: 256 << 20,
            bookkeeping: 64 << 20,
            journal: u64::MAX,
            disk: 0,
            directory,
            disk_writer: WriterKind::Thread,
            readahead: 16 << 20,
            write_back_wait: Duration::from_secs(5),
        }
    }

    /// Clean blocks, those included that were loaded ahead.
    pub(crate) fn clean_memory(&self) -> u64 {
        self.memory - self.dirty_memory() - self.fetch_memory() - self.disk_queue_memory()
    }

    /// Blocks that were loaded ahead and wait for their reader.
    pub(crate) fn unread_memory(&self) -> u64 {
        (self.clean_memory() / 4).min(512 << 20)
    }

    pub(crate) fn dirty_memory(&self) -> u64 {
        (self.memory / 8 * 3).min(self.journal)
    }

    pub(crate) fn fetch_memory(&self) -> u64 {
        (self.memory / 8).min(256 << 20)
    }

    pub(crate) fn disk_queue_memory(&self) -> u64 {
        if self.disk == 0 { 0 } else { (self.memory / 8).min(128 << 20) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_do_not_need_is_for_clean_blocks() {
        let mut config = CacheConfig::new("here".into());
        for (mib, clean, unread) in [(16, 6, 1), (256, 96, 24), (6144, 4736, 512)] {
            (config.memory, config.journal, config.disk) = (mib << 20, 1024 << 20, 1);
            assert_eq!(config.clean_memory() >> 20, clean, "{mib}");
            assert_eq!(config.unread_memory() >> 20, unread, "{mib}");
            config.disk = 0;
            assert_eq!(config.clean_memory() >> 20, clean + (mib / 8).min(128), "{mib}");
        }
    }
}
