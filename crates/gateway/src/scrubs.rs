//! The books of scrubs: how far each volume's is, and what the last whole one found, as a signed report.

use std::sync::Arc;

use async_trait::async_trait;
use blocks::CloudId;
use bytes::Bytes;
use chrono::{DateTime, SecondsFormat};
use file_system::FileSystem;
use ids::VolumeId;
use meta::MetaStore;
use seal::VerifyingKey;
use serde_json::{Map, Value, json};
use upkeep::{ScrubCounts, ScrubNotes, ScrubPeriod, ScrubSchedule, VolumeFailure};

use crate::config::UpkeepConfig;
use crate::node::{Node, Served};
use crate::node_rows::{Scrubbed, scrub_period, set_scrub_period};
use crate::statement::{self, StatementError};

/// The first line of a report.
const KIND: &str = "kurma-scrub-report = 1";

/// How far the scrub of one volume is, kept in the metadata store.
pub(crate) struct StoredScrub {
    store: Arc<dyn MetaStore>,
    volume: VolumeId,
}

impl StoredScrub {
    pub fn new(store: Arc<dyn MetaStore>, volume: VolumeId) -> StoredScrub {
        StoredScrub { store, volume }
    }

    /// What the last whole scrub found.
    pub async fn last(&self) -> Result<Option<ScrubPeriod>, VolumeFailure> {
        self.read(Scrubbed::Whole).await
    }

    /// Notes a whole scrub that was made beside the periods.
    pub async fn save_whole(&self, period: &ScrubPeriod) -> Result<(), VolumeFailure> {
        let row = Bytes::from(serde_json::to_vec(period)?);
        Ok(set_scrub_period(&*self.store, self.volume, &[(Scrubbed::Whole, Some(row))]).await?)
    }

    async fn read(&self, which: Scrubbed) -> Result<Option<ScrubPeriod>, VolumeFailure> {
        let row = scrub_period(&*self.store, self.volume, which).await?;
        // One of another version is begun anew.
        Ok(row.and_then(|row| serde_json::from_slice(&row).ok()))
    }
}

#[async_trait]
impl ScrubNotes for StoredScrub {
    async fn load(&self) -> Result<Option<ScrubPeriod>, VolumeFailure> {
        self.read(Scrubbed::Present).await
    }

    async fn save(&self, period: &ScrubPeriod) -> Result<(), VolumeFailure> {
        let row = Bytes::from(serde_json::to_vec(period)?);
        let mut rows = vec![(Scrubbed::Present, Some(row.clone()))];
        if period.ended.is_some() {
            rows.push((Scrubbed::Whole, Some(row)));
        }
        Ok(set_scrub_period(&*self.store, self.volume, &rows).await?)
    }
}

impl UpkeepConfig {
    /// When fragments are checked, and how fast.
    pub(crate) fn scrubs(&self) -> ScrubSchedule {
        let (period, rate) = (self.scrub_period.as_duration(), self.scrub_rate.bytes());
        ScrubSchedule { period, rate, sample: self.scrub_sample }
    }
}

impl Node {
    pub(crate) fn scrub_of(&self, served: &Served) -> StoredScrub {
        StoredScrub::new(Arc::new(self.store.clone()), FileSystem::volume(&*served.volume))
    }

    /// What needs attention: periods that are not kept.
    pub(crate) async fn scrub_attention(&self) -> Result<Vec<String>, VolumeFailure> {
        let schedule = self.config.upkeep.scrubs();
        let (mut attention, now) = (Vec::new(), self.environment.clock.wall().seconds);
        for served in self.served().into_iter().filter(|_| !schedule.period.is_zero()) {
            let present = self.scrub_of(&served).load().await?;
            let Some(period) = present.filter(|period| period.ended.is_none()) else { continue };
            let late = now - period.begun - schedule.period.as_secs() as i64;
            if late > 0 {
                attention.push(format!(
                    "the scrub of volume {:?} takes longer than its period, {}: raise upkeep.scrub_rate, or the period",
                    served.volume.name(),
                    self.config.upkeep.scrub_period,
                ));
            }
        }
        Ok(attention)
    }

    /// What the last whole scrub of each volume found, signed, and how far the present ones are.
    pub(crate) async fn scrub_report(&self) -> Result<Value, VolumeFailure> {
        let key = self.key_file();
        let mut fields =
            vec![("gateway".to_owned(), key.gateway().to_string()), ("key".to_owned(), key.id().to_string())];
        let mut present = Vec::new();
        for served in self.served() {
            let (name, stored) = (served.volume.name(), self.scrub_of(&served));
            fields.push(("volume".to_owned(), name.clone()));
            match stored.last().await? {
                Some(period) => self.describe_period(&period, &mut fields),
                None => fields.push(("scrubbed".to_owned(), "never".to_owned())),
            }
            if let Some(period) = stored.load().await?.filter(|period| period.ended.is_none()) {
                present.push(json!({
                    "volume": name,
                    "begun": time(period.begun),
                    "sample": period.sample,
                    "blocks": period.report.blocks,
                }));
            }
        }
        let text = statement::sign(KIND, &fields, &key.signing_key());
        Ok(json!({ "statement": text, "volumes": volumes_of(&fields), "under_way": present }))
    }

    fn describe_period(&self, period: &ScrubPeriod, fields: &mut Vec<(String, String)>) {
        let mut put = |name: &str, value: String| fields.push((name.to_owned(), value));
        put(
            "scrubbed",
            if period.sample >= 100 { "fully".into() } else { format!("sample of {} %", period.sample) },
        );
        put("begun", time(period.begun));
        put("ended", time(period.ended.unwrap_or_default()));
        put("blocks", period.report.blocks.to_string());
        put("skipped", period.report.skipped.to_string());
        put("lacking", period.left.to_string());
        let mut numbers: Vec<u16> =
            period.report.clouds.keys().chain(period.repaired.keys()).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        // Several numbers may lie in one cloud.
        let mut clouds = std::collections::BTreeMap::<String, (ScrubCounts, u64)>::new();
        for number in numbers {
            let (counts, repaired) = clouds.entry(self.clouds.name_of(CloudId(number))).or_default();
            *counts = counts.with(period.report.clouds.get(&number).copied().unwrap_or_default());
            *repaired += period.repaired.get(&number).copied().unwrap_or(0);
        }
        for (cloud, (counts, repaired)) in clouds {
            let ScrubCounts { good, missing, bad, unreachable } = counts;
            let value = format!(
                "good {good}, missing {missing}, bad {bad}, unreachable {unreachable}, repaired {repaired}"
            );
            put(&format!("cloud {cloud}"), value);
        }
    }
}

/// A time in seconds since 1970, as people and programs read it.
pub(crate) fn time(seconds: i64) -> String {
    let time = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// The lines of a report as JSON: an object for each volume.
fn volumes_of(fields: &[(String, String)]) -> Value {
    let number = |text: &str| text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number));
    let mut volumes: Vec<Value> = Vec::new();
    for (name, value) in fields {
        if name == "volume" {
            volumes.push(json!({ "volume": value, "clouds": {} }));
            continue;
        }
        let Some(volume) = volumes.last_mut() else { continue };
        match name.strip_prefix("cloud ") {
            None => volume[name.as_str()] = number(value),
            Some(cloud) => {
                let counts = value.split(", ").filter_map(|count| count.split_once(' '));
                let counts: Map<String, Value> =
                    counts.map(|(what, count)| (what.to_owned(), number(count))).collect();
                volume["clouds"][cloud] = counts.into();
            }
        }
    }
    volumes.into()
}

/// Proves that the gateway with this public key has signed a report of scrubs, in either of the forms in which it is printed, and
/// returns what it says.
///
/// # Errors
/// Why it is not to be believed.
pub fn verify_scrub_report(text: &str, signer: &VerifyingKey) -> Result<Value, StatementError> {
    let Ok(Value::Object(report)) = serde_json::from_str(text) else {
        return Ok(volumes_of(&statement::verify(KIND, text, Some(signer))?.fields));
    };
    let statement = report.get("statement").and_then(Value::as_str);
    let statement =
        statement.ok_or_else(|| StatementError::Malformed("it has no signed statement".into()))?;
    let volumes = volumes_of(&statement::verify(KIND, statement, Some(signer))?.fields);
    // What is beside the statement is not signed: it has to say the same.
    match report.get("volumes") == Some(&volumes) {
        true => Ok(volumes),
        false => Err(StatementError::Forged),
    }
}

#[cfg(test)]
mod tests {
    use upkeep::ScrubReport;

    use super::*;
    use crate::test_node;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_report_says_what_the_last_whole_scrub_found_and_proves_who_says_it() {
        let folder = tempfile::tempdir().unwrap();
        let node = test_node::open(folder.path(), &["a", "b", "c"]).await;
        let signer = node.key_file().signing_key().public();
        let report = node.scrub_report().await.unwrap();
        assert_eq!(report["volumes"], json!([{ "volume": "home", "scrubbed": "never", "clouds": {} }]));

        let counts = ScrubCounts { good: 7, missing: 1, bad: 2, unreachable: 3 };
        let found = ScrubReport { blocks: 9, skipped: 0, clouds: [(1, counts)].into() };
        let mut period = ScrubPeriod::whole(1_700_000_000, 1_700_000_060, 100, found);
        period.repaired.insert(2, 5);
        let stored = node.scrub_of(&node.served()[0]);
        stored.save(&period).await.unwrap();
        stored.save(&ScrubPeriod::begin(1_800_000_000, 10)).await.unwrap();
        let report = node.scrub_report().await.unwrap();
        let home = &report["volumes"][0];
        assert_eq!((&home["scrubbed"], &home["begun"]), (&json!("fully"), &json!("2023-11-14T22:13:20Z")));
        assert_eq!(home["clouds"]["a"]["bad"], 2);
        assert_eq!(home["clouds"]["b"]["repaired"], 5);
        assert_eq!(report["under_way"][0]["sample"], 10);

        let text = report["statement"].as_str().unwrap();
        assert_eq!(verify_scrub_report(text, &signer).as_ref(), Ok(&report["volumes"]));
        assert_eq!(verify_scrub_report(&report.to_string(), &signer).as_ref(), Ok(&report["volumes"]));
        let mut better = report.clone();
        better["volumes"][0]["clouds"]["a"]["bad"] = json!(0);
        for forged in [better.to_string(), text.replace("bad 2", "bad 0")] {
            assert_eq!(verify_scrub_report(&forged, &signer), Err(StatementError::Forged));
        }
        node.stop.cancel();
    }
}
