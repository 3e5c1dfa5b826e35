//! Limits that every implementation shares, so that a file can move between them.

/// Largest size of a file in bytes: 1 EiB. Writes and truncations beyond end in
/// [`FsError::TooLarge`](crate::FsError::TooLarge).
pub const MAX_FILE_SIZE: u64 = 1 << 60;

/// Most names that an object other than a directory can have.
pub const MAX_LINKS: u32 = 1_000_000;

/// Longest value of an extended attribute, in bytes.
pub const MAX_XATTR_VALUE: usize = 64 << 10;

/// Most extended attributes of one object.
pub const MAX_XATTRS: usize = 1024;

/// Smallest cookie of a directory entry; protocols use those below for `.` and `..`.
pub const FIRST_COOKIE: u64 = 3;
