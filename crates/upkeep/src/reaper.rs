use std::sync::Arc;

use environment::Environment;
use tokio_util::sync::CancellationToken;

use crate::{MaintainedVolume, UpkeepConfig, UpkeepError};

/// Takes removed files apart once nobody holds them open: their block versions become garbage, their rows go.
pub struct Reaper<V: ?Sized> {
    volume: Arc<V>,
    env: Environment,
    config: UpkeepConfig,
}

impl<V: MaintainedVolume + ?Sized> Reaper<V> {
    /// Takes the removed files of `volume` apart.
    pub fn new(volume: Arc<V>, env: Environment, config: UpkeepConfig) -> Reaper<V> {
        Reaper { volume, env, config }
    }

    /// Works when there is something to do, and at intervals, until `stop`.
    pub async fn run(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.env.clock.sleep(self.config.reap_interval) => {}
                // Where one file was removed there will be more: they go together.
                () = self.volume.orphans_waiting() => {
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.env.clock.sleep(self.config.reap_rest) => {}
                    }
                }
            }
            // Safe to drop anywhere: each step is a transaction.
            tokio::select! {
                () = stop.cancelled() => return,
                result = self.once() => if let Err(error) = result {
                    tracing::warn!(volume = %self.volume.id(), %error, "removed files could not be taken apart; it is tried again");
                },
            }
        }
    }

    /// Works until nothing is left; how many steps it took.
    pub async fn once(&self) -> Result<u64, UpkeepError> {
        let mut steps = 0;
        while self.volume.reap().await.map_err(UpkeepError::volume("taking removed files apart"))? {
            steps += 1;
        }
        Ok(steps)
    }
}
