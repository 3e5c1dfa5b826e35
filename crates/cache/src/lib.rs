//! Dirty file data, clean blocks in memory and on disk, readahead.
