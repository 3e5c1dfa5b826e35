//! A file system in memory.
