//! The result shape that most operations share.

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::NfsStatus;

/// What every operation's result can say about itself, whatever its shape.
pub trait OpResult: Encode + Decode {
    /// How the operation ended.
    fn status(&self) -> NfsStatus;

    /// The result that carries nothing but an error. `error` is not `NFS4_OK` and needs no details; where the
    /// protocol wants details with it (such as the holder of a lock), harmless ones are filled in.
    fn from_error(error: NfsStatus) -> Self;
}

/// Result of an operation that returns data on success and only a status otherwise: `union XXX4res switch (nfsstat4)`
/// with `NFS4_OK` and `default: void`.
///
/// `Err(NfsStatus::Ok)` has no place on the wire; encoding one is a defect of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    /// `NFS4_OK` and what comes with it.
    Ok(T),
    /// Any other status.
    Err(NfsStatus),
}

impl<T> Outcome<T> {
    /// As a `Result`, for `?`.
    pub fn into_result(self) -> Result<T, NfsStatus> {
        self.into()
    }

    /// The data, if the operation succeeded.
    pub fn ok(self) -> Option<T> {
        self.into_result().ok()
    }
}

impl<T> From<Result<T, NfsStatus>> for Outcome<T> {
    fn from(result: Result<T, NfsStatus>) -> Outcome<T> {
        match result {
            Ok(value) => Outcome::Ok(value),
            Err(status) => Outcome::Err(status),
        }
    }
}

impl<T> From<Outcome<T>> for Result<T, NfsStatus> {
    fn from(outcome: Outcome<T>) -> Result<T, NfsStatus> {
        match outcome {
            Outcome::Ok(value) => Ok(value),
            Outcome::Err(status) => Err(status),
        }
    }
}

impl<T: Encode> Encode for Outcome<T> {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Outcome::Ok(value) => {
                NfsStatus::Ok.encode(out);
                value.encode(out);
            }
            Outcome::Err(status) => {
                debug_assert!(!status.is_ok(), "NFS4_OK without its data");
                status.encode(out);
            }
        }
    }
}

impl<T: Decode> Decode for Outcome<T> {
    fn decode(input: &mut Decoder) -> Result<Outcome<T>, DecodeError> {
        match NfsStatus::decode(input)? {
            NfsStatus::Ok => Ok(Outcome::Ok(T::decode(input)?)),
            status => Ok(Outcome::Err(status)),
        }
    }
}

impl<T: Encode + Decode> OpResult for Outcome<T> {
    fn status(&self) -> NfsStatus {
        match self {
            Outcome::Ok(_) => NfsStatus::Ok,
            Outcome::Err(status) => *status,
        }
    }

    fn from_error(error: NfsStatus) -> Outcome<T> {
        Outcome::Err(error)
    }
}

/// The result of an operation that returns nothing but its status.
impl OpResult for NfsStatus {
    fn status(&self) -> NfsStatus {
        *self
    }

    fn from_error(error: NfsStatus) -> NfsStatus {
        error
    }
}
