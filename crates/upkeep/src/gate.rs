use cache::BlockSnapshot;

/// A stage between the queue of dirty data and the clouds.
pub trait Gate: Send + Sync {
    /// Whether this may be stored now. If not, the gate has [held back](cache::Cache::hold_back) its file when this returns, and lets it through
    /// later; the block is given back unwritten. Asked often: answers from memory.
    fn admits(&self, snapshot: &BlockSnapshot) -> bool;
}
