//! What this machine has, of which defaults take a share.

use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use super::ByteSize;

/// Of the memory that is there: the rest is for metadata, the page cache, and other programs.
const SHARE: u64 = 4;
const LEAST_MIB: u64 = 64;

const GROUPS: &str = "/sys/fs/cgroup";

/// A quarter of the memory that this process may use, in whole MiB, and 64 MiB at least; as it was when that was first asked for.
pub fn share_of_memory() -> ByteSize {
    static SIZE: OnceLock<ByteSize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let machine = rustix::system::sysinfo();
        let machine = machine.totalram.saturating_mul(u64::from(machine.mem_unit));
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let allowed = group_limit(Path::new(GROUPS), &groups).unwrap_or(u64::MAX);
        ByteSize::mib(((machine.min(allowed) / SHARE) >> 20).max(LEAST_MIB))
    })
}

/// The least that a control group in this list, of version 1 or 2, and those that it is in may use, in bytes, if there is a limit.
fn group_limit(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        match (parts.next()?, parts.next()?) {
            ("", group) => limit_on_the_way(root, group, &["memory.max", "memory.high"]),
            (kinds, group) if kinds.split(',').any(|kind| kind == "memory") => {
                limit_on_the_way(&root.join("memory"), group, &["memory.limit_in_bytes"])
            }
            _ => None,
        }
    });
    limits.min()
}

fn limit_on_the_way(root: &Path, group: &str, files: &[&str]) -> Option<u64> {
    let group = Path::new(group).components().filter(|part| matches!(part, Component::Normal(_)));
    let group: PathBuf = group.collect();
    let limit = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limits = group.ancestors().flat_map(|group| files.iter().map(move |file| group.join(file)));
    limits.filter_map(|file| limit(root.join(file))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_on_the_way_counts() {
        let root = tempfile::tempdir().unwrap();
        let set = |file: &str, limit: &str| {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{limit}\n")).unwrap();
        };
        let limit = |groups: &str| group_limit(root.path(), groups);
        assert_eq!(limit("0::/a/b"), None);
        set("a/b/memory.max", "max");
        assert_eq!(limit("0::/a/b"), None);
        set("a/memory.max", "1073741824");
        assert_eq!(limit("0::/a/b"), Some(1 << 30));
        set("a/b/memory.high", "4096");
        assert_eq!(limit("0::/a/b"), Some(4096));
        assert_eq!(limit("0::/a\n"), Some(1 << 30));
        assert_eq!(limit("0::/../a"), Some(1 << 30));
        set("memory/c/memory.limit_in_bytes", "8192");
        assert_eq!(limit("5:cpu:/c\n4:memory:/c/d:e\n0::/"), Some(8192));
        assert_eq!(limit("5:cpu:/c"), None);
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
