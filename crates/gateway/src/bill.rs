//! The bill: what the clouds have been asked for since the gateway began, by what their providers charge for.
//!
//! Connections count ([`cloud::Costs`]); the bill adds them up and keeps the sums in a file of the data folder, `costs.json`, which is
//! written every ten seconds in which there was something to count, and by a stop. A gateway that ends without one forgets what it
//! had asked for after the last time; the bill says how often that happened. Nothing of the metadata depends on it, and it is in no
//! backup: else every backup would make the next one necessary.
//!
//! What is kept in a cloud is measured by listing it: once a day where storage has a price, and on demand.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cloud::{CloudError, Connection, CostCounts, Costs, MAX_LIST};
use environment::Clock;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::StartError;
use crate::data_folder::write_durably;
use crate::node::Node;

/// How often what was counted is written, if there is something new.
pub(crate) const WRITTEN: Duration = Duration::from_secs(10);
/// How often clouds whose storage is charged are measured, in seconds.
const MEASURED: i64 = 24 * 3600;
/// Byte-seconds of a gigabyte that is kept for a month.
const GB_MONTH: f64 = 1e9 * 730.0 * 3600.0;
const FORMAT: u32 = 1;

/// What is added up, and where it is kept.
pub(crate) struct Bill {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    /// Up to the start of this process, but for measurements.
    before: Statement,
    /// What counts since.
    counting: Vec<(String, Arc<Costs>)>,
    /// As it is in the file.
    written: Option<Statement>,
}

/// All that is charged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Statement {
    format: u32,
    /// When counting began, in seconds since 1970.
    pub since: i64,
    /// A gateway is running, or ended without a stop.
    running: bool,
    /// How often a gateway ended without a stop.
    pub crashes: u64,
    /// When the start after the last one was.
    pub last_crash: Option<i64>,
    /// By the names of the clouds.
    pub clouds: BTreeMap<String, Account>,
}

/// What is charged for one cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Account {
    /// Requests and bytes that moved.
    pub counts: CostCounts,
    /// What was found when the cloud was measured last.
    pub stored: Option<Stored>,
    /// Gigabytes times months that were kept, up to `stored.until`.
    pub gb_months: f64,
}

/// What lies in a cloud.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stored {
    pub bytes: u64,
    pub objects: u64,
    /// When it was measured.
    pub at: i64,
    /// Up to when it is in the gigabyte-months.
    until: i64,
}

impl Account {
    /// Charges what is kept up to `now`.
    fn keep_until(&mut self, now: i64) {
        if let Some(stored) = &mut self.stored {
            let seconds = (now - stored.until).max(0);
            self.gb_months += stored.bytes as f64 * seconds as f64 / GB_MONTH;
            stored.until += seconds;
        }
    }
}

impl Bill {
    /// What was charged before, from the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read or written. One that is damaged is put aside.
    pub fn open(path: &Path, clock: &Arc<dyn Clock>) -> Result<Bill, StartError> {
        let cannot = |what: &str, cause: std::io::Error| {
            StartError::Configuration(format!("cannot {what} {}: {cause}", path.display()))
        };
        let now = clock.wall().seconds;
        let new = Statement {
            format: FORMAT,
            since: now,
            running: false,
            crashes: 0,
            last_crash: None,
            clouds: BTreeMap::new(),
        };
        let mut before = match std::fs::read(path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(Statement { format, .. }) if format > FORMAT => {
                    let path = path.display();
                    return Err(StartError::Configuration(format!(
                        "{path} is of format {format} and this program knows {FORMAT}: use the newer one, or put the file aside to count anew"
                    )));
                }
                Ok(statement) => statement,
                Err(cause) => {
                    let aside = path.with_extension("json.damaged");
                    std::fs::rename(path, &aside).map_err(|cause| cannot("put aside", cause))?;
                    tracing::error!(file = %path.display(), aside = %aside.display(), %cause, "what the clouds cost so far cannot be read; it is counted anew");
                    new
                }
            },
            Err(cause) if cause.kind() == ErrorKind::NotFound => new,
            Err(cause) => return Err(cannot("read", cause)),
        };
        if before.running {
            before.crashes += 1;
            before.last_crash = Some(now);
        }
        let state = State { before, counting: Vec::new(), written: None };
        let bill = Bill { path: path.to_owned(), clock: clock.clone(), state: Mutex::new(state) };
        bill.write(true).map_err(|cause| cannot("write", cause))?;
        Ok(bill)
    }

    /// Adds what `costs` count to the account of a cloud.
    pub fn charge(&self, cloud: &str, costs: &Arc<Costs>) {
        self.state.lock().counting.push((cloud.to_owned(), costs.clone()));
    }

    /// All that is charged, up to now.
    pub fn statement(&self) -> Statement {
        self.state.lock().statement(self.clock.wall().seconds)
    }

    /// Notes what lies in a cloud now.
    fn measured(&self, cloud: &str, bytes: u64, objects: u64) {
        let now = self.clock.wall().seconds;
        let mut state = self.state.lock();
        let account = state.before.clouds.entry(cloud.to_owned()).or_default();
        account.keep_until(now);
        account.stored = Some(Stored { bytes, objects, at: now, until: now });
    }

    /// Writes the file if there is something new.
    fn write(&self, running: bool) -> std::io::Result<()> {
        let now = self.clock.wall().seconds;
        let mut state = self.state.lock();
        let told = Statement { running, ..state.statement(now) };
        let is_new = state.written.as_ref().is_none_or(|written| {
            let news = |one: &Statement| {
                let accounts = one.clouds.iter();
                let accounts = accounts.map(|(name, account)| {
                    (name.clone(), account.counts, account.stored.as_ref().map(|stored| stored.at))
                });
                (one.running, accounts.collect::<Vec<_>>())
            };
            news(written) != news(&told)
        });
        if is_new {
            let text = serde_json::to_vec_pretty(&told).map_err(std::io::Error::other)?;
            write_durably(&self.path, &text)?;
            state.written = Some(told);
        }
        Ok(())
    }

    async fn write_apart(self: &Arc<Self>, running: bool) {
        let bill = self.clone();
        let written = tokio::task::spawn_blocking(move || bill.write(running)).await;
        if let Err(cause) = written.unwrap_or_else(|cause| Err(std::io::Error::other(cause))) {
            tracing::error!(file = %self.path.display(), %cause, "what the clouds cost could not be written");
        }
    }

    /// Writes all that was counted; nothing is asked of clouds any more.
    pub async fn close(self: &Arc<Self>) {
        self.write_apart(false).await;
    }
}

impl State {
    fn statement(&self, now: i64) -> Statement {
        let mut statement = self.before.clone();
        for (name, costs) in &self.counting {
            statement.clouds.entry(name.clone()).or_default().counts += costs.counts();
        }
        statement.clouds.values_mut().for_each(|account| account.keep_until(now));
        statement
    }
}

impl Node {
    /// Writes the bill from time to time, and measures clouds whose storage is charged, until the stop.
    pub async fn keep_bill(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.environment.clock.sleep(WRITTEN) => {}
            }
            let now = self.environment.clock.wall().seconds;
            let accounts = self.bill.statement().clouds;
            for connection in self.clouds.connections() {
                let is_charged = connection.prices().is_some_and(|prices| prices.storage_gb_month > 0.0);
                let stored = accounts.get(&**connection.name()).and_then(|account| account.stored.as_ref());
                if is_charged && stored.is_none_or(|stored| stored.at + MEASURED <= now) {
                    let measured = tokio::select! {
                        () = stop.cancelled() => return,
                        measured = self.measure(&connection, |_| ()) => measured,
                    };
                    if let Err(error) = measured {
                        tracing::warn!(%error, "what lies in a cloud could not be measured; trying again");
                    }
                }
            }
            self.bill.write_apart(true).await;
        }
    }

    /// Lists a cloud to see what lies there; `progress` is told of every page.
    pub async fn measure(&self, cloud: &Connection, progress: impl Fn(u64) + Send) -> Result<(), CloudError> {
        let (mut bytes, mut objects, mut last) = (0, 0, None);
        loop {
            let page = cloud.list("", last.as_ref(), MAX_LIST).await?;
            bytes += page.iter().map(|(_, bytes)| bytes).sum::<u64>();
            objects += page.len() as u64;
            progress(page.len() as u64);
            let full = page.len() == MAX_LIST;
            last = page.into_iter().next_back().map(|(name, _)| name);
            if !full {
                self.bill.measured(cloud.name(), bytes, objects);
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cloud::{Memory, ObjectName, Options, PutMode, TestClock, test_environment};

    use super::*;
    use crate::test_node;

    fn opened(path: &Path, clock: &Arc<TestClock>) -> Arc<Bill> {
        let clock: Arc<dyn Clock> = clock.clone();
        Arc::new(Bill::open(path, &clock).unwrap())
    }

    async fn put(cloud: &Connection, name: &str) {
        let name = ObjectName::new(name).unwrap();
        cloud.put(&name, vec![vec![0; 100].into()], PutMode::Overwrite).await.unwrap();
    }

    fn connection() -> Connection {
        Connection::assemble(&test_environment(), "a", Memory::new("a"), &Options::default())
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_counted_survives_a_stop_and_a_crash_loses_no_more_than_was_counted_since() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
        let path = folder.path().join("costs.json");
        let (bill, cloud) = (opened(&path, &clock), connection());
        bill.charge("a", cloud.costs());
        put(&cloud, "one").await;
        bill.close().await;

        let (bill, cloud) = (opened(&path, &clock), connection());
        bill.charge("a", cloud.costs());
        let since = bill.statement().since;
        assert_eq!(bill.statement().clouds["a"].counts.put, 1);
        put(&cloud, "two").await;
        bill.write(true).unwrap();
        put(&cloud, "three").await;
        assert_eq!(bill.statement().clouds["a"].counts.put, 3);
        drop(bill);

        let bill = opened(&path, &clock);
        let statement = bill.statement();
        let account = &statement.clouds["a"].counts;
        assert_eq!((account.put, account.uploaded_bytes, statement.since), (2, 200, since));
        assert_eq!((statement.crashes, statement.last_crash), (1, Some(clock.wall().seconds)));
        drop(bill);
        // One that did nothing and was killed is told of as well; one that was stopped is not.
        let bill = opened(&path, &clock);
        assert_eq!(bill.statement().crashes, 2);
        bill.close().await;
        assert_eq!(opened(&path, &clock).statement().crashes, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_charged_for_as_long_as_it_is_kept_and_also_while_nobody_runs() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
        let path = folder.path().join("costs.json");
        let bill = opened(&path, &clock);
        bill.measured("a", 2_000_000_000, 7);
        clock.sleep(Duration::from_secs(365 * 3600)).await;
        let kept = |bill: &Bill| bill.statement().clouds["a"].gb_months;
        assert!((kept(&bill) - 1.0).abs() < 1e-6, "half a month of two gigabytes");
        bill.close().await;
        clock.sleep(Duration::from_secs(365 * 3600)).await;
        let bill = opened(&path, &clock);
        assert!((kept(&bill) - 2.0).abs() < 1e-6);
        bill.measured("a", 0, 0);
        clock.sleep(Duration::from_secs(365 * 3600)).await;
        assert!((kept(&bill) - 2.0).abs() < 1e-6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_damaged_bill_is_put_aside_and_one_of_the_future_is_left_alone() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
        let path = folder.path().join("costs.json");
        std::fs::write(&path, "{\"format\": 1, \"since\"").unwrap();
        let bill = opened(&path, &clock);
        assert!(bill.statement().clouds.is_empty());
        assert!(folder.path().join("costs.json.damaged").exists());
        drop(bill);
        let newer = std::fs::read_to_string(&path).unwrap().replace("\"format\": 1", "\"format\": 2");
        std::fs::write(&path, &newer).unwrap();
        let shared: Arc<dyn Clock> = clock;
        let refused = Bill::open(&path, &shared).err().unwrap().to_string();
        assert!(refused.contains("format 2"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn clouds_are_measured_by_what_lies_there() {
        let folder = tempfile::tempdir().unwrap();
        let node = test_node::open(folder.path(), &["a", "b", "c"]).await;
        let (_, a) = node.clouds.get("a").unwrap();
        let before = node.bill.statement().clouds["a"].clone();
        assert_eq!(before.stored, None);
        for name in ["one", "two"] {
            put(&a, name).await;
        }
        node.measure(&a, |_| ()).await.unwrap();
        let after = &node.bill.statement().clouds["a"];
        let stored = after.stored.as_ref().unwrap();
        assert_eq!((stored.objects, stored.bytes), (2, 200));
        assert_eq!((after.counts.put, after.counts.list), (before.counts.put + 2, before.counts.list + 1));
    }
}
