//! Replication and Reed-Solomon coding of sealed blocks into fragments.
