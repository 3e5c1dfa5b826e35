//! Volumes over the real metadata store, journal and cache, with clouds in memory.

mod attempts;
mod blocks_and_versions;
mod checks;
mod clones;
mod concurrent_clones;
mod conformance;
mod crash;
mod directories;
mod files;
mod keys;
mod keys_of_packs;
mod large_clones;
mod leaks;
mod listings;
mod migration;
mod model;
mod node;
mod packs;
mod records;
mod registry;
mod removal;
mod scale;
mod scan_marks;
mod sparse;
mod spread;
