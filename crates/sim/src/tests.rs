use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use environment::mutant::Mutant;
use parking_lot::Mutex;

use crate::life::course::{Report, live};
use crate::life::plan::Plan;
use crate::life::shrink::shrink;

/// Lives that every change is tried on, and operations of each.
const SEEDS: u64 = 50;
const OPERATIONS: u64 = 10_000;
/// Seeds within which each mutant is found.
const MUTANT_SEEDS: u64 = 20;
/// Lives that are spent on making a failure small.
const SHRINKS: u64 = 150;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}

fn lives_of(seed: u64) -> Report {
    let plan = Plan::of(seed, number("SIM_OPERATIONS", OPERATIONS));
    let file = std::env::var_os("SIM_TRACE");
    let failure = match live(&plan, None, file.is_some()) {
        Ok(report) => return report,
        Err(failure) => failure,
    };
    eprintln!("SIM_SEED={seed} fails: {}\n{}", failure.what, failure.last);
    if let Some(file) = file {
        std::fs::write(file, failure.trace.join("\n")).unwrap();
    }
    let (small, failure) = shrink(&plan, failure, None, number("SIM_SHRINKS", SHRINKS) as usize);
    panic!(
        "SIM_SEED={seed} fails with {} operations: {}\n{small}\n{}",
        small.operations(),
        failure.what,
        failure.last
    );
}

#[test]
fn whatever_happens_nothing_is_lost_shown_or_left_behind() {
    let first = number("SIM_SEED", 0);
    let seeds = number("SEEDS", if std::env::var("SIM_SEED").is_ok() { 1 } else { SEEDS });
    let next = AtomicU64::new(first);
    let reports = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        return;
                    }
                    let report = lives_of(seed);
                    println!("SIM_SEED={seed}: {report:?}");
                    reports.lock().push(report);
                }
            });
        }
    });
    let mut deaths: BTreeMap<&str, u64> = BTreeMap::new();
    let reports = reports.into_inner();
    for (point, count) in reports.iter().flat_map(|report| &report.deaths) {
        *deaths.entry(point).or_default() += count;
    }
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    println!(
        "{} operations, {} refused, {} machines, {} incidents, {} nonces, deaths: {deaths:#?}",
        sum(|report| report.operations),
        sum(|report| report.refused),
        sum(|report| report.machines),
        sum(|report| report.incidents),
        sum(|report| report.nonces),
    );
    assert_eq!(reports.len() as u64, seeds);
}

#[test]
fn one_seed_is_one_life() {
    for seed in 0..3 {
        let plan = Plan::of(seed, 2000);
        let reports =
            [0, 1].map(|_| live(&plan, None, true).unwrap_or_else(|failure| panic!("{}", failure.what)));
        let pairs = reports[0].trace.iter().zip(&reports[1].trace);
        if let Some((first, second)) = pairs.into_iter().find(|(first, second)| first != second) {
            panic!("seed {seed}: the lives part at\n{first}\n{second}");
        }
        assert_eq!(reports[0].hash, reports[1].hash, "seed {seed}: the same events with other bytes");
        assert!(reports[0].events > 2000);
    }
}

/// What is said when this promise is broken; any of it.
fn notices(promise: Mutant) -> &'static [&'static str] {
    match promise {
        Mutant::NonceReuse => &["was used twice"],
        Mutant::VersionUnchecked => &["bytes instead of", "are none of the", "files differ"],
        Mutant::SyncDropped => &["are none of the", "were durable", "Damaged"],
        Mutant::RepairSwapped => &["nobody repairs it"],
        Mutant::LockDropped => {
            &["was drawn twice", "half of a transaction", "had been taken", "are none of the"]
        }
    }
}

#[test]
fn every_broken_promise_is_noticed() {
    for promise in Mutant::ALL {
        let found = (0..MUTANT_SEEDS).find_map(|seed| {
            let failure = live(&Plan::of(seed, OPERATIONS), Some(promise), false).err()?;
            Some((seed, failure.what))
        });
        let Some((seed, what)) = found else { panic!("nobody noticed {promise:?} in {MUTANT_SEEDS} lives") };
        println!("{promise:?}: noticed in life {seed}: {what}");
        assert!(
            notices(promise).iter().any(|notice| what.contains(notice)),
            "{promise:?} was taken for {what}"
        );
    }
}

#[test]
fn a_failure_becomes_small_and_stays_one() {
    let (plan, broken) = (Plan::of(0, 600), Some(Mutant::NonceReuse));
    let failure = live(&plan, broken, false).unwrap_err();
    let (small, failure) = shrink(&plan, failure, broken, 200);
    println!("{} operations: {}\n{small}", small.operations(), failure.what);
    assert!(small.operations() <= 10);
    assert_eq!(live(&small, broken, false).unwrap_err().what, failure.what);
}
