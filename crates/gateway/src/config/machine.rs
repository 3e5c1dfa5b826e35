//! What this machine has, of which defaults take a share.

use std::path::{Component, Path, PathBuf};

use super::ByteSize;

/// Of the memory that is there: the rest is for metadata, the page cache, and other programs.
const SHARE: u64 = 4;
const LEAST_MIB: u64 = 64;

/// A quarter of the memory that this process may use, in whole MiB, and 64 MiB at least.
pub fn share_of_memory() -> ByteSize {
    let machine = rustix::system::sysinfo();
    let machine = machine.totalram.saturating_mul(u64::from(machine.mem_unit));
    let allowed = group_limit(Path::new("/sys/fs/cgroup"), &own_group()).unwrap_or(u64::MAX);
    ByteSize::mib(((machine.min(allowed) / SHARE) >> 20).max(LEAST_MIB))
}

/// The control group (cgroups, version 2) that this process is in.
fn own_group() -> String {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default().to_owned()
}

/// The least that a control group, and those that it is in, may use, in bytes, if there is a limit.
fn group_limit(root: &Path, group: &str) -> Option<u64> {
    let below = Path::new(group).components().filter(|part| matches!(part, Component::Normal(_)));
    let below: PathBuf = below.collect();
    let limit = |group: &Path| {
        std::fs::read_to_string(root.join(group).join("memory.max")).ok()?.trim().parse::<u64>().ok()
    };
    below.ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_on_the_way_counts() {
        let root = tempfile::tempdir().unwrap();
        let set = |group: &str, limit: &str| {
            std::fs::create_dir_all(root.path().join(group)).unwrap();
            std::fs::write(root.path().join(group).join("memory.max"), format!("{limit}\n")).unwrap();
        };
        assert_eq!(group_limit(root.path(), "a/b"), None);
        set("a/b", "max");
        assert_eq!(group_limit(root.path(), "a/b"), None);
        set("a", "1073741824");
        assert_eq!(group_limit(root.path(), "a/b"), Some(1 << 30));
        set("a/b", "4096");
        assert_eq!(group_limit(root.path(), "a/b"), Some(4096));
        assert_eq!(group_limit(root.path(), "a"), Some(1 << 30));
        assert_eq!(group_limit(root.path(), "../a"), Some(1 << 30));
    }

    #[test]
    fn the_share_is_of_what_this_machine_has() {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
        let total: u64 = total.trim().trim_end_matches(" kB").parse().unwrap();
        let share = share_of_memory();
        assert!(share >= ByteSize::mib(LEAST_MIB));
        assert!(share.bytes() <= (total << 10) / SHARE + (1 << 20) || share == ByteSize::mib(LEAST_MIB));
    }
}
