//! VERIFY and NVERIFY (RFC 8881 §18.31, §18.15).

use nfs4::{Attribute, NfsStatus, VerifyArgs};

use crate::attributes::{check_readable, check_supported, of_current};
use crate::compound::Compound;
use crate::failure::Failure;

/// Whether the current filehandle has exactly these attribute values. An attribute that is not supported is
/// `NFS4ERR_ATTRNOTSUPP`, one that can only be set, and `rdattr_error`, `NFS4ERR_INVAL`.
pub(super) async fn same(cx: &mut Compound<'_>, args: &VerifyArgs) -> Result<bool, Failure> {
    cx.current()?;
    let given = &args.attributes;
    check_supported(cx, given.bitmap)?;
    if given.bitmap.contains(Attribute::RdattrError) {
        return Err(NfsStatus::Inval.into());
    }
    check_readable(given.bitmap)?;
    let given_values = given.values().map_err(|error| error.status())?;
    let values = of_current(cx, given.bitmap).await?;
    Ok(given_values.to_fattr() == values.select(given.bitmap))
}
