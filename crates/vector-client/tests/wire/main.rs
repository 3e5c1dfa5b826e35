//! Round trips, counted twice: by the client, and by who listens on the wire. Both say the same, and exactly what
//! docs/vectors.md says.

#![allow(clippy::unwrap_used)] // tests, helpers included

mod calls;
mod capture;
mod counted;
mod ganesha;
mod page;
mod relay;
#[path = "../api/world.rs"]
#[allow(dead_code)]
mod world;
