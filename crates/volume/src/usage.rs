use std::sync::Arc;
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
    /// The last state is being saved, or is.
    closed: AtomicBool,
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

    /// With the commit of `transaction`, whoever still waits for that. One that comes after the last state was saved in the row `key` says there
    /// that it is not exact; one that meets that is in conflict.
    pub fn add_with(self: &Arc<Self>, transaction: &mut dyn meta::Transaction, key: Bytes, amount: Amount) {
        if amount == Amount::default() {
            return;
        }
        transaction.guard(&key);
        if self.closed.load(Ordering::Acquire) {
            transaction.put(key, amount.encode(false));
        }
        let usage = self.clone();
        transaction.afterwards(Box::new(move || usage.add(amount)));
    }

    /// The last state follows.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
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
