use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::Bytes;

use crate::row::{BadRow, RowReader, RowWriter};

const FORMAT: u8 = 1;

/// What a volume holds: counted in memory, so that transactions share no row; saved now and then and at the end, and
/// counted anew after a crash.
#[derive(Default)]
pub(crate) struct Usage {
    objects: AtomicI64,
    bytes: AtomicI64,
    /// Whether somebody gave up waiting for a commit that he would have counted.
    doubtful: AtomicBool,
}

/// A commit under way whose change is not counted yet. Who lets go of it uncounted, since his task ends, leaves a usage
/// that is not to be relied on.
pub(crate) struct Uncounted<'a>(&'a Usage);

impl Uncounted<'_> {
    /// The commit is done, or came to nothing, which is a change of nothing.
    pub fn count(self, amount: Amount) {
        self.0.add(amount);
        std::mem::forget(self);
    }
}

impl Drop for Uncounted<'_> {
    fn drop(&mut self) {
        self.0.doubtful.store(true, Ordering::Relaxed);
    }
}

/// A change of the usage, or a state of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub objects: i64,
    pub bytes: i64,
}

impl Usage {
    pub fn add(&self, amount: Amount) {
        self.objects.fetch_add(amount.objects, Ordering::Relaxed);
        self.bytes.fetch_add(amount.bytes, Ordering::Relaxed);
    }

    /// Before a commit that changes it.
    pub fn begin(&self) -> Uncounted<'_> {
        Uncounted(self)
    }

    /// Whether all that was committed is counted.
    pub fn is_exact(&self) -> bool {
        !self.doubtful.load(Ordering::Relaxed)
    }

    pub fn get(&self) -> Amount {
        Amount {
            objects: self.objects.load(Ordering::Relaxed).max(0),
            bytes: self.bytes.load(Ordering::Relaxed).max(0),
        }
    }
}

impl Amount {
    /// `exact` when nothing changes the usage after this row until the volume is opened again.
    pub fn encode(self, exact: bool) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        row.byte(u8::from(exact)).signed(self.objects).signed(self.bytes);
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<(Amount, bool), BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let exact = reader.byte()? == 1;
        let amount = Amount { objects: reader.signed()?, bytes: reader.signed()? };
        reader.end()?;
        Ok((amount, exact))
    }
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_up_waiting_for_a_commit_leaves_a_usage_that_is_counted_anew() {
        let usage = Usage::default();
        usage.begin().count(Amount { objects: 1, bytes: 5 });
        assert!(usage.is_exact());
        assert_eq!(usage.get(), Amount { objects: 1, bytes: 5 });
        drop(usage.begin());
        assert!(!usage.is_exact());
    }
}
