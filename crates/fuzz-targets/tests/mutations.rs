//! Changed seeds, and inputs that once broke a promise, through every target.

use std::path::PathBuf;

use fuzz_targets::{TARGETS, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

#[derive(Clone, Debug)]
enum Change {
    Byte(Index, u8),
    /// A word of the message that is at an edge.
    Word(Index, u32),
    Remove(Index, Index),
    Insert(Index, Vec<u8>),
    Cut(Index),
    /// Goes on with another seed.
    Splice(Index, Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        3 => (at(), prop_oneof![0_u32..8, Just(u32::MAX), Just(i32::MAX as u32)]).prop_map(|(at, word)| Change::Word(at, word)),
        1 => (at(), at()).prop_map(|(from, to)| Change::Remove(from, to)),
        2 => (at(), vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        1 => at().prop_map(Change::Cut),
        1 => (at(), at(), at()).prop_map(|(at, seed, from)| Change::Splice(at, seed, from)),
    ]
}

fn apply(input: &mut Vec<u8>, change: &Change, seeds: &[Vec<u8>]) {
    let place = |index: &Index| index.index(input.len() + 1);
    match change {
        Change::Byte(at, byte) if !input.is_empty() => {
            let at = at.index(input.len());
            input[at] = *byte;
        }
        Change::Word(at, word) if input.len() >= 4 => {
            let at = at.index(input.len() / 4) * 4;
            input[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        Change::Remove(from, to) => {
            let (from, to) = (place(from), place(to));
            input.drain(from.min(to)..from.max(to));
        }
        Change::Insert(at, bytes) => {
            let at = place(at);
            input.splice(at..at, bytes.iter().copied());
        }
        Change::Cut(at) => input.truncate(place(at)),
        Change::Splice(at, seed, from) => {
            let at = place(at);
            let other = &seeds[seed.index(seeds.len())];
            input.truncate(at);
            input.extend_from_slice(&other[from.index(other.len() + 1)..]);
        }
        Change::Byte(..) | Change::Word(..) => {}
    }
}

fn drive(target: &Target) {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty());
    for seed in &seeds {
        assert!(seed.len() <= target.max_len, "{}: a seed of {} bytes", target.name, seed.len());
        (target.run)(seed);
    }
    let config = Config { cases: target.cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&(any::<Index>(), vec(change(), 1..5)), |(seed, changes)| {
        let mut input = seeds[seed.index(seeds.len())].clone();
        for change in &changes {
            apply(&mut input, change, &seeds);
        }
        input.truncate(target.max_len);
        (target.run)(&input);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{}: {failure}", target.name);
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                drive(fuzz_targets::find(stringify!($name)).expect("a target of this name"));
            }
        )*

        #[test]
        fn every_target_is_driven() {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

targets! {
    xdr nfs_request nfs_reply nfs_callback nfs_attributes backup rpc server_request server_history sealed_block fragments
    pack certificate
    wrapped_keys key_file key_words statement journal metadata metadata_replay cache_disk data_op cloud_listing scanner_answers
    config text
}

#[test]
fn inputs_that_once_broke_a_promise_no_longer_do() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("regressions");
    for target in TARGETS {
        let Ok(files) = std::fs::read_dir(folder.join(target.name)) else { continue };
        for file in files {
            (target.run)(&std::fs::read(file.unwrap().path()).unwrap());
        }
    }
}
