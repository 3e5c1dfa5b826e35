use std::fmt;

/// Position of a block inside its file, counted in blocks from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(pub u64);

/// Version of one block: 1 for the first content ever stored, one more for every rewrite, never reused, also
/// not after truncation (`K14`). Zero means "never stored".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// No content was ever stored.
    pub const NONE: Version = Version(0);

    /// The version that the next rewrite gets.
    #[must_use]
    pub fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

/// Base-two logarithm of a file's block size: 16 (64 KiB) to 24 (16 MiB), 20 (1 MiB) by default (`K11`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockShift(u8);

impl BlockShift {
    /// 1 MiB.
    pub const DEFAULT: BlockShift = BlockShift(20);
    /// 64 KiB.
    pub const MIN: BlockShift = BlockShift(16);
    /// 16 MiB.
    pub const MAX: BlockShift = BlockShift(24);

    /// `None` unless 16 <= `shift` <= 24.
    pub fn new(shift: u8) -> Option<BlockShift> {
        (Self::MIN.0..=Self::MAX.0).contains(&shift).then_some(BlockShift(shift))
    }

    /// The shift of a block size in bytes; `None` unless it is a power of two between 64 KiB and 16 MiB.
    pub fn from_bytes(bytes: u64) -> Option<BlockShift> {
        (bytes.is_power_of_two()).then(|| Self::new(bytes.trailing_zeros() as u8)).flatten()
    }

    /// The exponent.
    pub fn get(self) -> u8 {
        self.0
    }

    /// The block size in bytes.
    pub fn bytes(self) -> u64 {
        1 << self.0
    }

    /// The block that holds the byte at `offset`.
    pub fn index_of(self, offset: u64) -> BlockIndex {
        BlockIndex(offset >> self.0)
    }

    /// The offset in the file of the first byte of `block`.
    pub fn start_of(self, block: BlockIndex) -> u64 {
        block.0 << self.0
    }

    /// How many blocks a file of `size` bytes spans.
    pub fn blocks_in(self, size: u64) -> u64 {
        size.div_ceil(self.bytes())
    }
}

impl fmt::Display for BlockIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes_outside_the_limits_are_refused() {
        assert_eq!(BlockShift::from_bytes(1 << 20), Some(BlockShift::DEFAULT));
        for bad in [0, 1, 1 << 15, 1 << 25, (1 << 20) + 1, u64::MAX] {
            assert_eq!(BlockShift::from_bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn offsets_map_to_blocks_and_back() {
        let shift = BlockShift::MIN;
        assert_eq!(shift.index_of(65_535), BlockIndex(0));
        assert_eq!(shift.index_of(65_536), BlockIndex(1));
        assert_eq!(shift.start_of(BlockIndex(2)), 131_072);
        assert_eq!((shift.blocks_in(0), shift.blocks_in(1), shift.blocks_in(65_537)), (0, 1, 2));
    }
}
