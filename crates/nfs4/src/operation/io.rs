//! READ, WRITE, COMMIT, READ_PLUS, WRITE_SAME and IO_ADVISE.

use bytes::Bytes;
use xdr::{Decode, Encode, Payload};

use crate::{Bitmap, Outcome, StateId, Verifier};

/// How safe written data is (`stable_how4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[repr(u32)]
pub enum StableHow {
    /// `UNSTABLE4`: may be lost until COMMIT.
    Unstable = 0,
    /// `DATA_SYNC4`: the data is on stable storage.
    DataSync = 1,
    /// `FILE_SYNC4`: data and metadata are on stable storage.
    FileSync = 2,
}

/// Arguments of READ and READ_PLUS (`READ4args`, `READ_PLUS4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ReadArgs {
    /// An open, a lock, a delegation, or a special state id.
    pub state_id: StateId,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub count: u32,
}

/// What READ returns (`READ4resok`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ReadOk {
    /// Whether the file ends after the data.
    pub eof: bool,
    /// The data; several pieces when sent, one when decoded, never copied.
    pub data: Payload,
}

/// Result of READ (`READ4res`).
pub type ReadRes = Outcome<ReadOk>;

/// Arguments of WRITE (`WRITE4args`), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WriteArgs {
    /// An open, a lock, a delegation, or a special state id.
    pub state_id: StateId,
    /// First byte.
    pub offset: u64,
    /// How safe the data must be before the reply.
    pub stable: StableHow,
    /// The data; when decoded a slice of the request, never copied.
    pub data: Bytes,
}

/// What WRITE returns (`WRITE4resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct WriteOk {
    /// Bytes written.
    pub count: u32,
    /// How safe they are.
    pub committed: StableHow,
    /// Changes when unstable data may be lost.
    pub verifier: Verifier,
}

/// Result of WRITE (`WRITE4res`).
pub type WriteRes = Outcome<WriteOk>;

/// Arguments of COMMIT (`COMMIT4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CommitArgs {
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 up to the end.
    pub count: u32,
}

/// Result of COMMIT (`COMMIT4res`): the verifier to compare with those of the WRITEs.
pub type CommitRes = Outcome<Verifier>;

/// Kind of content (`data_content4`, RFC 7862 §11.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum DataContent {
    /// `NFS4_CONTENT_DATA`.
    Data = 0,
    /// `NFS4_CONTENT_HOLE`.
    Hole = 1,
}

/// A piece of what READ_PLUS found (`read_plus_content`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ReadPlusContent {
    /// Data (`data4`).
    #[xdr(discriminant = 0)]
    Data {
        /// Its first byte.
        offset: u64,
        /// The data.
        data: Payload,
    },
    /// A hole (`data_info4`).
    #[xdr(discriminant = 1)]
    Hole {
        /// Its first byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

/// What READ_PLUS returns (`read_plus_res4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ReadPlusOk {
    /// Whether the file ends after the last piece.
    pub eof: bool,
    /// The pieces, ascending and without gaps.
    pub contents: Vec<ReadPlusContent>,
}

/// Result of READ_PLUS (`READ_PLUS4res`, RFC 7862 §15.10).
pub type ReadPlusRes = Outcome<ReadPlusOk>;

/// A pattern to repeat (`app_data_block4`, RFC 7862 §8.1).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AppDataBlock {
    /// First byte in the file.
    pub offset: u64,
    /// Size of a block in bytes.
    pub block_size: u64,
    /// Number of blocks.
    pub block_count: u64,
    /// Where in each block its number goes; all ones for nowhere.
    pub relative_block_number: u64,
    /// Number of the first block.
    pub block_number: u32,
    /// Where in each block the pattern goes.
    pub relative_pattern: u64,
    /// The pattern.
    pub pattern: Bytes,
}

/// Arguments of WRITE_SAME (`WRITE_SAME4args`, RFC 7862 §15.12), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WriteSameArgs {
    /// An open, a lock, a delegation, or a special state id.
    pub state_id: StateId,
    /// How safe the data must be before the reply.
    pub stable: StableHow,
    /// What to write.
    pub block: AppDataBlock,
}

/// How far a write by the server got (`write_response4`), for COPY, WRITE_SAME and CB_OFFLOAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct WriteResponse {
    /// Names the operation, if it goes on after the reply.
    pub callback_id: Option<StateId>,
    /// Bytes written so far.
    pub count: u64,
    /// How safe they are.
    pub committed: StableHow,
    /// Changes when unstable data may be lost.
    pub verifier: Verifier,
}

/// Result of WRITE_SAME (`WRITE_SAME4res`).
pub type WriteSameRes = Outcome<WriteResponse>;

/// How a client will use a part of a file (`IO_ADVISE_type4`, RFC 7862 §15.5): the numbers in the bitmaps of IO_ADVISE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum IoAdvice {
    /// `IO_ADVISE4_NORMAL`.
    Normal = 0,
    /// `IO_ADVISE4_SEQUENTIAL`.
    Sequential = 1,
    /// `IO_ADVISE4_SEQUENTIAL_BACKWARDS`.
    SequentialBackwards = 2,
    /// `IO_ADVISE4_RANDOM`.
    Random = 3,
    /// `IO_ADVISE4_WILLNEED`.
    WillNeed = 4,
    /// `IO_ADVISE4_WILLNEED_OPPORTUNISTIC`.
    WillNeedOpportunistic = 5,
    /// `IO_ADVISE4_DONTNEED`.
    DontNeed = 6,
    /// `IO_ADVISE4_NOREUSE`.
    NoReuse = 7,
    /// `IO_ADVISE4_READ`.
    Read = 8,
    /// `IO_ADVISE4_WRITE`.
    Write = 9,
    /// `IO_ADVISE4_INIT_PROXIMITY`.
    InitProximity = 10,
}

/// Arguments of IO_ADVISE (`IO_ADVISE4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct IoAdviseArgs {
    /// An open, a lock, a delegation, or a special state id.
    pub state_id: StateId,
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 up to the end.
    pub count: u64,
    /// Set of [`IoAdvice`].
    pub hints: Bitmap,
}

/// Result of IO_ADVISE (`IO_ADVISE4res`): the hints the server heeds.
pub type IoAdviseRes = Outcome<Bitmap>;
