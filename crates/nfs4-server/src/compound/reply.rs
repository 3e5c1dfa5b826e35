//! The reply while it is built, and how large it may become.

use nfs4::{NfsResOp, NfsStatus, OpCode, Utf8String};
use xdr::{Encode, Encoder, Mark};

/// An operation that failed: number, status, and the empty bitmap of SETATTR.
pub(super) const ERROR_BYTES: usize = 12;

/// The result of SEQUENCE: number, status, session, and five numbers.
pub(super) const SEQUENCE_BYTES: usize = 8 + 16 + 20;

/// What RPC puts before the reply (RFC 5531 §9); the limits of a session include it (RFC 8881 §18.36.3).
pub(super) const RPC_HEADER_BYTES: usize = 24;

/// Room that an operation needs in the reply before it is started: the most that it can need, for those that
/// change something, so that nothing is changed whose reply cannot be sent. What only reads is measured
/// afterwards.
pub(super) fn room_needed(operation: OpCode) -> usize {
    const CHANGE: usize = 20;
    const BITMAP: usize = 20;
    const STATE_ID: usize = 16;
    const HEAD: usize = 8;
    // Kind, state id, whether it is recalled, how much may be kept, and an entry for nobody.
    const DELEGATION: usize = 4 + STATE_ID + 4 + 12 + 16;
    // A conflicting lock with the longest owner.
    const DENIED: usize = 8 + 8 + 4 + 8 + 4 + nfs4::OPAQUE_LIMIT;
    match operation {
        OpCode::Open => HEAD + STATE_ID + CHANGE + 4 + BITMAP + DELEGATION,
        OpCode::WantDelegation => HEAD + DELEGATION,
        OpCode::Close | OpCode::OpenConfirm | OpCode::OpenDowngrade | OpCode::Unlock => HEAD + STATE_ID,
        OpCode::SetClientId => HEAD + 16,
        OpCode::Lock => HEAD + DENIED,
        OpCode::Create => HEAD + CHANGE + BITMAP,
        OpCode::Link | OpCode::Remove | OpCode::SetXattr | OpCode::RemoveXattr => HEAD + CHANGE,
        OpCode::Rename => HEAD + 2 * CHANGE,
        OpCode::SetAttr => HEAD + BITMAP,
        OpCode::Write => HEAD + 16,
        OpCode::Copy => HEAD + 4 + STATE_ID + 20 + 8,
        OpCode::OffloadStatus => HEAD + 16,
        OpCode::Commit => HEAD + 8,
        OpCode::ExchangeId => HEAD + 4096,
        OpCode::CreateSession => HEAD + 128,
        OpCode::ReadPlus | OpCode::Seek => HEAD + 12,
        OpCode::CompoundMode => HEAD + 16,
        _ => ERROR_BYTES,
    }
}

/// A point to go back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyMark {
    mark: Mark,
    count: u32,
}

/// `COMPOUND4res`, straight in the buffer that will be sent.
pub(super) struct ReplyBuffer {
    pub out: Encoder,
    status: NfsStatus,
    count_at: usize,
    count: u32,
}

impl ReplyBuffer {
    pub fn new(tag: &Utf8String) -> ReplyBuffer {
        let mut out = Encoder::with_capacity(512);
        NfsStatus::Ok.encode(&mut out);
        tag.encode(&mut out);
        let count_at = out.len();
        out.put_u32(0);
        ReplyBuffer { out, status: NfsStatus::Ok, count_at, count: 0 }
    }

    /// Status of the last operation.
    pub fn status(&self) -> NfsStatus {
        self.status
    }

    /// Bytes of the whole RPC message so far.
    pub fn message_bytes(&self) -> usize {
        RPC_HEADER_BYTES + self.out.len()
    }

    pub fn mark(&self) -> ReplyMark {
        ReplyMark { mark: self.out.mark(), count: self.count }
    }

    /// Forgets the results since `mark`; they were all successful before it.
    pub fn truncate(&mut self, mark: ReplyMark) {
        self.out.truncate(mark.mark);
        self.count = mark.count;
        self.status = NfsStatus::Ok;
    }

    /// The result that was just written to `out` counts.
    pub fn written(&mut self, status: NfsStatus) {
        self.count += 1;
        self.status = status;
    }

    pub fn push(&mut self, result: &NfsResOp) {
        result.encode(&mut self.out);
        self.written(result.status());
    }

    pub fn push_failure(&mut self, operation: OpCode, status: NfsStatus) {
        self.push(&NfsResOp::failure(operation, status));
    }

    /// For a request that is refused as a whole.
    pub fn set_status(&mut self, status: NfsStatus) {
        self.status = status;
    }

    /// Fills in status and count.
    pub fn finish(mut self) -> Encoder {
        self.out.patch_u32(0, self.status.code());
        self.out.patch_u32(self.count_at, self.count);
        self.out
    }
}
