//! SECINFO and SECINFO_NO_NAME (RFC 8881 §18.29, §18.45).

use nfs4::{SecInfo, SecInfoArgs, SecInfoStyle};

use super::lookup;
use crate::compound::Compound;
use crate::failure::Failure;

/// Everything is served to everybody who says who he is; who does not is nobody.
const WAYS: [SecInfo; 2] = [SecInfo::SYS, SecInfo::NONE];

/// The ways to authenticate for what the name leads to. Consumes the current filehandle.
pub(super) async fn of_name(cx: &mut Compound<'_>, args: &SecInfoArgs) -> Result<Vec<SecInfo>, Failure> {
    lookup::find(cx, &args.name).await?;
    cx.clear_current();
    Ok(WAYS.to_vec())
}

/// The same for the current filehandle or its parent. Consumes the current filehandle.
pub(super) async fn without_name(
    cx: &mut Compound<'_>,
    style: SecInfoStyle,
) -> Result<Vec<SecInfo>, Failure> {
    match style {
        SecInfoStyle::CurrentFileHandle => cx.current()?,
        SecInfoStyle::Parent => lookup::find_parent(cx).await?,
    };
    cx.clear_current();
    Ok(WAYS.to_vec())
}
