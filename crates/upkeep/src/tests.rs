//! Tests of the loops over a small volume in memory, real cache and block store, and faulty clouds.

mod clouds_fail;
mod collect;
mod commits;
mod gate;
mod life;
mod scrubs;
mod small_volume;
mod world;
