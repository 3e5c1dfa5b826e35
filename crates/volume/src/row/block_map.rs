//! The block map: which version of each block is current. Split into chunks of [`CHUNK_BLOCKS`] blocks, so that a
//! write to one block of the largest file rewrites a few KiB at most (`K18`).
//!
//! A chunk is a sequence of runs. A run's header is `(length - 1) << 1 | literal`; `length` entries follow if it is
//! literal, one that is repeated otherwise. An entry is `zigzag(version - version before) << 3 | wide << 2 | hole << 1 |
//! extra`; with `wide` (a step of over 60 bits) the step's higher bits follow; with `extra` the creator, the seal id
//! and the number of burnt versions follow, without it the first two are those of the entry before and nothing is
//! burnt. A seal id is 0 and 8 bytes where it first appears in the chunk; where it comes again, it is the number of
//! that appearance, from 1. Blocks behind the last run have never been stored. Neighbours are alike, so that an entry takes about a
//! byte, and equal neighbours nothing (`K20`).
//!
//! A chunk with blocks whose content is shared has a format of its own: the length of all that, that, and runs of shared
//! blocks: blocks passed over since the run before, `length - 1`, the origin's object (0 and 18 bytes where it first
//! appears, the number of that appearance from 1 where it comes again), the steps of the distance (block of the origin less
//! index in the chunk) and of the version of the origin, both zigzag. Creator and seal id of the entry are the origin's.
//!
//! So has one with blocks that are stored by another policy than most of their file: the length of the entries, these, the length
//! of the runs of shared blocks, those, and runs of such blocks: blocks passed over since the run before, `length - 1`, the policy.

use blocks::SealId;
use bytes::Bytes;
use ids::{BlockIndex, GatewayId, ObjectId, Version};

use super::{BadRow, RowReader, RowWriter};

/// Blocks of one chunk.
pub(crate) const CHUNK_BLOCKS: u64 = 1024;

const FORMAT: u8 = 2;
/// With blocks that are shared.
const FORMAT_SHARED: u8 = 3;
/// With blocks that name their policy.
const FORMAT_POLICIES: u8 = 4;

/// Where content was stored that a block has taken over: what the sealed block is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Origin {
    pub object: ObjectId,
    pub block: BlockIndex,
    pub version: Version,
}

/// A sealed block version, as it is named in the clouds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub origin: Origin,
    pub creator: GatewayId,
    pub seal: SealId,
}

/// The state of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockEntry {
    /// The last version that was committed; kept when the block becomes a hole (`K14`).
    pub version: Version,
    /// Reads as zeros, whatever was stored under `version` (`K13`).
    pub hole: bool,
    /// Who made what is stored.
    pub creator: GatewayId,
    /// Which sealing of it was committed.
    pub seal: SealId,
    /// So many numbers above `version` have been used for content that did not become current.
    pub burnt: u64,
    /// Where the content was stored if not under `version` of this block: it is shared, and counted in the row of the
    /// origin's shares.
    pub origin: Option<Origin>,
    /// The policy that the version of its own is stored by, where that is not the one that its file's row says (decision 28).
    pub policy: Option<u32>,
}

impl BlockEntry {
    /// Never stored.
    pub const NONE: BlockEntry = BlockEntry {
        version: Version::NONE,
        hole: true,
        creator: GatewayId(0),
        seal: SealId(0),
        burnt: 0,
        origin: None,
        policy: None,
    };

    /// Whether there is stored content to read.
    pub fn is_stored(&self) -> bool {
        !self.hole
    }

    /// Whether this block's own content under `version` is what is stored.
    pub fn is_own(&self, version: Version) -> bool {
        self.is_stored() && self.origin.is_none() && self.version == version
    }

    /// What is stored of this block, which is `block` of `object`; of something stored only.
    pub fn sealed(&self, object: ObjectId, block: BlockIndex) -> Sealed {
        let own = Origin { object, block, version: self.version };
        Sealed { origin: self.origin.unwrap_or(own), creator: self.creator, seal: self.seal }
    }

    /// Reads as zeros from now on; its number stays (`K14`).
    pub fn punched(self) -> BlockEntry {
        BlockEntry { hole: true, origin: None, policy: None, ..self }
    }

    /// The version that the next content gets.
    pub fn next(&self) -> Version {
        Version(self.version.0.saturating_add(self.burnt).saturating_add(1))
    }
}

/// A decoded chunk. Entries behind the end are [`BlockEntry::NONE`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    entries: Vec<BlockEntry>,
}

impl Chunk {
    pub fn decode(row: &[u8]) -> Result<Chunk, BadRow> {
        let view = ChunkView::new(row)?;
        let mut entries = Vec::new();
        view.walk(|entry, count| {
            entries.extend(std::iter::repeat_n(entry, count));
            true
        })?;
        let mut damaged = false;
        view.walk_shared(|index, origin| {
            match entries.get_mut(index as usize) {
                Some(entry) if entry.is_stored() => entry.origin = Some(origin),
                _ => damaged = true,
            }
            !damaged
        })?;
        if damaged {
            return Err(BadRow("a shared block that is not stored"));
        }
        view.walk_policies(|index, policy| {
            match entries.get_mut(index as usize) {
                Some(entry) if entry.is_stored() && entry.origin.is_none() => entry.policy = Some(policy),
                _ => damaged = true,
            }
            !damaged
        })?;
        if damaged {
            return Err(BadRow("the policy of a block that has no version of its own"));
        }
        Ok(Chunk { entries })
    }

    pub fn encode(&self) -> Bytes {
        let shared = self.entries.iter().any(|entry| entry.origin.is_some());
        let marked = self.entries.iter().any(|entry| entry.policy.is_some());
        if !shared && !marked {
            return self.encode_entries(RowWriter::new(FORMAT));
        }
        let mut row = RowWriter::new(if marked { FORMAT_POLICIES } else { FORMAT_SHARED });
        let plain = |e: &BlockEntry| BlockEntry { origin: None, policy: None, ..*e };
        let entries: Vec<_> = self.entries.iter().map(plain).collect();
        // Without the format, which the row as a whole has.
        row.text(&Chunk { entries }.encode_entries(RowWriter::new(FORMAT))[1..]);
        if !marked {
            return self.encode_shared(row);
        }
        row.text(&self.encode_shared(RowWriter::new(FORMAT))[1..]);
        self.encode_policies(row)
    }

    fn encode_policies(&self, mut row: RowWriter) -> Bytes {
        let mut marked = self.iter().filter_map(|(index, e)| Some((index, e.policy?))).peekable();
        let mut at = 0;
        while let Some((first, policy)) = marked.next() {
            let mut length = 1;
            while marked.next_if_eq(&(first + length, policy)).is_some() {
                length += 1;
            }
            row.number(first - at).number(length - 1).number(u64::from(policy));
            at = first + length;
        }
        row.finish()
    }

    fn encode_shared(&self, row: RowWriter) -> Bytes {
        let mut writer =
            OriginWriter { row, at: 0, distance: 0, version: Version::NONE, objects: Vec::new() };
        let mut shared = self.iter().filter_map(|(index, e)| Some((index, e.origin?))).peekable();
        while let Some((first, origin)) = shared.next() {
            let mut length = 1;
            while let Some((index, next)) = shared.peek()
                && *index == first + length
                && *next == (Origin { block: BlockIndex(origin.block.0.wrapping_add(length)), ..origin })
            {
                length += 1;
                shared.next();
            }
            writer.run(first, length, origin);
        }
        writer.row.finish()
    }

    fn encode_entries(&self, row: RowWriter) -> Bytes {
        let used = self.entries.iter().rposition(|e| *e != BlockEntry::NONE).map_or(0, |last| last + 1);
        let entries = &self.entries[..used];
        let mut row = EntryWriter { row, before: BlockEntry::NONE, seals: Vec::new() };
        let mut at = 0;
        while at < entries.len() {
            let alike = run_length(&entries[at..]);
            if alike >= 2 {
                row.row.number((alike as u64 - 1) << 1);
                row.entry(entries[at]);
                at += alike;
                continue;
            }
            // A literal run ends where three alike begin: two do not pay for their header.
            let length = (1..entries.len() - at)
                .find(|&next| run_length(&entries[at + next..]) >= 3)
                .unwrap_or(entries.len() - at);
            row.row.number((length as u64 - 1) << 1 | 1);
            entries[at..at + length].iter().for_each(|&entry| row.entry(entry));
            at += length;
        }
        row.row.finish()
    }

    pub fn get(&self, index: u64) -> BlockEntry {
        self.entries.get(index as usize).copied().unwrap_or(BlockEntry::NONE)
    }

    /// `index` is below [`CHUNK_BLOCKS`].
    pub fn set(&mut self, index: u64, entry: BlockEntry) {
        debug_assert!(index < CHUNK_BLOCKS);
        let index = index as usize;
        if self.entries.len() <= index {
            self.entries.resize(index + 1, BlockEntry::NONE);
        }
        self.entries[index] = entry;
    }

    /// Entries with their index, without those that have never been stored.
    pub fn iter(&self) -> impl Iterator<Item = (u64, BlockEntry)> {
        self.entries.iter().enumerate().filter(|(_, e)| **e != BlockEntry::NONE).map(|(i, e)| (i as u64, *e))
    }
}

/// An encoded chunk in which single blocks are looked up.
pub(crate) struct ChunkView<'a> {
    reader: RowReader<'a>,
    /// Runs of shared blocks.
    shared: RowReader<'a>,
    /// Runs of blocks that name their policy.
    policies: RowReader<'a>,
}

impl<'a> ChunkView<'a> {
    pub fn new(row: &'a [u8]) -> Result<ChunkView<'a>, BadRow> {
        let nothing = || RowReader { rest: &[] };
        match row.first() {
            Some(&FORMAT_SHARED) => {
                let mut shared = RowReader::new(row, FORMAT_SHARED)?;
                let reader = RowReader { rest: shared.text()? };
                Ok(ChunkView { reader, shared, policies: nothing() })
            }
            Some(&FORMAT_POLICIES) => {
                let mut policies = RowReader::new(row, FORMAT_POLICIES)?;
                let reader = RowReader { rest: policies.text()? };
                let shared = RowReader { rest: policies.text()? };
                Ok(ChunkView { reader, shared, policies })
            }
            _ => {
                let reader = RowReader::new(row, FORMAT)?;
                Ok(ChunkView { reader, shared: nothing(), policies: nothing() })
            }
        }
    }

    /// The entry of the block `index` of the chunk.
    pub fn entry(&self, index: u64) -> Result<BlockEntry, BadRow> {
        let mut found = BlockEntry::NONE;
        let mut left = index as usize;
        self.walk(|entry, count| {
            if left < count {
                found = entry;
                return false;
            }
            left -= count;
            true
        })?;
        self.walk_shared(|at, origin| {
            if at == index {
                found.origin = Some(origin);
            }
            at < index
        })?;
        self.walk_policies(|at, policy| {
            if at == index {
                found.policy = Some(policy);
            }
            at < index
        })?;
        match found {
            BlockEntry { hole: true, origin: Some(_), .. } => {
                Err(BadRow("a shared block that is not stored"))
            }
            BlockEntry { hole: true, policy: Some(_), .. }
            | BlockEntry { origin: Some(_), policy: Some(_), .. } => {
                Err(BadRow("the policy of a block that has no version of its own"))
            }
            found => Ok(found),
        }
    }

    /// Calls `visit` with the index of every block that names its policy, and the policy, until it returns false.
    fn walk_policies(&self, mut visit: impl FnMut(u64, u32) -> bool) -> Result<(), BadRow> {
        let (mut row, mut at) = (self.policies.clone(), 0_u64);
        while !row.is_empty() {
            let (skip, more, policy) = (row.number()?, row.number()?, row.number32()?);
            if skip >= CHUNK_BLOCKS || more >= CHUNK_BLOCKS || at + skip + more >= CHUNK_BLOCKS {
                return Err(BadRow("a block map chunk with too many blocks"));
            }
            at += skip;
            if !(at..=at + more).all(|index| visit(index, policy)) {
                return Ok(());
            }
            at += more + 1;
        }
        Ok(())
    }

    /// Calls `visit` with the index of every shared block and its origin, until it returns false.
    fn walk_shared(&self, mut visit: impl FnMut(u64, Origin) -> bool) -> Result<(), BadRow> {
        let mut row = self.shared.clone();
        let (mut at, mut distance, mut version) = (0_u64, 0_u64, 0_u64);
        let mut objects = Vec::new();
        while !row.is_empty() {
            let (skip, more) = (row.number()?, row.number()?);
            if skip >= CHUNK_BLOCKS || more >= CHUNK_BLOCKS || at + skip + more >= CHUNK_BLOCKS {
                return Err(BadRow("a block map chunk with too many blocks"));
            }
            let object = match row.number()? {
                0 => {
                    objects.push(row.object()?);
                    objects.last().copied()
                }
                known => usize::try_from(known - 1).ok().and_then(|known| objects.get(known).copied()),
            }
            .ok_or(BadRow("an object that is not there"))?;
            distance = distance.wrapping_add(row.signed()? as u64);
            version = version.wrapping_add(row.signed()? as u64);
            at += skip;
            for index in at..=at + more {
                let block = BlockIndex(index.wrapping_add(distance));
                if !visit(index, Origin { object, block, version: Version(version) }) {
                    return Ok(());
                }
            }
            at += more + 1;
        }
        Ok(())
    }

    /// Calls `visit` with every distinct entry and how often it repeats, until it returns false.
    fn walk(&self, mut visit: impl FnMut(BlockEntry, usize) -> bool) -> Result<(), BadRow> {
        let mut reader =
            EntryReader { row: self.reader.clone(), before: BlockEntry::NONE, seals: Vec::new() };
        let mut total = 0;
        while !reader.row.is_empty() {
            let header = reader.row.number()?;
            let length = (header >> 1) + 1;
            total += length;
            if header >> 1 >= CHUNK_BLOCKS || total > CHUNK_BLOCKS {
                return Err(BadRow("a block map chunk with too many blocks"));
            }
            let (entries, repeat) = if header & 1 == 1 { (length, 1) } else { (1, length as usize) };
            for _ in 0..entries {
                if !visit(reader.entry()?, repeat) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn run_length(entries: &[BlockEntry]) -> usize {
    entries.iter().take_while(|e| **e == entries[0]).count()
}

/// Encodes entries, each after the one before.
struct EntryWriter {
    row: RowWriter,
    before: BlockEntry,
    /// In the order of their first appearance: few, one for each start of the store that wrote to these blocks.
    seals: Vec<SealId>,
}

impl EntryWriter {
    fn entry(&mut self, entry: BlockEntry) {
        let (row, before) = (&mut self.row, std::mem::replace(&mut self.before, entry));
        let step = entry.version.0.wrapping_sub(before.version.0) as i64;
        let extra = entry.creator != before.creator || entry.seal != before.seal || entry.burnt != 0;
        let zigzag = ((step << 1) ^ (step >> 63)) as u64;
        // Three flags more than 64 bits can hold: a wide step takes two numbers.
        let flags = u64::from(entry.hole) << 1 | u64::from(extra);
        let low = zigzag & ((1 << 61) - 1);
        let high = zigzag >> 61;
        row.number(low << 3 | u64::from(high != 0) << 2 | flags);
        if high != 0 {
            row.number(high);
        }
        if extra {
            row.number(u64::from(entry.creator.0));
            match self.seals.iter().position(|seal| *seal == entry.seal) {
                Some(at) => row.number(at as u64 + 1),
                None => {
                    self.seals.push(entry.seal);
                    row.number(0).fixed(&entry.seal.0.to_be_bytes())
                }
            };
            row.number(entry.burnt);
        }
    }
}

/// Encodes runs of shared blocks, each after the one before.
struct OriginWriter {
    row: RowWriter,
    /// The index behind the run before.
    at: u64,
    distance: u64,
    version: Version,
    objects: Vec<ObjectId>,
}

impl OriginWriter {
    fn run(&mut self, first: u64, length: u64, origin: Origin) {
        let row = &mut self.row;
        row.number(first - self.at).number(length - 1);
        match self.objects.iter().position(|object| *object == origin.object) {
            Some(known) => row.number(known as u64 + 1),
            None => {
                self.objects.push(origin.object);
                row.number(0).object(origin.object)
            }
        };
        let distance = origin.block.0.wrapping_sub(first);
        row.signed(distance.wrapping_sub(self.distance) as i64);
        row.signed(origin.version.0.wrapping_sub(self.version.0) as i64);
        (self.at, self.distance, self.version) = (first + length, distance, origin.version);
    }
}

/// The inverse.
struct EntryReader<'a> {
    row: RowReader<'a>,
    before: BlockEntry,
    seals: Vec<SealId>,
}

impl EntryReader<'_> {
    fn entry(&mut self) -> Result<BlockEntry, BadRow> {
        let (row, before) = (&mut self.row, self.before);
        let head = row.number()?;
        let high = if head & 4 != 0 { row.number()? } else { 0 };
        if high > 7 || (head & 4 != 0 && high == 0) {
            return Err(BadRow("a block version out of range"));
        }
        let zigzag = high << 61 | head >> 3;
        let step = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        let version = Version(before.version.0.wrapping_add(step as u64));
        let (mut creator, mut seal, mut burnt) = (before.creator, before.seal, 0);
        if head & 1 == 1 {
            creator = GatewayId(row.number16()?);
            seal = match row.number()? {
                0 => {
                    self.seals.push(SealId(u64::from_be_bytes(row.fixed()?)));
                    self.seals.last().copied()
                }
                at => usize::try_from(at - 1).ok().and_then(|at| self.seals.get(at).copied()),
            }
            .ok_or(BadRow("a seal id that is not there"))?;
            burnt = row.number()?;
        }
        let hole = head & 2 != 0;
        self.before = BlockEntry { version, hole, creator, seal, burnt, ..BlockEntry::NONE };
        Ok(self.before)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(version: u64) -> BlockEntry {
        BlockEntry {
            version: Version(version),
            hole: false,
            creator: GatewayId(1),
            seal: SealId(4),
            burnt: 0,
            origin: None,
            policy: None,
        }
    }

    fn any_entry() -> impl Strategy<Value = BlockEntry> {
        let version = prop_oneof![8 => 0_u64..6, 1 => any::<u64>()];
        let origin = prop::option::weighted(0.5, (0_u128..3, 0_u64..4, 0_u64..3));
        let burnt = prop_oneof![9 => Just(0_u64), 1 => any::<u64>()];
        let policy = prop::option::weighted(0.3, 0_u32..3);
        (version, any::<bool>(), 0_u16..3, burnt, origin, policy).prop_map(
            |(version, hole, creator, burnt, origin, policy)| BlockEntry {
                version: Version(version),
                hole,
                creator: GatewayId(creator),
                seal: SealId((u64::from(creator) << 60) | (version % 4)),
                burnt,
                origin: origin.filter(|_| !hole).map(|(object, block, version)| Origin {
                    object: ObjectId { creator: GatewayId(1), number: ids::ObjectNumber(object) },
                    block: BlockIndex(block.wrapping_sub(1)),
                    version: Version(version),
                }),
                policy: policy.filter(|_| !hole && origin.is_none()),
            },
        )
    }

    proptest! {
        #[test]
        fn chunks_come_back_whole_and_block_by_block(entries in prop::collection::vec(any_entry(), 0..60)) {
            let mut chunk = Chunk::default();
            for (index, entry) in entries.iter().enumerate() {
                chunk.set(index as u64, *entry);
            }
            let row = chunk.encode();
            let back = Chunk::decode(&row).unwrap();
            let view = ChunkView::new(&row).unwrap();
            for index in 0..70 {
                prop_assert_eq!(back.get(index), chunk.get(index));
                prop_assert_eq!(view.entry(index), Ok(chunk.get(index)));
            }
        }
    }

    #[test]
    fn a_freshly_written_chunk_takes_a_few_bytes() {
        let mut chunk = Chunk::default();
        for index in 0..CHUNK_BLOCKS {
            chunk.set(index, entry(1));
        }
        assert!(chunk.encode().len() <= 16, "{}", chunk.encode().len());
    }

    #[test]
    fn a_clone_of_a_freshly_written_chunk_takes_a_few_bytes() {
        let mut chunk = Chunk::default();
        let object = ObjectId { creator: GatewayId(1), number: ids::ObjectNumber(9) };
        for index in 0..CHUNK_BLOCKS {
            let origin = Origin { object, block: BlockIndex(1 << 40 | index), version: Version(1) };
            chunk.set(index, BlockEntry { version: Version::NONE, origin: Some(origin), ..entry(1) });
        }
        assert!(chunk.encode().len() <= 64, "{}", chunk.encode().len());
    }

    #[test]
    fn a_chunk_on_its_way_to_another_policy_takes_a_few_bytes() {
        let mut chunk = Chunk::default();
        for index in 0..CHUNK_BLOCKS {
            chunk.set(index, BlockEntry { policy: (index >= 500).then_some(7), ..entry(1) });
        }
        assert!(chunk.encode().len() <= 32, "{}", chunk.encode().len());
    }

    #[test]
    fn versions_of_a_random_overwrite_trace_shrink_at_least_four_to_one() {
        // K20: 8 bytes of version and 2 of creator a block, after 16 random overwrites per block on average.
        let mut chunk = Chunk::default();
        let mut state = 12345_u64;
        for round in 0..16 * CHUNK_BLOCKS {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let index = (state >> 33) % CHUNK_BLOCKS;
            // Eight starts of the store, one after the other.
            let seal = SealId(0x5EA1 + ((round / (2 * CHUNK_BLOCKS)) << 60));
            chunk.set(index, BlockEntry { seal, ..entry(chunk.get(index).version.0 + 1) });
        }
        let (raw, coded) = (10 * CHUNK_BLOCKS as usize, chunk.encode().len());
        assert!(coded * 4 <= raw, "{coded} bytes of {raw}");
    }

    #[test]
    fn a_chunk_that_claims_more_blocks_than_there_are_is_refused() {
        let mut row = RowWriter::new(FORMAT);
        row.number((CHUNK_BLOCKS << 1) & !1).number(8);
        assert!(Chunk::decode(&row.finish()).is_err());
        let mut row = RowWriter::new(FORMAT);
        row.number(u64::MAX).number(8);
        assert!(Chunk::decode(&row.finish()).is_err());
    }
}
