//! Memory of callers that is written from without being copied.
//!
//! What is lent may be held longer than the call takes that it was lent to: a request whose answer is lost is kept to be
//! repeated. So it is counted, and a call returns only when all of it is back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use vector_client::blocking::Client;

use crate::outcome::Refusal;
use crate::pointer;

/// How long after the end of a call what was lent may be under way back.
const GRACE: Duration = Duration::from_secs(5);

/// Lends for one call, and has everything back when it is dropped.
pub(crate) struct Lender<'a> {
    client: &'a Client,
    lent: Arc<Lent>,
}

#[derive(Default)]
struct Lent {
    count: Mutex<usize>,
    back: Condvar,
}

/// Memory that is not ours, until this is dropped.
struct Loan {
    data: *const u8,
    length: usize,
    lent: Arc<Lent>,
}

// SAFETY: the memory is only read, and whoever lends it promises that nobody changes it meanwhile.
unsafe impl Send for Loan {}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `Lender::lend` has this promised, and the lender does not let go before this is dropped.
        unsafe { std::slice::from_raw_parts(self.data, self.length) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        *self.lent.count.lock() -= 1;
        self.lent.back.notify_all();
    }
}

impl<'a> Lender<'a> {
    pub fn new(client: &'a Client) -> Lender<'a> {
        Lender { client, lent: Arc::default() }
    }

    /// Lends `length` bytes.
    ///
    /// # Safety
    /// They are there, and nobody changes them before the lender is dropped, which must happen.
    pub unsafe fn lend(&self, data: *const u8, length: usize, name: &'static str) -> Result<Bytes, Refusal> {
        pointer::check_array(data, length, name)?;
        if length == 0 {
            return Ok(Bytes::new());
        }
        *self.lent.count.lock() += 1;
        Ok(Bytes::from_owner(Loan { data, length, lent: self.lent.clone() }))
    }
}

impl Drop for Lender<'_> {
    /// Waits until nothing is lent. Something still is after a call whose request was never answered, within all the patience
    /// that the client has; it goes on trying, and only its end makes it let go.
    fn drop(&mut self) {
        let lent = &*self.lent;
        let mut count = lent.count.lock();
        if *count > 0 {
            lent.back.wait_while_for(&mut count, |count| *count > 0, GRACE);
        }
        if *count > 0 {
            drop(count);
            // If the server does not answer this either, it is closed all the same.
            let _ = self.client.close();
            count = lent.count.lock();
        }
        lent.back.wait_while(&mut count, |count| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_back_before_the_lender_goes() {
        let client = Client::local("/tmp").unwrap();
        let memory = [7_u8; 100];
        let lender = Lender::new(&client);
        // SAFETY: `memory` outlives the lender.
        let lent = unsafe { lender.lend(memory.as_ptr(), memory.len(), "memory") }.unwrap();
        let (piece, lender_lent) = (lent.slice(10..20), lender.lent.clone());
        drop(lent);
        assert_eq!(*lender_lent.count.lock(), 1);
        std::thread::scope(|scope| {
            let holder = std::thread::Builder::new().spawn_scoped(scope, move || {
                assert_eq!(piece, [7; 10][..]);
                drop(piece);
            });
            drop(lender);
            assert_eq!(*lender_lent.count.lock(), 0);
            holder.unwrap().join().unwrap();
        });
        assert!(client.exists("/").unwrap(), "the client is not closed for that");
    }
}
