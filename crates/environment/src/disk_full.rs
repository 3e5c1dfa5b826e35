use std::io;
use std::time::Duration;

/// How long a full disk is left alone before anything is tried there again.
pub const DISK_FULL_PAUSE: Duration = Duration::from_secs(1);

/// Whether a file could not be written as the disk is full, or as the user has had his share of it: that ends when somebody makes
/// room, and is to be waited out where an error would lose something.
pub fn is_disk_full(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_spent_quota_are_waited_out_and_nothing_else_is() {
        for full in [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT] {
            assert!(is_disk_full(&full.into()), "{full}");
        }
        for other in [rustix::io::Errno::IO, rustix::io::Errno::ROFS, rustix::io::Errno::FBIG] {
            assert!(!is_disk_full(&other.into()), "{other}");
        }
    }
}
