use nfs4_server::Limits;
use serde::{Deserialize, Serialize};

use super::ByteSize;

/// Bounds on what NFS clients may have. One address (64 bits of IPv6) may have as much of each as it leaves free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NfsLimitsConfig {
    /// Connections, at most half of the file descriptors that the gateway may have.
    pub connections: usize,
    /// Clients that are known at one time.
    pub clients: usize,
    /// Memory for requests that are being read and replies that are being written, beside 64KiB for each connection.
    pub traffic: ByteSize,
}

impl Default for NfsLimitsConfig {
    fn default() -> NfsLimitsConfig {
        let Limits { connections, clients, traffic_bytes, .. } = Limits::default();
        NfsLimitsConfig { connections, clients, traffic: ByteSize::mib(traffic_bytes as u64 >> 20) }
    }
}

impl NfsLimitsConfig {
    /// What cannot be meant.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.connections < 2 || self.clients < 2 {
            return Err("at least 2 connections and 2 clients, or nobody could come".into());
        }
        // A few of the largest requests.
        if self.traffic < ByteSize::mib(32) {
            return Err(format!("traffic: {} is too small: at least 32MiB", self.traffic));
        }
        Ok(())
    }

    /// As the server takes them. Connections take half of the file descriptors (`None`: as many as there are numbers) at the
    /// most; cache and clouds need theirs.
    pub(crate) fn limits(&self, descriptors: Option<u64>) -> Limits {
        let half = descriptors.map_or(usize::MAX, |all| usize::try_from(all / 2).unwrap_or(usize::MAX));
        Limits {
            connections: self.connections.min(half),
            clients: self.clients,
            traffic_bytes: usize::try_from(self.traffic.bytes()).unwrap_or(usize::MAX),
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Config;

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        let limits = NfsLimitsConfig::default();
        assert_eq!(limits.limits(Some(1024)).connections, 512);
        assert_eq!(limits.limits(Some(1 << 20)), Limits::default());
        assert_eq!(limits.limits(None), Limits::default());
    }

    #[test]
    fn limits_are_read_and_too_small_ones_refused() {
        let parse = |text: &str| Config::parse(&format!("[nfs.limits]\n{text}"), Path::new("k.toml"));
        let limits =
            parse("connections = 100\nclients = 50\ntraffic = '64MiB'").unwrap().nfs.limits.limits(None);
        assert_eq!((limits.connections, limits.clients, limits.traffic_bytes), (100, 50, 64 << 20));
        for wrong in ["connections = 0", "clients = 1", "traffic = '1MiB'"] {
            assert!(parse(wrong).unwrap_err().to_string().contains("nfs.limits: "), "{wrong}");
        }
    }
}
