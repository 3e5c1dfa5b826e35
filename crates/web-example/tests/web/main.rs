//! The web server as its clients see it, and in how many round trips to the server of the files.

#![allow(clippy::unwrap_used)] // tests, helpers included

mod ahead;
mod connections;
mod files;
mod hostile;
mod world;
