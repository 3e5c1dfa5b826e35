use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Append {
        body: usize,
        payloads: Vec<usize>,
    },
    /// Waits until everything is durable.
    Flush,
    /// Lets the writer run for a moment.
    Yield,
    /// Releases this share (of 256) of what is held.
    Release(u8),
    Close,
    Kill,
    Crash(u64),
    /// The power goes after so many more operations of the disk.
    CutPower(u64),
    FailSync,
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![4 => 0usize..300, 1 => 3000usize..9000];
    prop_oneof![
        12 => (length.clone(), prop::collection::vec(length, 0..3))
            .prop_map(|(body, payloads)| Step::Append { body: body.min(4000), payloads: payloads.into_iter().map(|l| l / 2).collect() }),
        4 => Just(Step::Flush),
        4 => Just(Step::Yield),
        3 => any::<u8>().prop_map(Step::Release),
        1 => Just(Step::Close),
        1 => Just(Step::Kill),
        2 => any::<u64>().prop_map(Step::Crash),
        1 => (0u64..6).prop_map(Step::CutPower),
        1 => Just(Step::FailSync),
    ]
}

/// What the journal must hold.
#[derive(Default)]
struct Model {
    /// Everything appended and not released, with what has been appended since the last durable one.
    records: BTreeMap<u64, Record>,
    acknowledged: u64,
    released: u64,
}

impl Model {
    /// After a start: everything acknowledged is there, and of the rest a prefix.
    async fn check(&mut self, journal: &Journal, found: &[RecoveredRecord]) {
        let last = journal.durable_lsn().0;
        assert!(last >= self.acknowledged, "acknowledged {} and found {last}", self.acknowledged);
        self.records.retain(|&lsn, _| lsn <= last);
        self.acknowledged = last;
        let numbers = lsns(found);
        let first = numbers.first().copied().unwrap_or(last + 1);
        assert_eq!(numbers, (first..=last).collect::<Vec<_>>());
        assert!(first <= self.released.max(1) || found.is_empty() && self.released > last);
        for record in found.iter().filter(|record| record.lsn.0 >= self.released) {
            assert_same(journal, record, &self.records[&record.lsn.0]).await;
        }
    }
}

async fn run(steps: Vec<Step>) {
    let mut disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk);
    let mut model = Model { released: 1, ..Model::default() };
    for step in steps {
        let next = match step {
            Step::Append { body, payloads } => {
                let record = record(model.released + body as u64, body, &payloads);
                let space = Journal::space_of(&record);
                // No space: nobody else would free it here.
                let admitted = tokio::select! {
                    biased;
                    admitted = journal.reserve(space, Priority::Client) => Some(admitted),
                    () = tokio::task::yield_now() => None,
                };
                if let Some(Ok(reservation)) = admitted
                    && let Ok(appended) = journal.append(record.clone(), reservation)
                {
                    for (place, attachment) in appended.refs.iter().zip(&record.attachments) {
                        assert_eq!(journal.read(*place).await.unwrap(), attachment.payload);
                    }
                    model.records.insert(appended.lsn.0, record);
                }
                None
            }
            Step::Flush => {
                if let Some((&last, _)) = model.records.last_key_value()
                    && journal.durable(Lsn(last)).await.is_ok()
                {
                    model.acknowledged = model.acknowledged.max(last);
                }
                None
            }
            Step::Yield => {
                tokio::task::yield_now().await;
                None
            }
            Step::Release(share) => {
                model.acknowledged = model.acknowledged.max(journal.durable_lsn().0);
                let held = model.acknowledged + 1 - model.released.min(model.acknowledged + 1);
                model.released += held * u64::from(share) / 256;
                journal.release(Lsn(model.released));
                model.records.retain(|&lsn, _| lsn >= model.released);
                None
            }
            Step::Close => {
                let _ = journal.close().await;
                Some(disk.kill())
            }
            Step::Kill => Some(disk.kill()),
            Step::Crash(seed) => Some(disk.crash(seed)),
            Step::CutPower(operations) => {
                disk.cut_power_after(operations);
                None
            }
            Step::FailSync => {
                disk.fail_next_sync();
                None
            }
        };
        let next = next.or_else(|| journal.failed().map(|_| disk.crash(model.acknowledged)));
        if let Some(next) = next {
            model.acknowledged = model.acknowledged.max(journal.durable_lsn().0);
            disk = next;
            let found;
            (journal, found) = open(&disk);
            model.check(&journal, &found).await;
            // What was found must stay, even if the power fails at once.
            disk = disk.crash(1);
            let again;
            (journal, again) = open(&disk);
            assert_eq!(lsns(&again), lsns(&found));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn everything_acknowledged_survives_any_crash_and_the_rest_is_a_prefix(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(steps));
    }
}

#[tokio::test]
async fn a_hundred_restarts_keep_everything_and_share_segments() {
    let disk = MemoryDisk::new();
    let config = JournalConfig { writer: WriterKind::Task, ..JournalConfig::small(4 << 20) };
    let open = |disk: &MemoryDisk| {
        let (journal, recovery) =
            Journal::open(disk.environment(), Path::new(DIRECTORY), &key(), config.clone()).unwrap();
        (journal, recovery.collect::<Result<Vec<_>, _>>().unwrap())
    };
    for restart in 0..100u64 {
        let (journal, found) = open(&disk);
        assert_eq!(lsns(&found), (1..=restart).collect::<Vec<_>>());
        let lsn = append(&journal, record(restart, 10, &[10])).await.unwrap().lsn;
        journal.durable(lsn).await.unwrap();
        if restart % 2 == 0 {
            journal.close().await.unwrap();
        }
    }
    assert!(open(&disk).0.usage().used < 2 << 20);
}

#[tokio::test]
async fn opening_without_appending_writes_nothing_new() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let lsn = append(&journal, record(1, 10, &[])).await.unwrap().lsn;
    journal.durable(lsn).await.unwrap();
    let before = disk.files();
    for _ in 0..100 {
        let _ = open(&disk);
    }
    assert_eq!(disk.files(), before);
}

#[tokio::test]
async fn a_failed_sync_stops_the_journal_for_all_and_for_good() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let first = append(&journal, record(1, 10, &[])).await.unwrap().lsn;
    journal.durable(first).await.unwrap();
    disk.fail_next_sync();
    let second = append(&journal, record(2, 10, &[])).await.unwrap().lsn;
    let third = append(&journal, record(3, 10, &[])).await.unwrap().lsn;
    let (a, b) = tokio::join!(journal.durable(second), journal.durable(third));
    assert!(matches!(a, Err(JournalError::Failed { .. })));
    assert!(matches!(b, Err(JournalError::Failed { .. })));
    assert!(matches!(append(&journal, record(4, 10, &[])).await, Err(JournalError::Failed { .. })));
    assert!(matches!(journal.durable(second).await, Err(JournalError::Failed { .. })));
    assert!(journal.durable(first).await.is_ok());
    assert!(journal.failed().is_some());
    assert_eq!(journal.durable_lsn(), first);
}

#[tokio::test]
async fn what_a_failed_sync_left_in_the_page_cache_is_written_again_before_it_counts() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    disk.fail_next_sync();
    let lsn = append(&journal, record(1, 10, &[100])).await.unwrap().lsn;
    assert!(journal.durable(lsn).await.is_err());
    let disk = disk.kill();
    let (_, found) = open(&disk);
    assert_eq!(lsns(&found), [1], "the page cache still shows it");
    for seed in 0..20 {
        assert_eq!(lsns(&open(&disk.crash(seed)).1), [1]);
    }
}
