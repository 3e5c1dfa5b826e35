//! GETATTR (RFC 8881 §18.7).

use nfs4::{AttributeValues, GetAttrArgs};

use crate::attributes::{check_readable, of_current};
use crate::compound::Compound;
use crate::failure::Failure;

/// At least those attributes of the current filehandle that are asked for and supported. A request for one that
/// can only be set is `NFS4ERR_INVAL`.
pub(super) async fn run(cx: &mut Compound<'_>, args: &GetAttrArgs) -> Result<AttributeValues, Failure> {
    check_readable(args.request)?;
    of_current(cx, args.request).await
}
