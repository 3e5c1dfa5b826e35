//! Work behind the scenes: write-back, garbage collection, scrub and repair.
