//! READDIR (RFC 8881 §18.23).

use nfs4::{NfsStatus, ReadDirArgs};
use xdr::Encoder;

use crate::compound::Compound;
use crate::failure::Failure;

/// Writes the whole result with [`nfs4::ReadDirWriter`], at most `max_count` bytes and at most what
/// [`Compound::room`] leaves. Not even one entry fits: `NFS4ERR_TOOSMALL`.
pub(super) async fn run(_cx: &mut Compound<'_>, _args: &ReadDirArgs, _out: &mut Encoder) -> Result<(), Failure> {
    Err(NfsStatus::NotSupp.into())
}
