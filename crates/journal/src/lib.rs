//! A group-committed, sealed write-ahead journal that also holds dirty file data.
