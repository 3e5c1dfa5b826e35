/// What write-back has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteBackReport {
    /// Blocks stored and committed.
    pub blocks: u64,
    /// Their plaintext bytes.
    pub bytes: u64,
    /// Further blocks that were not stored, because what they hold is stored already.
    pub shared: u64,
    /// Blocks, or the packs of blocks, that lack fragments, which are in the repair queue now.
    pub degraded: u64,
    /// Packs stored.
    pub packs: u64,
    /// Blocks that travelled in them.
    pub packed_blocks: u64,
    /// Blocks whose dirty data had become useless: the file was removed or cut.
    pub dropped: u64,
    /// Blocks that were stored in vain: the file was cut, removed or changed elsewhere meanwhile.
    pub overtaken: u64,
    /// Blocks of those that were stored or shared whose file moves from one policy to another, and of which nothing was dirty.
    pub rewritten: u64,
    /// Attempts that failed; their data is still dirty.
    pub failed: u64,
    /// Those of them that failed because the metadata of the block is damaged.
    pub damaged: u64,
}

impl WriteBackReport {
    /// What was done after `before`.
    pub(super) fn since(self, before: WriteBackReport) -> WriteBackReport {
        WriteBackReport {
            blocks: self.blocks - before.blocks,
            bytes: self.bytes - before.bytes,
            shared: self.shared - before.shared,
            packs: self.packs - before.packs,
            packed_blocks: self.packed_blocks - before.packed_blocks,
            degraded: self.degraded - before.degraded,
            dropped: self.dropped - before.dropped,
            overtaken: self.overtaken - before.overtaken,
            rewritten: self.rewritten - before.rewritten,
            failed: self.failed - before.failed,
            damaged: self.damaged - before.damaged,
        }
    }
}
