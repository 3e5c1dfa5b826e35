//! The disk below a folder: how often it was told to make safe what it has in its own memory. Who does not tell it has nothing there
//! after a loss of power, whatever he calls it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Flushes in `/sys/block/DISK/stat` (Documentation/block/stat.rst), from 0.
const FLUSHES: usize = 15;

/// Flushes of the disk that this folder is on, since the machine was started; `None` if the kernel does not count them.
pub fn flushes(folder: &Path) -> Option<u64> {
    let device = std::fs::metadata(folder).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}")).canonicalize().ok()?;
    // Those of a partition are counted for the whole.
    let disk = if device.join("partition").exists() { device.parent()? } else { &device };
    parsed(&std::fs::read_to_string(disk.join("stat")).ok()?)
}

fn parsed(stat: &str) -> Option<u64> {
    stat.split_whitespace().nth(FLUSHES)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_before_5_5_do_not_count_flushes() {
        let old = "   80 0 640 10 3 0 24 1 0 5 11 0 0 0 0";
        assert_eq!(parsed(old), None);
        assert_eq!(parsed(&format!("{old} 17 4\n")), Some(17));
    }
}
