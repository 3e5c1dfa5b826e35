//! ALLOCATE, DEALLOCATE and SEEK (RFC 7862 §15.1, §15.4, §15.11).

use xdr::{Decode, Encode};

use crate::{DataContent, Outcome, StateId};

/// Arguments of ALLOCATE and DEALLOCATE (`ALLOCATE4args`, `DEALLOCATE4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct AllocateArgs {
    /// An open for writing.
    pub state_id: StateId,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Arguments of SEEK (`SEEK4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SeekArgs {
    /// An open.
    pub state_id: StateId,
    /// Where to start.
    pub offset: u64,
    /// What to look for.
    pub what: DataContent,
}

/// What SEEK returns (`seek_res4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SeekOk {
    /// Whether the search reached the end of the file.
    pub eof: bool,
    /// Where it is.
    pub offset: u64,
}

/// Result of SEEK (`SEEK4res`).
pub type SeekRes = Outcome<SeekOk>;
