//! Attributes of whatever a handle stands for.

use file_system::{FileId, Transaction};
use nfs4::{AttributeValues, Bitmap};

use super::{Describer, of_pseudo_root, supported, wants_space};
use crate::compound::Compound;
use crate::exports::Export;
use crate::failure::Failure;
use crate::file_handle::Handle;
use crate::shared::Shared;

/// What `request` asks for, and more, about the current filehandle; [`AttributeValues::encode_selected`] makes the choice.
pub(crate) async fn of_current(cx: &mut Compound<'_>, request: Bitmap) -> Result<AttributeValues, Failure> {
    let mut values = match cx.current()? {
        Handle::PseudoRoot => of_pseudo_root(cx.server, cx.exports()),
        Handle::File(file) => {
            let (server, export) = (cx.server, cx.export(file.volume)?);
            let transaction = cx.transaction(file.volume).await?;
            of_file(server, &export, transaction, file, request).await?
        }
    };
    values.supported_attrs = Some(supported(cx.minor_version));
    Ok(values)
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
    describer.describe(&attributes);
    Ok(describer.into_values())
}
