//! How long operations took: HDR histograms of nanoseconds, which can be added to each other without loss.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use data_encoding::BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as FromBytes, Serializer as _, V2DeflateSerializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Three significant digits of any time. As JSON: the standard's compressed form in base64, which every tool for HDR histograms reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Times {
        Times(Histogram::new(3).expect("three digits are between 0 and 5"))
    }
}

impl Times {
    pub fn record(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.record(nanoseconds).expect("a histogram that grows takes every value");
    }

    pub fn add(&mut self, other: &Times) {
        self.0.add(&other.0).expect("histograms that grow take every value of each other");
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that this part of all operations did not exceed.
    pub fn quantile(&self, part: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(part))
    }

    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }

    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).map_err(S::Error::custom)?;
        BASE64.encode(&bytes).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Times, D::Error> {
        let bytes = BASE64.decode(String::deserialize(deserializer)?.as_bytes()).map_err(D::Error::custom)?;
        let mut histogram = FromBytes::new().deserialize(&mut &bytes[..]).map_err(D::Error::custom)?;
        histogram.auto(true);
        Ok(Times(histogram))
    }
}

/// The times of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Every operation, from when it was meant to begin to its end.
    pub all: Times,
    /// How much later than meant it began: in a closed loop never.
    pub late: Times,
    /// Every operation, and what belongs to none of them (COMMIT at the end of a stream), by its kind.
    pub kinds: BTreeMap<String, Times>,
}

impl Latencies {
    pub fn add(&mut self, other: &Latencies) {
        self.all.add(&other.all);
        self.late.add(&other.late);
        for (kind, times) in &other.kinds {
            self.kinds.entry(kind.clone()).or_default().add(times);
        }
    }
}

/// Where the lanes of a client write them down.
#[derive(Default)]
pub struct Recorder(Mutex<Latencies>);

impl Recorder {
    /// An operation that took `time` from when it was meant to begin, of which it waited `late` before it began.
    pub fn operation(&self, kind: &'static str, time: Duration, late: Duration) {
        let mut latencies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        latencies.all.record(time);
        latencies.late.record(late);
        Self::kind(&mut latencies, kind).record(time);
    }

    /// What belongs to no operation.
    pub fn beside(&self, kind: &'static str, time: Duration) {
        Self::kind(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), kind).record(time);
    }

    fn kind<'a>(latencies: &'a mut Latencies, kind: &'static str) -> &'a mut Times {
        if !latencies.kinds.contains_key(kind) {
            latencies.kinds.insert(kind.to_owned(), Times::default());
        }
        latencies.kinds.get_mut(kind).expect("it was inserted")
    }

    pub fn take(&self) -> Latencies {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn of(range: std::ops::RangeInclusive<u64>) -> Latencies {
        let recorder = Recorder::default();
        for n in range {
            recorder.operation(if n % 2 == 0 { "even" } else { "odd" }, millis(n), Duration::ZERO);
        }
        recorder.take()
    }

    fn is_about(found: Duration, expected: Duration) -> bool {
        found.abs_diff(expected) <= expected / 500 // three significant digits
    }

    #[test]
    fn merged_histograms_are_those_of_all_operations() {
        let mut merged = of(1..=300);
        merged.add(&of(301..=999));
        // Longer than all before, and of a kind that the others do not have.
        let far = Recorder::default();
        far.operation("far", millis(3_600_000), millis(7));
        merged.add(&far.take());
        assert_eq!(merged.all.count(), 1000);
        assert!(is_about(merged.all.quantile(0.5), millis(500)), "{:?}", merged.all.quantile(0.5));
        assert!(is_about(merged.all.quantile(0.99), millis(990)));
        assert!(is_about(merged.all.longest(), millis(3_600_000)));
        assert!(is_about(merged.late.longest(), millis(7)));
        let counts: Vec<_> =
            merged.kinds.iter().map(|(kind, times)| (kind.as_str(), times.count())).collect();
        assert_eq!(counts, [("even", 499), ("far", 1), ("odd", 500)]);
        // In whatever order.
        let mut other = of(301..=999);
        other.add(&of(1..=300));
        assert_eq!(other.all, {
            let mut both = of(1..=300);
            both.add(&of(301..=999));
            both.all
        });
    }

    #[test]
    fn what_belongs_to_no_operation_is_in_its_kind_only() {
        let recorder = Recorder::default();
        recorder.beside("commit", millis(50));
        let found = recorder.take();
        assert_eq!((found.all.count(), found.kinds["commit"].count()), (0, 1));
    }

    #[test]
    fn a_histogram_survives_json_and_can_still_be_added_to() {
        let before = of(1..=999);
        let text = serde_json::to_string(&before).unwrap();
        let mut after: Latencies = serde_json::from_str(&text).unwrap();
        assert_eq!(after, before);
        after.add(&of(5_000_000..=5_000_001));
        assert_eq!(after.all.count(), 1001);
        assert!(serde_json::from_str::<Latencies>(&text.replace("HIST", "hist")).is_err());
    }
}
