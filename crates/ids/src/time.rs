/// A point of wall-clock time: seconds since 1970-01-01 UTC (negative before) and nanoseconds below a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanos: u32,
}
