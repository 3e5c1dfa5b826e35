//! Building a reply one operation at a time.

use xdr::{Encode, Encoder};

use crate::{NfsStatus, Utf8String};

/// A `COMPOUND4res` or `CB_COMPOUND4res` under construction, straight in the buffer that will be sent. Status and
/// number of results are filled in at the end.
///
/// Results are [`NfsResOp`](crate::NfsResOp), [`NfsCbResOp`](crate::NfsCbResOp), or written by hand, for instance with
/// [`ReadDirWriter`](crate::ReadDirWriter).
#[derive(Debug)]
pub struct CompoundReply<'a> {
    out: &'a mut Encoder,
    status_at: usize,
    count_at: usize,
    count: u32,
}

impl<'a> CompoundReply<'a> {
    /// Starts a reply with the tag of the request.
    pub fn begin(out: &'a mut Encoder, tag: &Utf8String) -> CompoundReply<'a> {
        let status_at = out.len();
        NfsStatus::Ok.encode(out);
        tag.encode(out);
        let count_at = out.len();
        out.put_u32(0);
        CompoundReply { out, status_at, count_at, count: 0 }
    }

    /// Bytes so far, the status word included.
    pub fn len(&self) -> usize {
        self.out.len() - self.status_at
    }

    /// Whether there is no result yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Results so far.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Adds a result.
    pub fn push(&mut self, result: &impl Encode) {
        result.encode(self.out);
        self.count += 1;
    }

    /// Adds a result if the reply then has at most `limit` bytes ([`len`](Self::len)). `false`, and nothing written,
    /// if not.
    #[must_use]
    pub fn push_within(&mut self, result: &impl Encode, limit: usize) -> bool {
        let before = self.out.mark();
        result.encode(self.out);
        if self.len() > limit {
            self.out.truncate(before);
            return false;
        }
        self.count += 1;
        true
    }

    /// Adds a result that `write` writes by hand, operation number included. If `write` returns `None`, what it wrote
    /// is forgotten.
    pub fn push_with<T>(&mut self, write: impl FnOnce(&mut Encoder) -> Option<T>) -> Option<T> {
        let before = self.out.mark();
        let written = write(self.out);
        match written {
            Some(_) => self.count += 1,
            None => self.out.truncate(before),
        }
        written
    }

    /// Fills in the status of the last operation, and the number of results.
    pub fn finish(self, status: NfsStatus) {
        self.out.patch_u32(self.status_at, status.code());
        self.out.patch_u32(self.count_at, self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CompoundRes, NfsResOp};

    #[test]
    fn what_is_built_is_what_the_result_type_decodes() {
        let results = vec![NfsResOp::PutRootFh(NfsStatus::Ok), NfsResOp::Lookup(NfsStatus::NoEnt)];
        let expected = CompoundRes { status: NfsStatus::NoEnt, tag: "tag".into(), results };

        let mut out = Encoder::new();
        out.put_u32(77); // an RPC header, say
        let mut reply = CompoundReply::begin(&mut out, &expected.tag);
        reply.push(&expected.results[0]);
        let len = reply.len();
        assert!(!reply.push_within(&expected.results[1], len + 7));
        let forgotten = reply.push_with(|out| {
            out.put_u32(1);
            None::<()>
        });
        assert_eq!(forgotten, None);
        assert_eq!((reply.len(), reply.count()), (len, 1));
        assert!(reply.push_within(&expected.results[1], len + 8));
        reply.finish(NfsStatus::NoEnt);
        assert_eq!(xdr::from_bytes::<CompoundRes>(out.into_bytes().slice(4..)).unwrap(), expected);
    }
}
