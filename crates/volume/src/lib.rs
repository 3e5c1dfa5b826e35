//! File-system trees over metadata, cache and blocks.
