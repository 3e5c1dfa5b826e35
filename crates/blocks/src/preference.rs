use std::time::Duration;

/// Which clouds are read from, when more have the data than are needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// Those that are expected to be done first.
    #[default]
    Speed,
    /// Among those that take no longer than `bound`, nineteen times out of twenty, the ones whose requests and bytes cost least. When too few
    /// are that fast, the fastest make up for them.
    Cost {
        /// How long a read of one block may take.
        bound: Duration,
    },
}
