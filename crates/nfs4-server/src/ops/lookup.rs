//! LOOKUP and LOOKUPP (RFC 8881 §18.13, §18.14).

use nfs4::{LookupArgs, NfsStatus};

use crate::compound::Compound;
use crate::failure::Failure;

/// Makes what the name leads to the current filehandle. From the pseudo root a name leads to the root of a volume.
pub(super) async fn child(_cx: &mut Compound<'_>, _args: &LookupArgs) -> Result<(), Failure> {
    Err(NfsStatus::NotSupp.into())
}

/// Makes the parent the current filehandle: of a volume's root the pseudo root, of that `NFS4ERR_NOENT`.
pub(super) async fn parent(_cx: &mut Compound<'_>) -> Result<(), Failure> {
    Err(NfsStatus::NotSupp.into())
}
