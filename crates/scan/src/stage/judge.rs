use std::collections::VecDeque;

use ids::ObjectId;
use volume::{Marked, ScanState, ScanTarget, VolumeError};

use super::Stage;
use super::file_content::FileContent;
use crate::shared::Counters;
use crate::{Fail, Infected, ScanError, Verdict};

/// Versions in which something was found and which were replaced meanwhile, before the file is quarantined as it is.
const OLDER: u32 = 3;
/// Tries to note something of a file that changes all the time.
const TRIES: usize = 3;

/// What becomes of a file that was held back.
pub(crate) enum Judged {
    /// It goes on.
    Passes,
    /// It is to be shown to the scanner.
    NeedsScan,
    /// Nobody may use it.
    Quarantined,
    /// Something was found in a version that is not the present one any more.
    Changed,
    /// It is tried again.
    Later(String),
}

impl Stage {
    /// Scans a file unless that is settled, and notes what was found; without a slot it only says whether a scan is needed.
    pub(super) async fn judge(&self, object: ObjectId, found_in_older: u32, has_slot: bool) -> Judged {
        match self.try_to_judge(object, found_in_older, has_slot).await {
            Ok(judged) => judged,
            Err(error) => Judged::Later(error.to_string()),
        }
    }

    async fn try_to_judge(
        &self,
        object: ObjectId,
        found_in_older: u32,
        has_slot: bool,
    ) -> Result<Judged, VolumeError> {
        let (shared, volume) = (&self.shared, &self.volume);
        let Some(target) = volume.scan_target(object).await? else { return Ok(Judged::Passes) };
        if volume.is_quarantined(object) {
            return Ok(Judged::Quarantined);
        }
        let mark = volume.scan_mark(object).await?;
        if mark.is_some_and(|mark| mark.state == ScanState::Released && mark.change == target.change) {
            return Ok(Judged::Passes);
        }
        if target.size > shared.config().largest {
            Counters::add(&shared.counters.too_large);
            return Ok(Judged::Passes);
        }
        if !has_slot && !(shared.health().is_away) {
            return Ok(Judged::NeedsScan);
        }
        if !shared.health.may_try(shared.now()) {
            let why = shared.health().last_error.unwrap_or_default();
            return self.not_scanned(object, format!("the scanner is away: {why}")).await;
        }
        match self.scan(object, target).await {
            Ok(Verdict::Clean) => {
                volume.mark_clean(object).await?;
                Ok(Judged::Passes)
            }
            Ok(Verdict::Infected(name)) => self.found(object, target, &name, found_in_older).await,
            Err(error) => self.not_scanned(object, error.to_string()).await,
        }
    }

    /// Shows a file to the scanner, and counts how that went.
    pub(crate) async fn scan(&self, object: ObjectId, target: ScanTarget) -> Result<Verdict, ScanError> {
        let shared = &self.shared;
        let mut content = FileContent { stage: self, object, target, at: 0, parts: VecDeque::new() };
        let scanned = shared.scanner.scan(&mut content).await;
        match &scanned {
            Err(error) if error.is_of_scanner() => shared.health.failed(shared.now(), error),
            Err(ScanError::Content(_)) => shared.health.gave_up(),
            _ => shared.health.answered(),
        }
        Counters::add(match &scanned {
            Ok(Verdict::Clean) => &shared.counters.clean,
            Ok(Verdict::Infected(_)) => &shared.counters.infected,
            Err(_) => &shared.counters.failed,
        });
        scanned
    }

    /// Something was found in the version that was looked at.
    pub(crate) async fn found(
        &self,
        object: ObjectId,
        target: ScanTarget,
        name: &str,
        found_in_older: u32,
    ) -> Result<Judged, VolumeError> {
        let volume = self.volume.name();
        tracing::warn!(volume, %object, found = name, "malware was found in a file");
        if self.shared.config().infected == Infected::Report {
            // Of one that has changed meanwhile the next scan tells.
            self.volume.mark_scanned(object, target.change, ScanState::Reported, name).await?;
            return Ok(Judged::Passes);
        }
        let mut change = target.change;
        for _ in 0..TRIES {
            match self.volume.mark_scanned(object, change, ScanState::Quarantined, name).await? {
                Marked::Done => return Ok(Judged::Quarantined),
                Marked::Gone | Marked::Released => return Ok(Judged::Passes),
                Marked::Changed if found_in_older < OLDER => break,
                // Who changes it faster than it is scanned does not get through by that.
                Marked::Changed => match self.volume.scan_target(object).await? {
                    Some(now) => change = now.change,
                    None => return Ok(Judged::Passes),
                },
            }
        }
        Ok(Judged::Changed)
    }

    /// A file cannot be scanned now.
    async fn not_scanned(&self, object: ObjectId, why: String) -> Result<Judged, VolumeError> {
        if self.shared.config().fail == Fail::Closed {
            return Ok(Judged::Later(why));
        }
        for _ in 0..TRIES {
            let Some(target) = self.volume.scan_target(object).await? else { break };
            let marked = self.volume.mark_scanned(object, target.change, ScanState::Unscanned, &why).await?;
            if marked != Marked::Changed {
                Counters::add(&self.shared.counters.passed);
                return Ok(Judged::Passes);
            }
        }
        Ok(Judged::Later(why))
    }
}
