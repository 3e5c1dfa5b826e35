//! Each life has a process of its own, and so has each mutant with its lives, and each failure with those that make it small. tokio counts the runtimes of a process, and what it draws from a generator
//! of random numbers (branches of `select!`, the order in which the receivers of a channel are woken) follows from that count: the second life of a
//! process is not the first one again.

use std::ops::Range;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

use environment::mutant::Mutant;

use crate::life::course::{Report, live};
use crate::life::plan::Plan;
use crate::life::shrink::shrink;

/// The test that lives.
const LIFE: &str = "whatever_happens_nothing_is_lost_shown_or_left_behind";
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

/// A test of this program in a process of its own, which has these in its environment.
fn process(test: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", &format!("tests::{test}")]);
    command.env_remove("SIM_TRACE").envs(environment.iter().copied());
    command.output().unwrap()
}

/// Does this for all these numbers, as many at once as there are processors.
fn for_each(numbers: Range<u64>, each: impl Fn(u64) + Sync) {
    let (next, workers) =
        (AtomicU64::new(numbers.start), std::thread::available_parallelism().map_or(1, usize::from));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    each(number);
                }
            });
        }
    });
}

fn life_of(seed: u64) {
    let plan = Plan::of(seed, number("SIM_OPERATIONS", OPERATIONS));
    let file = std::env::var_os("SIM_TRACE");
    let lived = live(&plan, None, file.is_some());
    if let Some(file) = file {
        let trace = lived.as_ref().map_or_else(|failure| &failure.trace, |report| &report.trace);
        std::fs::write(file, trace.join("\n")).unwrap();
    }
    let failure = match lived {
        Ok(report) => return println!("SIM_SEED={seed}: {:?}", Report { trace: Vec::new(), ..report }),
        Err(failure) => failure,
    };
    eprintln!("SIM_SEED={seed} fails: {}\n{}", failure.what, failure.last);
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
    if std::env::var_os("SIM_SEED").is_some() {
        return life_of(number("SIM_SEED", 0));
    }
    let failed = AtomicU64::new(0);
    let first = number("FIRST_SEED", 0);
    for_each(first..first + number("SEEDS", SEEDS), |seed| {
        let lived = process(LIFE, &[("SIM_SEED", &seed.to_string())]);
        let said = String::from_utf8_lossy(&lived.stdout);
        match said.lines().find_map(|line| line.find("SIM_SEED=").map(|at| &line[at..])) {
            Some(report) if lived.status.success() => println!("{report}"),
            _ => {
                failed.fetch_add(1, Ordering::Relaxed);
                println!("{said}{}", String::from_utf8_lossy(&lived.stderr));
            }
        }
    });
    assert_eq!(failed.into_inner(), 0, "lives that failed");
}

#[test]
fn one_seed_is_one_life() {
    for seed in 0..4 {
        let lives = [0, 1].map(|number| {
            let file = std::env::temp_dir().join(format!("life-{}-{seed}-{number}", std::process::id()));
            let (seed, path) = (seed.to_string(), file.to_str().unwrap());
            let lived =
                process(LIFE, &[("SIM_SEED", &seed), ("SIM_TRACE", path), ("SIM_OPERATIONS", "2000")]);
            assert!(lived.status.success(), "{}", String::from_utf8_lossy(&lived.stderr));
            let trace = std::fs::read_to_string(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            (trace, String::from_utf8(lived.stdout).unwrap())
        });
        let [(first, said), (second, repeated)] = &lives;
        if let Some((first, second)) =
            first.lines().zip(second.lines()).find(|(first, second)| first != second)
        {
            panic!("seed {seed}: the lives part at\n{first}\n{second}");
        }
        let hash =
            |said: &str| said.split("hash: ").nth(1).map(|rest| rest.split(',').next().map(str::to_owned));
        assert_eq!(hash(said), hash(repeated), "seed {seed}: the same events with other bytes");
        assert!(hash(said).is_some() && first.lines().count() > 2000);
    }
}

/// What is said when this promise is broken; any of it.
fn notices(promise: Mutant) -> &'static [&'static str] {
    match promise {
        Mutant::NonceReuse => &["was used twice"],
        Mutant::VersionUnchecked => {
            &["bytes instead of", "are none of the", "files differ", "had replaced it"]
        }
        Mutant::SyncDropped => {
            &["are none of the", "were durable", "Damaged", "NewestSegmentLost", "had replaced it"]
        }
        Mutant::RepairSwapped => &["nobody repairs it"],
        Mutant::FormerLife => &[
            "bytes instead of",
            "a listing shows",
            "are none of the",
            "did something else",
            "had replaced it",
        ],
        Mutant::UnsavedUntold => &["bytes instead of", "are none of the", "files differ"],
        Mutant::StaleContent => &["had replaced it", "bytes instead of"],
        Mutant::DiskUnverified => &["bytes instead of", "are none of the", "files differ", "had replaced it"],
        Mutant::LockDropped => &[
            "was drawn twice",
            "half of a transaction",
            "had been taken",
            "are none of the",
            "had replaced it",
        ],
    }
}

/// The life in which that was first noticed when this was written: it is tried first.
fn noticed_in(promise: Mutant) -> u64 {
    match promise {
        Mutant::VersionUnchecked | Mutant::FormerLife => 9,
        Mutant::DiskUnverified => 2,
        Mutant::UnsavedUntold => 4,
        Mutant::RepairSwapped | Mutant::StaleContent => 1,
        Mutant::NonceReuse | Mutant::SyncDropped | Mutant::LockDropped => 0,
    }
}

#[test]
fn every_broken_promise_is_noticed() {
    const BROKEN: &str = "SIM_BROKEN";
    let Ok(broken) = std::env::var(BROKEN) else {
        return for_each(0..Mutant::ALL.len() as u64, |number| {
            let found = process("every_broken_promise_is_noticed", &[(BROKEN, &number.to_string())]);
            let said = String::from_utf8_lossy(&found.stdout);
            println!("{said}");
            let is_noticed = found.status.success() && said.contains("noticed in life");
            assert!(is_noticed, "{}", String::from_utf8_lossy(&found.stderr));
        });
    };
    let promise = Mutant::ALL[broken.parse::<usize>().unwrap()];
    let mut lives = (0..MUTANT_SEEDS).map(|number| (noticed_in(promise) + number) % MUTANT_SEEDS);
    let found = lives.find_map(|seed| {
        let failure = live(&Plan::of(seed, OPERATIONS), Some(promise), false).err()?;
        Some((seed, failure.what))
    });
    let Some((seed, what)) = found else { panic!("nobody noticed {promise:?} in {MUTANT_SEEDS} lives") };
    println!("{promise:?}: noticed in life {seed}: {what}");
    assert!(notices(promise).iter().any(|notice| what.contains(notice)), "{promise:?} was taken for {what}");
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
