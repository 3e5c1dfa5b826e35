//! GETATTR, SETATTR, VERIFY, NVERIFY and OPENATTR.

use xdr::{Decode, Encode};

use crate::{Bitmap, Fattr, NfsStatus, OpResult, Outcome, StateId};

/// Arguments of GETATTR (`GETATTR4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct GetAttrArgs {
    /// Attributes asked for; unsupported ones are left out of the reply.
    pub request: Bitmap,
}

/// Result of GETATTR (`GETATTR4res`).
pub type GetAttrRes = Outcome<Fattr>;

/// Arguments of SETATTR (`SETATTR4args`), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SetAttrArgs {
    /// For changes of the size: an open for writing, or a special state id.
    pub state_id: StateId,
    /// The attributes to set.
    pub attributes: Fattr,
}

/// Result of SETATTR (`SETATTR4res`): a structure, not a union, as a failed SETATTR may have set some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SetAttrRes {
    /// How it ended.
    pub status: NfsStatus,
    /// What was set, also on failure.
    pub attributes_set: Bitmap,
}

impl OpResult for SetAttrRes {
    fn status(&self) -> NfsStatus {
        self.status
    }

    fn from_error(error: NfsStatus) -> SetAttrRes {
        SetAttrRes { status: error, attributes_set: Bitmap::EMPTY }
    }
}

/// Arguments of VERIFY and NVERIFY (`VERIFY4args`, `NVERIFY4args`), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct VerifyArgs {
    /// The attributes to compare with.
    pub attributes: Fattr,
}

/// Arguments of OPENATTR (`OPENATTR4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct OpenAttrArgs {
    /// Whether to create the directory of named attributes if there is none.
    pub create_dir: bool,
}
