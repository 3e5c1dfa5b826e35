//! Every driver, those of the machine itself and all others against a real server of their protocol, which the tests start themselves (`tests/servers`); Google's is
//! a stand-in, because there is none that speaks the interface in use, and so is the identity service in front of Swift.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // all of this is a test

mod azure;
mod gcs;
mod gcs_stand_in;
mod hard;
mod keystone;
mod local;
mod proxy;
mod s3;
mod server;
mod sftp;
mod swift;
mod trial;
mod webdav;
