//! Another gateway with the same identity: whoever comes second stops (decision 33).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use backup::{BackupError, Maker, Rival, Who};
use tokio::sync::Notify;

use crate::StartError;
use crate::backups::StoredState;
use crate::node::Node;
use crate::scrubs::time;

/// How long a start waits for clouds to say who else goes on; they are asked again in the background.
const WAIT: Duration = Duration::from_secs(5);

/// Who else goes on, once that is known. Nothing is deleted in clouds from then on.
#[derive(Clone, Default)]
pub(crate) struct Rivals(Arc<Known>);

#[derive(Default)]
struct Known {
    problem: OnceLock<String>,
    told: Notify,
}

impl Rivals {
    /// Whether somebody else goes on.
    pub fn is_any(&self) -> bool {
        self.0.problem.get().is_some()
    }

    /// Returns when somebody else goes on. For one who waits.
    pub async fn found(&self) -> String {
        loop {
            let told = self.0.told.notified();
            if let Some(problem) = self.problem() {
                return problem;
            }
            told.await;
        }
    }

    /// What is wrong and what to do; `None`: nobody is known.
    pub fn problem(&self) -> Option<String> {
        self.0.problem.get().cloned()
    }
}

fn problem(rival: &Rival) -> String {
    let way_out = match rival.is {
        Who::Successor | Who::Copy => {
            "If that one is wanted, remove this data folder. If this one is, stop that one for good and start this one with --take-over"
        }
        Who::Original => {
            "If that one is wanted, remove this data folder. If not, stop it for good and restore once more, into another folder: that has \
             what it has stored since. To go on from here all the same: --take-over"
        }
        Who::Unknown => {
            "To get back what they have: `kurma restore`, into another folder. To go on with what is here, and without what they have: --take-over"
        }
    };
    format!(
        "{rival}; that was at {}. Two gateways with one identity would delete what the other needs, so this one stops: it stores and deletes nothing more. {way_out}",
        time(rival.time.seconds)
    )
}

impl Node {
    /// The text of an error; a rival is remembered.
    pub fn told(&self, error: BackupError) -> String {
        let BackupError::Rival(rival) = error else { return error.to_string() };
        let rivals = &self.backups.rivals.0;
        let problem = rivals.problem.get_or_init(|| problem(&rival)).clone();
        rivals.told.notify_one();
        tracing::error!("{problem}");
        problem
    }

    /// Asks all clouds who else goes on, and claims the backups for this gateway.
    pub async fn hold(&self) -> Result<(), String> {
        let mut making = self.backups.making.lock().await;
        if making.maker.is_some() {
            return Ok(());
        }
        let places = self.backup_places(&self.backup_clouds());
        let mut writer = self.new_writer(&places).await?;
        let held = writer.hold(&places, &StoredState(&self.store)).await;
        held.map_err(|error| self.told(error))?;
        making.maker = Some(Maker::new(writer));
        Ok(())
    }

    /// As [`Node::hold`], for as long as a start may take.
    ///
    /// # Errors
    /// Somebody else goes on.
    pub async fn hold_at_start(&self) -> Result<(), StartError> {
        if !self.config.backup.is_on() {
            return Ok(());
        }
        let held = tokio::select! {
            held = self.hold() => held,
            () = self.environment.clock.sleep(WAIT) => Err("the clouds take their time".into()),
        };
        match (held, self.backups.rivals.problem()) {
            (_, Some(problem)) => {
                self.stop.cancel();
                Err(StartError::Configuration(problem))
            }
            (Err(problem), None) => {
                tracing::warn!(
                    problem,
                    "whether another gateway has this one's identity is not known yet; it is asked again"
                );
                Ok(())
            }
            (Ok(()), None) => Ok(()),
        }
    }
}
