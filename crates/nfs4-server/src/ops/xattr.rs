//! GETXATTR, SETXATTR, LISTXATTRS and REMOVEXATTR (RFC 8276 §8.4). Names come and go without `user.`.

use bytes::Bytes;
use file_system::{XattrMode, XattrName};
use nfs4::{
    ChangeInfo, Component, GetXattrArgs, ListXattrsArgs, ListXattrsOk, NfsStatus, RemoveXattrArgs,
    SetXattrArgs, SetXattrOption,
};

use crate::attributes::change_info;
use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;

/// Number and status of a result.
const HEAD: usize = 8;

/// GETXATTR.
pub(super) async fn get(cx: &mut Compound<'_>, args: &GetXattrArgs) -> Result<Bytes, Failure> {
    let file = cx.current_file(NfsStatus::NoXattr)?;
    let name = name(&args.name)?;
    let value = cx.transaction(file.volume).await?.xattr(file, &name).await?;
    if HEAD + 4 + value.len().next_multiple_of(4) > cx.room() {
        return Err(cx.reply_too_big().into());
    }
    Ok(value)
}

/// SETXATTR.
pub(super) async fn set(cx: &mut Compound<'_>, args: &SetXattrArgs) -> Result<ChangeInfo, Failure> {
    let file = cx.current_file(NfsStatus::Rofs)?;
    let name = name(&args.name)?;
    let mode = match args.option {
        SetXattrOption::Either => XattrMode::Either,
        SetXattrOption::Create => XattrMode::Create,
        SetXattrOption::Replace => XattrMode::Replace,
    };
    // A copy, for what is kept for long must not keep the request.
    let value = Bytes::copy_from_slice(&args.value);
    cx.transaction(file.volume).await?;
    cx.yield_delegations(file)?;
    cx.will_change(file.volume)?;
    let change = cx.transaction(file.volume).await?.set_xattr(file, &name, value, mode).await?;
    Ok(change_info(change))
}

/// REMOVEXATTR.
pub(super) async fn remove(cx: &mut Compound<'_>, args: &RemoveXattrArgs) -> Result<ChangeInfo, Failure> {
    let file = cx.current_file(NfsStatus::Rofs)?;
    let name = name(&args.name)?;
    cx.transaction(file.volume).await?;
    cx.yield_delegations(file)?;
    cx.will_change(file.volume)?;
    Ok(change_info(cx.transaction(file.volume).await?.remove_xattr(file, &name).await?))
}

/// LISTXATTRS. A cookie counts the names that were given out; one name does not fit: `NFS4ERR_TOOSMALL`.
pub(super) async fn list(cx: &mut Compound<'_>, args: &ListXattrsArgs) -> Result<ListXattrsOk, Failure> {
    /// Cookie, number of names, `eof`.
    const FIXED: usize = 16;
    let names = match cx.current()? {
        Handle::PseudoRoot => Vec::new(),
        Handle::File(file) => cx.transaction(file.volume).await?.xattrs(file).await?,
    };
    let first = usize::try_from(args.cookie).ok().filter(|&first| first <= names.len());
    let rest = &names[first.ok_or(NfsStatus::BadCookie)?..];
    let (room, wanted) = (cx.room().saturating_sub(HEAD), args.max_count as usize);
    let mut left = room.min(wanted).checked_sub(FIXED);
    let mut fitting = 0;
    while let (Some(bytes), Some(name)) = (left, rest.get(fitting)) {
        left = bytes.checked_sub(4 + name.as_bytes().len().next_multiple_of(4));
        fitting += usize::from(left.is_some());
    }
    if left.is_none() && fitting == 0 {
        return Err(if room < wanted { cx.reply_too_big() } else { NfsStatus::TooSmall }.into());
    }
    let names = rest[..fitting].iter().map(|name| Component::from(name.to_bytes())).collect();
    Ok(ListXattrsOk { cookie: args.cookie + fitting as u64, names, eof: fitting == rest.len() })
}

fn name(name: &Component) -> Result<XattrName, Failure> {
    Ok(XattrName::new(Bytes::copy_from_slice(name.as_ref()))?)
}
