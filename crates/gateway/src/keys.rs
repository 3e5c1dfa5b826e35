//! Keys of volumes while the gateway runs: new epochs, and the pass that follows them (decision 27).

use std::sync::Arc;
use std::time::Duration;

use meta::MetaStore;
use seal::{GatewayKeyPair, KeyFile};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::StartError;
use crate::node::{Node, Served};
use crate::node_rows::Openers;

/// How often it is looked whether there is something to do.
const INTERVAL: Duration = Duration::from_millis(500);
/// It is looked every so many times whether a shredding has to go on.
const SHREDDING: u64 = 10;
/// The rest between two steps.
const REST: Duration = Duration::from_millis(10);

/// Bytes as text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

/// The key pair of a key file that belongs to what is in a store.
///
/// # Errors
/// The key file and the store are not of the same time: keys were shredded in between.
pub(crate) async fn keys_in_force(
    key: &KeyFile,
    store: &dyn MetaStore,
) -> Result<GatewayKeyPair, StartError> {
    let openers = Openers::load(store).await.map_err(StartError::configuration)?;
    let needed = openers.map_or(key.generation().min(1), |openers| openers.generation);
    if (key.oldest_generation()..=key.generation()).contains(&needed) {
        return Ok(key.gateway_keys_of(needed));
    }
    let since = openers.map_or(0, |openers| openers.since.seconds);
    Err(StartError::Configuration(match needed > key.generation() {
        true => format!(
            "keys were shredded at {since} (seconds since 1970), and this key was written down before that (generation {} of {needed}): it opens nothing \
             any more. Use the recovery file that was made by `kurma key shred` then, or one that was exported later",
            key.generation()
        ),
        false => format!(
            "this is from before keys were shredded (generation {needed} of {}), and the keys that it needs are destroyed. Use a later backup or dump",
            key.oldest_generation()
        ),
    }))
}

impl Node {
    /// Puts another key file in the place of the gateway's.
    pub fn replace_key_file(&self, key: KeyFile) -> Result<(), seal::KeyFileError> {
        let mut known = self.key.lock();
        seal::replace_key_file(&self.config.gateway.key_file, &key)?;
        *known = key;
        Ok(())
    }

    /// Puts all keys of files under the present keys of their volumes' epochs, again and again until `stop`.
    pub async fn keep_keys(self: Arc<Self>, stop: CancellationToken) {
        for round in 0_u64.. {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.environment.clock.sleep(INTERVAL) => {}
            }
            if round % SHREDDING == 0 {
                tokio::select! {
                    () = stop.cancelled() => return,
                    result = self.resume_shredding() => if let Err(problem) = result {
                        tracing::warn!(?problem, "a shredding that was begun is not done yet; it is tried again");
                    },
                }
            }
            for served in self.served() {
                // Safe to drop anywhere: each step is a transaction.
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.rekey(&served) => {}
                }
            }
        }
    }

    /// Until nothing is left to do, or something is wrong.
    async fn rekey(&self, served: &Served) {
        loop {
            match served.volume.rekey().await {
                Ok(true) => self.environment.clock.sleep(REST).await,
                Ok(false) => return,
                Err(error) => {
                    let volume = served.volume.name();
                    tracing::warn!(volume, %error, "keys of files could not be put under the present key; it is tried again");
                    return;
                }
            }
        }
    }

    /// Begins a new epoch of a volume's keys.
    pub async fn rotate_keys(&self, volume: &str) -> Result<u32, volume::VolumeError> {
        Ok(self.volumes.rotate_keys(volume).await?.0)
    }

    /// Until no key of a file needs a key of an epoch before. The number of keys that were put under the present one.
    pub async fn rekeyed(&self, served: &Served) -> u64 {
        while served.volume.key_progress().old_epochs > 0 {
            self.environment.clock.sleep(REST).await;
        }
        served.volume.key_progress().rewrapped
    }

    /// The epochs of a volume's keys.
    pub fn key_progress(served: &Served) -> Value {
        let progress = served.volume.key_progress();
        let ids = served.volume.epoch_key_ids();
        json!({
            "epoch": progress.epoch.0,
            "old_epochs": progress.old_epochs,
            "rows": progress.rows,
            "rewrapped": progress.rewrapped,
            "keys": ids.iter().map(|(epoch, id)| json!({ "epoch": epoch.0, "id": hex(id) })).collect::<Vec<_>>(),
        })
    }
}
