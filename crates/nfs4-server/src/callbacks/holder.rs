//! What the holder of a delegation for writing says about its file (CB_GETATTR, RFC 8881 §10.4.3).

use file_system::{Authority, Caller, CommitMode, FileId, FsError, Mode, SetAttributes, SetTime};
use nfs4::{NfsCbResOp, Outcome};

use crate::shared::Shared;
use crate::state::{HolderSays, Other};

/// How often the file is touched, beside others that change it.
const TRIES: usize = 8;

/// The answer, if there is one. Attributes that were not asked for do not matter.
pub(super) fn says(result: &NfsCbResOp) -> Option<HolderSays> {
    let NfsCbResOp::GetAttr(Outcome::Ok(attributes)) = result else { return None };
    let values = attributes.values().ok()?;
    Some(HolderSays { change: values.change?, size: values.size? })
}

/// Tells the state what the holder said. If that is something new, the file looks changed from now on: neither its times
/// nor its change attribute may ever seem to go backwards, even if the holder never sends what it wrote. Its size and its
/// content are not touched: those are the holder's to send.
pub(super) async fn said(server: &Shared, delegation: Other, file: FileId, number: u64, says: HolderSays) {
    let is_news = server.state.lock().is_news(&delegation, file, says);
    let touched = if is_news { touch(server, file).await } else { Ok(()) };
    let mut state = server.state.lock();
    if is_news {
        state.end_change(file);
    }
    match touched {
        Ok(()) => state.answered(delegation, number, says),
        Err(error) => {
            tracing::warn!(%error, "a file cannot be made to look changed as the holder of its delegation says");
            state.not_answered(&delegation, number);
        }
    }
}

/// Visible is enough: to make it durable is optional (§10.4.3).
async fn touch(server: &Shared, file: FileId) -> Result<(), FsError> {
    let exports = server.exports.all();
    let Some(export) = exports.of_volume(file.volume) else { return Ok(()) };
    let now = SetAttributes { modified: Some(SetTime::Now), ..SetAttributes::default() };
    let mut mode = Mode::Optimistic;
    for attempt in 0..TRIES {
        let attempted = async {
            let mut transaction = export.file_system.begin(&Caller::root(), mode).await?;
            transaction.set_attributes(file, &now, Authority::Checked).await?;
            transaction.commit(CommitMode::Visible).await
        };
        match attempted.await {
            Err(FsError::Conflict) if attempt >= TRIES / 2 => mode = Mode::Exclusive,
            Err(FsError::Conflict) => {}
            // The file is gone; so is what could be said about it.
            Err(FsError::Stale) => return Ok(()),
            ended => return ended,
        }
    }
    Err(FsError::Conflict)
}
