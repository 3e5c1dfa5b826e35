//! COMMIT (RFC 8881 §18.3).

use nfs4::{CommitArgs, NfsStatus, Verifier};

use crate::compound::Compound;
use crate::failure::Failure;

/// Makes everything that was written to the current filehandle durable. What the same compound wrote becomes so
/// by the compound's own commit.
pub(super) async fn run(cx: &mut Compound<'_>, args: &CommitArgs) -> Result<Verifier, Failure> {
    if args.offset.checked_add(args.count.into()).is_none() {
        return Err(NfsStatus::Inval.into());
    }
    let file = super::lock::regular_file(cx).await?;
    let file_system = cx.file_system(file.volume)?;
    if cx.has_changed() {
        cx.make_durable();
    }
    let verifier = Verifier(file_system.write_verifier());
    file_system.sync(file).await?;
    Ok(verifier)
}
