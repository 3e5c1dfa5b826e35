//! OFFLOAD_STATUS and OFFLOAD_CANCEL (RFC 7862 §15.8, §15.9).

use std::time::Duration;

use nfs4::{NfsStatus, OffloadArgs, OffloadStatusOk};

use crate::compound::Compound;
use crate::file_handle::Handle;

/// How long a copy that is stopped may take for the piece that it is about to commit, before its client is told to come again.
const PATIENCE: Duration = Duration::from_secs(5);

/// How far a copy is. It is named by its target and its state id.
pub(super) fn status(cx: &Compound<'_>, args: &OffloadArgs) -> Result<OffloadStatusOk, NfsStatus> {
    let client = cx.client()?;
    let Handle::File(file) = cx.current()? else { return Err(NfsStatus::BadStateId) };
    let (count, complete) = cx.server.state.lock().offload_status(client, &args.state_id, file)?;
    Ok(OffloadStatusOk { count, complete })
}

/// Stops a copy: it changes nothing any more when this is answered, and nothing more is said of it.
pub(super) async fn cancel(cx: &Compound<'_>, args: &OffloadArgs) -> Result<(), NfsStatus> {
    status(cx, args)?;
    let server = cx.server;
    let control = server.state.lock().control_of(&args.state_id);
    if let Some(control) = control {
        control.stop.cancel();
        tokio::select! {
            biased;
            () = control.over.cancelled() => {}
            () = server.environment.clock.sleep(PATIENCE) => return Err(NfsStatus::Delay),
        }
    }
    // It may have ended by itself, just before.
    server.state.lock().drop_offload(&args.state_id.other);
    Ok(())
}
