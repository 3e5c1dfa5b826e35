//! SECINFO and SECINFO_NO_NAME (RFC 8881 §18.29, §18.45).
//!
//! They answer also who does not show what an export demands, as that is how clients learn it (§2.6.3.1.1). A name in
//! such an export is not looked up for them.

use nfs4::{NfsStatus, SecInfo, SecInfoArgs, SecInfoStyle};

use super::lookup;
use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;
use crate::security::sec_info;

/// The ways to authenticate for what the name leads to. Consumes the current filehandle.
pub(super) async fn of_name(cx: &mut Compound<'_>, args: &SecInfoArgs) -> Result<Vec<SecInfo>, Failure> {
    let ways = match cx.current()? {
        Handle::PseudoRoot => {
            let name = super::name(cx, &args.name)?;
            let export = cx.exports().by_name(name.as_bytes()).ok_or(NfsStatus::NoEnt)?;
            export.options.security.sec_info(cx.requester.address)
        }
        Handle::File(directory) => {
            if admitted(cx, Handle::File(directory))? {
                lookup::find(cx, &args.name).await?;
            }
            ways(cx, Handle::File(directory))?
        }
    };
    cx.clear_current();
    Ok(ways)
}

/// The same for the current filehandle or its parent. Consumes the current filehandle.
pub(super) async fn without_name(
    cx: &mut Compound<'_>,
    style: SecInfoStyle,
) -> Result<Vec<SecInfo>, Failure> {
    let current = cx.current()?;
    let asked = match style {
        SecInfoStyle::Parent if admitted(cx, current)? => lookup::find_parent(cx).await?,
        SecInfoStyle::Parent | SecInfoStyle::CurrentFileHandle => current,
    };
    let ways = ways(cx, asked)?;
    cx.clear_current();
    Ok(ways)
}

fn admitted(cx: &Compound<'_>, handle: Handle) -> Result<bool, NfsStatus> {
    Ok(match handle {
        Handle::PseudoRoot => true,
        Handle::File(file) => cx.demanding_export(file.volume)?.options.security.admits(cx.requester.shown),
    })
}

fn ways(cx: &Compound<'_>, handle: Handle) -> Result<Vec<SecInfo>, NfsStatus> {
    Ok(match handle {
        Handle::PseudoRoot => sec_info(cx.exports().flavors(cx.requester.address)),
        Handle::File(file) => {
            cx.demanding_export(file.volume)?.options.security.sec_info(cx.requester.address)
        }
    })
}
