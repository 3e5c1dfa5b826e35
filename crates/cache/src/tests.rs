//! Tests that need the cache as a whole.

mod budget;
mod clean_tier;
mod disk_tier;
mod hold;
mod model;
mod race;
mod single_flight;
mod world;
mod write_back;
