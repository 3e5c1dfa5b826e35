//! GETATTR (RFC 8881 §18.7).

use nfs4::{AttributeValues, GetAttrArgs, NfsStatus};

use crate::compound::Compound;
use crate::failure::Failure;

/// At least those attributes of the current filehandle that are asked for and supported. A request for one that
/// can only be set is `NFS4ERR_INVAL`.
pub(super) async fn run(_cx: &mut Compound<'_>, _args: &GetAttrArgs) -> Result<AttributeValues, Failure> {
    Err(NfsStatus::NotSupp.into())
}
