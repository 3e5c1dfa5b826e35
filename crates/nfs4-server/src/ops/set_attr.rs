//! SETATTR (RFC 8881 §18.30).

use file_system::Authority;
use file_system::acl::right;
use file_system::permission::is_granted;
use nfs4::{Attribute, Bitmap, NfsStatus, SetAttrArgs, StableHow};

use crate::attributes::{check_supported, named_owners, to_change};
use crate::compound::Compound;
use crate::failure::Failure;

/// Changes attributes; returns which. A change of the size needs what the state id entitles to
/// ([`Compound::authority`]), everything else ignores it.
pub(super) async fn run(cx: &mut Compound<'_>, args: &SetAttrArgs) -> Result<Bitmap, Failure> {
    let file = cx.current_file(NfsStatus::Rofs)?;
    let wanted = &args.attributes;
    check_supported(cx, wanted.bitmap)?;
    let owners = cx.server.owners.current();
    let named = named_owners(wanted, &owners);
    if !named.is_empty() {
        cx.check_writable(file.volume)?;
        let caller = cx.caller(file.volume)?;
        let attributes = cx.transaction(file.volume).await?.attributes(file).await?;
        let granted = |wanted| is_granted(&attributes, &caller, wanted);
        let may = caller.is_superuser()
            || caller.uid == attributes.uid
            || granted(right::WRITE_OWNER)
            || granted(right::WRITE_ACL);
        if !may {
            return Err(NfsStatus::Perm.into());
        }
        owners.find_ids(named).await;
    }
    let mode = if wanted.bitmap.contains(Attribute::ModeSetMasked) {
        cx.transaction(file.volume).await?.attributes(file).await?.mode
    } else {
        0
    };
    let change = to_change(wanted, mode, &owners)?;
    let authority = match change.attributes.size {
        Some(_) => cx.authority(args.state_id, file, true)?,
        None => Authority::Checked,
    };
    cx.transaction(file.volume).await?;
    cx.yield_delegations(file)?;
    match change.attributes.size {
        Some(_) => cx.will_write(file, args.state_id, StableHow::FileSync)?,
        None => cx.will_change(file.volume)?,
    }
    cx.transaction(file.volume).await?.set_attributes(file, &change.attributes, authority).await?;
    Ok(change.applied)
}
