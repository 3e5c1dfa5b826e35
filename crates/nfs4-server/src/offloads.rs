//! Copies that go on after their COPY was answered (RFC 7862 §4): tasks that copy piece by piece.
//!
//! Each piece is a transaction of its own, made by who asked for the copy, as the exports are at that time. What the state
//! ids entitled to at the beginning holds until the end, as long as no share reservation forbids it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use file_system::{Mode, OpenReference};
use nfs4::{ClientId, NfsStatus, StateId};
use onc_rpc::ConnectionId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::caller::Requester;
use crate::compound::Compound;
use crate::failure::Failure;
use crate::ops::copy::{self, Plan};
use crate::shared::Shared;
use crate::state::{Control, CopyRight, OffloadRequest, State};

/// How often in a row a copy gets nowhere before it ends where it is, so that its client can ask for the rest: about a minute.
const TRIES: u32 = 64;

/// Pauses in between, at first and at most; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Copies that wait for their task; few, as the state limits them.
#[derive(Default)]
pub(crate) struct Offloads {
    queue: Mutex<VecDeque<Job>>,
    /// Told when there is one more.
    pub queued: Notify,
    /// Ends all of them.
    pub stop: CancellationToken,
}

impl Offloads {
    /// Lets a copy begin. Its COPY is committed.
    pub fn begin(&self, job: Job) {
        self.queue.lock().push_back(job);
        self.queued.notify_one();
    }

    /// One that has to be run.
    pub fn next(&self) -> Option<Job> {
        self.queue.lock().pop_front()
    }
}

/// The record of a copy in the state, as long as it goes on.
pub(crate) struct Ticket {
    state: Arc<Mutex<State>>,
    pub id: StateId,
    request: OffloadRequest,
    control: Control,
}

impl Ticket {
    /// `None` if the client has to do without. Must not be dropped by who has the state locked.
    pub fn new(server: &Shared, request: OffloadRequest) -> Option<Ticket> {
        let control = Control { stop: server.offloads.stop.child_token(), over: CancellationToken::new() };
        let id = server.state.lock().begin_offload(request, control.clone())?;
        Some(Ticket { state: server.state.clone(), id, request, control })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.state.lock().offload_over(&self.id, self.request.file);
        self.control.over.cancel();
    }
}

/// One copy.
pub(crate) struct Job {
    pub ticket: Ticket,
    pub client: ClientId,
    pub requester: Requester,
    pub connection: ConnectionId,
    /// What is left to copy.
    pub plan: Plan,
    pub rights: [CopyRight; 2],
    /// The files stay, whatever becomes of their names.
    pub _references: [OpenReference; 2],
}

/// How a piece ended.
enum Piece {
    Copied(u64),
    /// The source has no more.
    SourceEnds,
    Stopped,
}

/// Copies, and tells the state how it ended. Whoever has stopped it knows that.
pub(crate) async fn run(server: &Shared, mut job: Job) {
    if let Some((status, verifier)) = job.finish(server).await {
        server.state.lock().end_offload(job.ticket.id, status, verifier);
    }
}

impl Job {
    /// `None` if it was stopped.
    async fn finish(&mut self, server: &Shared) -> Option<(NfsStatus, [u8; 8])> {
        let copied = self.copy(server).await?;
        let export = server.exports.all().of_volume(self.plan.to.volume).cloned();
        let Some(export) = export else { return Some((NfsStatus::Stale, [0; 8])) };
        let file_system = &export.file_system;
        let status = match copied {
            Ok(()) => tokio::select! {
                biased;
                () = self.ticket.control.stop.cancelled() => return None,
                synced = file_system.sync(self.plan.to) => synced.map_or_else(failed, |()| NfsStatus::Ok),
            },
            Err(status) => status,
        };
        Some((status, file_system.write_verifier()))
    }

    /// Copies all that there is; less if it gets nowhere after a while.
    async fn copy(&mut self, server: &Shared) -> Option<Result<(), NfsStatus>> {
        let limits = server.limits;
        let (mut tries, mut conflicts, mut progress) = (0, 0, false);
        while self.plan.source.count > 0 {
            let mode = match conflicts >= limits.optimistic_tries {
                true => Mode::Exclusive,
                false => Mode::Optimistic,
            };
            match self.piece(server, mode).await {
                Ok(Piece::Stopped) => return None,
                Ok(Piece::SourceEnds) => break,
                Ok(Piece::Copied(count)) if count > 0 => {
                    self.plan.advance(count);
                    (tries, conflicts, progress) = (0, 0, true);
                    continue;
                }
                Err(Failure::Conflict) if conflicts < limits.optimistic_tries + limits.exclusive_tries => {
                    server.metrics.conflict();
                    conflicts += 1;
                    continue;
                }
                Err(Failure::Expired(client)) => {
                    let _ = server.evict(client).await; // tried again
                }
                // Its client is silent, and may come back.
                Err(Failure::Status(NfsStatus::Expired)) => tries = TRIES,
                Err(Failure::Status(status)) if status != NfsStatus::Delay => return Some(Err(status)),
                // Whoever keeps others from committing does not wait for clouds: beside them it may.
                Ok(Piece::Copied(_)) | Err(_) => conflicts = 0,
            }
            tries += 1;
            if tries >= TRIES {
                // What was copied counts. Nothing at all would look like the end of the source.
                return Some(if progress { Ok(()) } else { Err(NfsStatus::Delay) });
            }
            let pause = FIRST_PAUSE * (1 << tries.min(7));
            tokio::select! {
                biased;
                () = self.ticket.control.stop.cancelled() => return None,
                () = server.environment.clock.sleep(pause.min(LONGEST_PAUSE)) => {}
            }
        }
        Some(Ok(()))
    }

    async fn piece(&mut self, server: &Shared, mode: Mode) -> Result<Piece, Failure> {
        let stop = self.ticket.control.stop.clone();
        if stop.is_cancelled() {
            return Ok(Piece::Stopped);
        }
        let id = self.ticket.id;
        server.with_state(|state, now| state.begin_piece(&id, &self.rights, now))?;
        let mut in_piece = InPiece { server, id, copied: 0 };
        let requester = self.requester.clone();
        let mut cx = Compound::in_background(server, requester, self.connection, self.client, mode);
        let copied = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(Piece::Stopped),
            copied = copy::piece(&mut cx, &self.plan) => copied?,
        };
        let Some(copied) = copied else { return Ok(Piece::SourceEnds) };
        // From here on it is done, or it is not: what was stopped must not change anything later.
        cx.commit().await?;
        in_piece.copied = copied;
        Ok(Piece::Copied(copied))
    }
}

fn failed(error: file_system::FsError) -> NfsStatus {
    match Failure::from(error) {
        Failure::Status(status) => status,
        _ => NfsStatus::Io,
    }
}

/// Says what a piece has come to.
struct InPiece<'a> {
    server: &'a Shared,
    id: StateId,
    copied: u64,
}

impl Drop for InPiece<'_> {
    fn drop(&mut self) {
        self.server.state.lock().end_piece(&self.id, self.copied);
    }
}
