//! Attributes of whatever a handle stands for.

use std::collections::HashSet;

use file_system::{FileId, Transaction};
use nfs4::{Attribute, AttributeValues, Bitmap, FileType, NfsStatus};

use super::{Describer, of_absent, of_pseudo_root, supported, wants_space};
use crate::compound::Compound;
use crate::exports::Export;
use crate::failure::Failure;
use crate::file_handle::Handle;
use crate::owner_names::IdKind;
use crate::shared::Shared;

/// What `request` asks for, and more, about the current filehandle; [`AttributeValues::encode_selected`] makes the choice.
pub(crate) async fn of_current(cx: &mut Compound<'_>, request: Bitmap) -> Result<AttributeValues, Failure> {
    let mut values = match cx.current()? {
        Handle::PseudoRoot => {
            let names = HashSet::from([(IdKind::User, 0), (IdKind::Group, 0)]);
            cx.server.owners.current().find_names(names).await;
            of_pseudo_root(cx.server, cx.exports())
        }
        Handle::File(file) => {
            let (server, export) = (cx.server, cx.export_wherever(file.volume)?);
            if export.is_elsewhere() {
                return of_absent(&export, request).ok_or(NfsStatus::Moved.into());
            }
            let transaction = cx.transaction(file.volume).await?;
            let mut values = of_file(server, &export, transaction, file, request).await?;
            if request.intersects(BY_HOLDER)
                && values.r#type == Some(FileType::Regular)
                && let Some(size) = cx.size_by_holder(file)?
            {
                values.size = Some(size);
            }
            values
        }
    };
    values.supported_attrs = Some(supported_by_current(cx)?);
    Ok(values)
}

/// What the holder of a delegation for writing has to be asked about (RFC 8881 §10.4.3). Once it says something new, all
/// but the size is what the file system says.
const BY_HOLDER: Bitmap =
    Attribute::set(&[Attribute::Change, Attribute::Size, Attribute::TimeMetadata, Attribute::TimeModify]);

/// `NFS4ERR_ATTRNOTSUPP` if one of the attributes is not supported by the object of the current filehandle.
pub(crate) fn check_supported(cx: &Compound<'_>, attributes: Bitmap) -> Result<(), NfsStatus> {
    if supported_by_current(cx)?.contains_all(attributes) { Ok(()) } else { Err(NfsStatus::AttrNotSupp) }
}

fn supported_by_current(cx: &Compound<'_>) -> Result<Bitmap, NfsStatus> {
    let acls = match cx.current()? {
        Handle::PseudoRoot => false,
        Handle::File(file) => cx.export(file.volume)?.options.acls,
    };
    Ok(supported(cx.minor_version, acls))
}

/// The same about an object of a volume.
pub(crate) async fn of_file(
    server: &Shared,
    export: &Export,
    transaction: &mut dyn Transaction,
    file: FileId,
    request: Bitmap,
) -> Result<AttributeValues, Failure> {
    let attributes = transaction.attributes(file).await?;
    let space = if wants_space(request) { Some(transaction.space().await?) } else { None };
    let mut describer = Describer::new(server, export, transaction.root(), request, space);
    describer.find_names(describer.named_in(std::iter::once(&attributes))).await;
    describer.describe(&attributes);
    Ok(describer.into_values())
}
