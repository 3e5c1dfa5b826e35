//! A gateway on emulated clouds.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::emulator::Emulator;
use crate::peer::Kurma;

/// What is not the same for all parts.
pub struct Shape {
    pub policy: &'static str,
    pub block_size: &'static str,
    /// Memory of the cache; there is no clean data on the disk.
    pub memory: &'static str,
    pub journal: &'static str,
    /// Of each cloud, in bytes a second.
    pub upload_rate: Option<u64>,
}

/// Starts it on a new data folder.
pub fn start(binary: &Path, data: &Path, clouds: &[Emulator], shape: &Shape) -> Result<Kurma> {
    Kurma::configured(binary, data, &configuration(clouds, shape)?)
}

fn configuration(clouds: &[Emulator], shape: &Shape) -> Result<String> {
    let Shape { policy, block_size, memory, journal, upload_rate } = shape;
    let mut text = format!(
        "[gateway]\nid = 1\ndata = \".\"\nkey_file = \"keys/gateway.key\"\n\
         [cache]\nmemory = \"{memory}\"\ndisk = \"0\"\njournal = \"{journal}\"\nwrite_back_wait = \"500ms\"\n\
         [backup]\ninterval = \"0s\"\n[upkeep]\ngc_delay = \"5m\"\n"
    );
    for cloud in clouds {
        write!(text, "[[cloud]]\nname = \"{}\"\nurl = \"{}\"\n", cloud.name, cloud.url())?;
        if let Some(rate) = upload_rate {
            writeln!(text, "upload_rate = \"{rate}\"")?;
        }
    }
    let names: Vec<&str> = clouds.iter().map(|cloud| cloud.name).collect();
    write!(
        text,
        "[[volume]]\nname = \"home\"\npolicy = \"{policy}\"\nclouds = {names:?}\nblock_size = \"{block_size}\"\n"
    )?;
    Ok(text)
}
