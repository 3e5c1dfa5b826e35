//! Decoding allocates in proportion to the input, whatever its length words claim. Alone in its file: the count
//! is of the whole process.

use std::alloc::System;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use xdr::{Decode, Encode, from_bytes};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[derive(Encode, Decode)]
struct Element {
    numbers: Vec<u64>,
    names: Vec<Bytes>,
    #[xdr(list)]
    flags: Vec<Option<u32>>,
    nested: Vec<Element>,
}

#[test]
fn decoding_allocates_in_proportion_to_its_input() {
    let word = prop_oneof![Just(0u32), Just(1), 2u32..8, Just(u32::MAX), Just(1 << 20), any::<u32>()];
    TestRunner::new(Config { cases: 2000, ..Config::default() })
        .run(&vec(word, 0..400), |words| {
            let wire: Bytes = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let input = wire.len();
            let region = Region::new(ALLOCATOR);
            let _ = from_bytes::<Element>(wire);
            // Per element of 4 input bytes: its own size, twice over for the growth of its vector.
            let limit = input / 4 * size_of::<Element>() * 3 + 1024;
            let allocated = region.change().bytes_allocated;
            prop_assert!(allocated <= limit, "{allocated} bytes for {input} bytes of input");
            Ok(())
        })
        .unwrap();
}
