//! CREATE (RFC 8881 §18.4).

use bytes::Bytes;
use file_system::permission::may_add;
use file_system::{CreateKind, Device, FileKind};
use nfs4::{CreateArgs, CreateOk, CreateType, NfsStatus, SpecData};

use crate::attributes::{change_info, check_supported, named_owners, to_set};
use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;

/// Makes a directory, link or special node and makes it the current filehandle.
pub(super) async fn run(cx: &mut Compound<'_>, args: &CreateArgs) -> Result<CreateOk, Failure> {
    if cx.current()? == Handle::PseudoRoot && super::lookup::find(cx, &args.name).await.is_ok() {
        // Who makes every directory on the way to another one goes on.
        return Err(NfsStatus::Exist.into());
    }
    let directory = cx.current_file(NfsStatus::Rofs)?;
    let kind = kind(&args.object_type)?;
    let name = super::name(cx, &args.name)?;
    check_supported(cx, args.attributes.bitmap)?;
    let owners = cx.server.owners.current();
    let named = named_owners(&args.attributes, &owners);
    if !named.is_empty() {
        cx.check_writable(directory.volume)?;
        let caller = cx.caller(directory.volume)?;
        let parent = cx.transaction(directory.volume).await?.attributes(directory).await?;
        may_add(&parent, added(&kind), &caller)?;
        owners.find_ids(named).await;
    }
    let wanted = to_set(&args.attributes, &owners)?;
    let is_device = matches!(kind, CreateKind::BlockDevice(_) | CreateKind::CharacterDevice(_));
    if is_device && !cx.caller(directory.volume)?.is_superuser() {
        return Err(NfsStatus::Perm.into());
    }
    cx.transaction(directory.volume).await?;
    cx.will_change(directory.volume)?;
    let transaction = cx.transaction(directory.volume).await?;
    let created = transaction.create(directory, &name, kind, &wanted.attributes).await?;
    cx.set_current(Handle::File(created.attributes.file));
    Ok(CreateOk { change_info: change_info(created.change), attributes_set: wanted.applied })
}

/// As far as it matters for the right to add it.
fn added(kind: &CreateKind) -> FileKind {
    if matches!(kind, CreateKind::Directory) { FileKind::Directory } else { FileKind::Regular }
}

fn kind(wanted: &CreateType) -> Result<CreateKind, NfsStatus> {
    Ok(match wanted {
        // Copied: a link must not keep the whole request.
        CreateType::SymbolicLink(target) => CreateKind::Symlink(Bytes::copy_from_slice(target.as_bytes())),
        CreateType::BlockDevice(numbers) => CreateKind::BlockDevice(device(numbers)),
        CreateType::CharacterDevice(numbers) => CreateKind::CharacterDevice(device(numbers)),
        CreateType::Socket => CreateKind::Socket,
        CreateType::Fifo => CreateKind::Fifo,
        CreateType::Directory => CreateKind::Directory,
        CreateType::Other(_) => return Err(NfsStatus::BadType),
    })
}

fn device(numbers: &SpecData) -> Device {
    Device { major: numbers.major, minor: numbers.minor }
}
