use std::ops::Range;

use bytes::Bytes;
use ids::BlockIndex;
use journal::Lsn;
use meta::CommitObserver;
use proptest::prelude::*;

use super::world::{BLOCK, SHIFT, World, file, sealing};
use crate::{DataOp, Selection};

const LARGEST: u64 = 6 * BLOCK;

#[derive(Clone, Debug)]
enum Step {
    Write {
        at: u64,
        length: u64,
        fill: u8,
    },
    Truncate {
        size: u64,
    },
    PunchBlock {
        block: u64,
    },
    /// Writes back up to so many blocks; `meanwhile` happens between the snapshot and the commit.
    WriteBack {
        blocks: usize,
        meanwhile: Option<Box<Step>>,
    },
    Read {
        at: u64,
        length: u64,
    },
    Remove,
    /// Appends again what this share (of 256) of the records still holds, so many bytes at a time.
    Move {
        share: u8,
        bytes: u64,
    },
    DropMemory,
    Restart {
        trim: bool,
    },
}

fn position() -> impl Strategy<Value = u64> {
    prop_oneof![0..LARGEST, (0..6_u64).prop_map(|block| block * BLOCK)]
}

fn plain_step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![1..5000_u64, Just(BLOCK), 1..2 * BLOCK];
    prop_oneof![
        6 => (position(), length, any::<u8>()).prop_map(|(at, length, fill)| Step::Write { at, length, fill }),
        2 => position().prop_map(|size| Step::Truncate { size }),
        1 => (0..6_u64).prop_map(|block| Step::PunchBlock { block }),
        1 => Just(Step::Remove),
        2 => (any::<u8>(), 200..2 * BLOCK).prop_map(|(share, bytes)| Step::Move { share, bytes }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let meanwhile = prop::option::of(plain_step().prop_map(Box::new));
    prop_oneof![
        6 => plain_step(),
        5 => (1..7_usize, meanwhile).prop_map(|(blocks, meanwhile)| Step::WriteBack { blocks, meanwhile }),
        4 => (position(), 1..3 * BLOCK).prop_map(|(at, length)| Step::Read { at, length }),
        1 => Just(Step::DropMemory),
        2 => any::<bool>().prop_map(|trim| Step::Restart { trim }),
    ]
}

/// The file as it should be, and the part of the volume's bookkeeping that the cache relies on.
struct Model {
    world: World,
    bytes: Vec<u8>,
    /// From which record a byte is dirty.
    dirty: Vec<Option<Lsn>>,
    /// Which record has a dirty byte.
    holder: Vec<Lsn>,
    /// Version of each block; zero is a hole.
    map: Vec<u64>,
    /// The last version used for each block.
    used: Vec<u64>,
}

impl Model {
    fn new() -> Model {
        Model {
            world: World::new(2 << 20, 4 << 20),
            bytes: Vec::new(),
            dirty: Vec::new(),
            holder: Vec::new(),
            map: vec![0; 8],
            used: vec![0; 8],
        }
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn mark(&mut self, range: Range<u64>, lsn: Option<Lsn>) {
        if self.dirty.len() < range.end as usize {
            self.dirty.resize(range.end as usize, None);
            self.holder.resize(range.end as usize, Lsn::ZERO);
        }
        self.dirty[range.start as usize..range.end as usize].fill(lsn);
        self.holder[range.start as usize..range.end as usize].fill(lsn.unwrap_or_default());
    }

    fn move_held(&mut self, share: u8, bytes: u64) {
        let end = Lsn(self.world.records.len() * u64::from(share) / 256 + 1);
        let mut moved = 0;
        for held in self.world.cache.held_below(end, bytes) {
            assert!(self.world.cache.still_holds(&held));
            let Ok(op @ DataOp::Moved { offset, length, of, .. }) = DataOp::decode(&held.descriptor) else {
                panic!("{held:?}")
            };
            let payload = self.world.records.get(held.place, held.from, held.length);
            moved += payload.len() as u64;
            let lsn = self.world.commit(op, &payload);
            assert!(!self.world.cache.still_holds(&held));
            for at in offset as usize..(offset + length) as usize {
                assert!(self.dirty[at] == Some(of) && self.holder[at] < end);
                self.holder[at] = lsn;
            }
        }
        assert!(moved <= bytes);
    }

    fn write(&mut self, at: u64, length: u64, fill: u8) {
        let data: Vec<u8> = (0..length).map(|i| fill.wrapping_add((i / 7) as u8)).collect();
        let lsn = self.world.write(file(1), at, &data);
        let end = (at + length) as usize;
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[at as usize..end].copy_from_slice(&data);
        self.mark(at..at + length, Some(lsn));
    }

    fn truncate(&mut self, size: u64) {
        if size < self.size() {
            let mut ops = vec![(DataOp::truncate(file(1), size), Bytes::new())];
            let end = size.next_multiple_of(BLOCK);
            let last = (size / BLOCK) as usize;
            let tail = size..end;
            if !tail.is_empty() && self.map[last] != 0 {
                let op = DataOp::Zero { file: file(1), shift: SHIFT, offset: size, length: end - size };
                ops.push((op, Bytes::new()));
            }
            let zeroed = ops.len() > 1;
            let lsn = self.world.commit_all(ops);
            let all = self.dirty.len() as u64;
            self.mark(size..all.max(size), None);
            if zeroed {
                self.mark(tail, Some(Lsn(lsn.0 + 1)));
            }
            self.map[end.div_ceil(BLOCK) as usize..].fill(0);
        }
        self.bytes.resize(size as usize, 0);
    }

    fn punch(&mut self, block: u64) {
        let range = block * BLOCK..(block + 1) * BLOCK;
        self.world.commit(DataOp::Discard { file: file(1), offset: range.start, length: BLOCK }, b"");
        self.map[block as usize] = 0;
        let size = self.size();
        self.bytes[range.start.min(size) as usize..range.end.min(size) as usize].fill(0);
        self.mark(range, None);
    }

    fn remove(&mut self) {
        self.world.commit(DataOp::Forget { file: file(1) }, b"");
        self.bytes.clear();
        self.dirty.clear();
        self.map.fill(0);
    }

    async fn write_back(&mut self, blocks: usize, meanwhile: Option<Box<Step>>) {
        let selection = Selection { bytes: u64::MAX, blocks, hurry: true };
        let claimed = self.world.cache.claim_dirty(file(1).volume, &selection);
        let mut stored = Vec::new();
        for block in &claimed {
            let snapshot = self.world.cache.snapshot(block).unwrap();
            let index = block.block.0;
            let length = self.size().saturating_sub(index * BLOCK).min(BLOCK);
            let base = match self.map[index as usize] {
                _ if snapshot.covers(length) => None,
                0 => Some(Bytes::new()),
                version => {
                    let loader = self.world.loader();
                    let version = sealing(version);
                    Some(
                        self.world
                            .cache
                            .stored_block(file(1), SHIFT, block.block, version, &loader)
                            .await
                            .unwrap(),
                    )
                }
            };
            let parts = snapshot.assemble(length, base.as_ref()).await.unwrap();
            self.used[index as usize] += 1;
            let version = self.used[index as usize];
            let content = Bytes::from(parts.concat());
            assert_eq!(content.len() as u64, length);
            self.world.store(file(1), index, version, content.clone());
            let staged = self.world.cache.stage(file(1), block.block, sealing(version), content);
            stored.push((snapshot, index, version, staged));
        }
        if let Some(meanwhile) = meanwhile {
            self.plain(*meanwhile);
        }
        for (snapshot, index, version, staged) in stored {
            if !snapshot.is_current() {
                // The number is free for other content.
                self.used[index as usize] -= 1;
                continue;
            }
            self.map[index as usize] = version;
            let (block, up_to) = (BlockIndex(index), snapshot.up_to());
            self.world.commit(DataOp::Cleaned { file: file(1), shift: SHIFT, block, up_to }, b"");
            staged.keep().await;
            for at in index * BLOCK..((index + 1) * BLOCK).min(self.dirty.len() as u64) {
                let byte = &mut self.dirty[at as usize];
                *byte = byte.filter(|lsn| *lsn > up_to);
            }
        }
        drop(claimed);
    }

    fn plain(&mut self, step: Step) {
        match step {
            Step::Write { at, length, fill } => self.write(at, length, fill),
            Step::Truncate { size } => self.truncate(size),
            Step::PunchBlock { block } => self.punch(block),
            Step::Remove => self.remove(),
            Step::Move { share, bytes } => self.move_held(share, bytes),
            other => unreachable!("{other:?}"),
        }
    }

    async fn run(&mut self, step: Step) {
        match step {
            Step::WriteBack { blocks, meanwhile } => self.write_back(blocks, meanwhile).await,
            Step::Read { at, length } => {
                let got = self.world.read(file(1), self.size(), at, length, &self.map).await;
                let (start, end) = (at.min(self.size()), (at + length).min(self.size()));
                assert!(got == self.bytes[start as usize..end as usize], "a read at {at} of {length}");
            }
            Step::DropMemory => self.world.cache.drop_memory(),
            Step::Restart { trim } => {
                if trim {
                    self.world.records.trim(self.world.cache.oldest_needed());
                }
                self.world.restart();
            }
            plain => self.plain(plain),
        }
    }

    /// What must hold after every step.
    fn check(&self) {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (at, _) in self.dirty.iter().enumerate().filter(|(_, lsn)| lsn.is_some()) {
            match ranges.last_mut() {
                Some(last) if last.end == at as u64 => last.end += 1,
                _ => ranges.push(at as u64..at as u64 + 1),
            }
        }
        let mut known: Vec<Range<u64>> = Vec::new();
        for range in self.world.cache.dirty_ranges(file(1), 0..u64::MAX) {
            match known.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => known.push(range),
            }
        }
        assert_eq!(known, ranges);
        let holders = self.dirty.iter().zip(&self.holder).filter(|(dirty, _)| dirty.is_some());
        assert_eq!(self.world.cache.oldest_needed(), holders.map(|(_, holder)| *holder).min());
        let usage = self.world.cache.usage();
        assert_eq!(usage.dirty, self.dirty.iter().flatten().count() as u64);
        assert!(usage.dirty_memory <= self.world.config.dirty_memory(), "{usage:?}");
        assert_eq!(usage.bad_disk_blocks, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn reads_are_those_of_a_plain_file_whatever_is_written_back_evicted_or_restarted(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut model = Model::new();
            for step in steps {
                model.run(step).await;
                model.check();
            }
            let size = model.size();
            let all = model.world.read(file(1), size, 0, size, &model.map).await;
            assert!(all == model.bytes, "the whole file");
        });
    }
}
