//! Authenticated encryption of blocks, and the keys for it.
