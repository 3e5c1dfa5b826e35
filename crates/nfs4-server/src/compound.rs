//! One request while it runs: where it stands, its transaction, what it changed.

mod changing;
mod commit;
mod far;
mod mode;
mod reply;
mod request;
mod run;

use file_system::{Authority, Caller, FileId, FileSystem, Mode, Transaction};
use ids::VolumeId;
use nfs4::{ClientId, NfsStatus, SessionId, StableHow, StateId};
use onc_rpc::ConnectionId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::SemaphorePermit;

pub(crate) use far::Wanted;
pub(crate) use request::handle;

use crate::Network;
use crate::caller::Requester;
use crate::exports::{Export, Exports};
use crate::failure::Failure;
use crate::file_handle::Handle;
use crate::minor0;
use crate::offloads::Job;
use crate::refusals::Refused;
use crate::shared::Shared;
use crate::state::{IoGrant, Question, RequestId, UndoLog};
use changing::Changing;
use commit::Changes;
use far::Patience;
use mode::Promise;

/// A filehandle and the state id that goes with it (RFC 8881 §16.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    handle: Option<Handle>,
    state_id: StateId,
}

impl Place {
    const NOWHERE: Place = Place { handle: None, state_id: StateId::ANONYMOUS };
}

/// Client and session of a request that began with SEQUENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InSession {
    pub client: ClientId,
    pub session: SessionId,
    /// This request.
    pub request: RequestId,
}

/// What operations see of the request they are part of.
pub(crate) struct Compound<'a> {
    pub server: &'a Shared,
    pub requester: Requester,
    pub connection: ConnectionId,
    /// 0 to 2.
    pub minor_version: u32,
    exports: Arc<Exports>,
    session: Option<InSession>,
    /// In 4.0, whose the operation is.
    acting_for: Option<ClientId>,
    /// Whether the next operation was tried often enough.
    given_up: bool,
    current: Place,
    saved: Place,
    mode: Mode,
    promise: Promise,
    /// Never locked: the mutex makes the compound `Sync`, which a transaction need not be.
    transaction: Option<(VolumeId, Mutex<Box<dyn Transaction>>)>,
    /// What operations did to the state since the last commit.
    pub undo: UndoLog,
    changes: Changes,
    /// What is closed at the next commit.
    closing: Vec<(ClientId, StateId, FileId)>,
    /// Files that are not delegated before the commit.
    changing: Changing<'a>,
    /// Whether delegations in the way are not waited for any more.
    impatient: bool,
    /// Questions to the holders of delegations that were waited for.
    asked: Vec<Question>,
    /// Leave to copy, until the transaction ends.
    copying: Option<SemaphorePermit<'a>>,
    /// Copies that begin with the commit.
    offloads: Vec<Job>,
    /// Bytes that the reply may still grow by, this operation's number and status included.
    room: usize,
    /// What to say when that is too little.
    too_big: NfsStatus,
    /// Whether this is the last operation.
    is_last: bool,
    patience: Patience,
}

impl<'a> Compound<'a> {
    fn new(
        server: &'a Shared,
        requester: Requester,
        connection: ConnectionId,
        minor_version: u32,
    ) -> Compound<'a> {
        Compound {
            server,
            exports: server.exports.seen_from(requester.address),
            requester,
            connection,
            minor_version,
            session: None,
            acting_for: None,
            given_up: false,
            current: Place::NOWHERE,
            saved: Place::NOWHERE,
            mode: Mode::Optimistic,
            promise: Promise::default(),
            transaction: None,
            undo: UndoLog::default(),
            changes: Changes::None,
            closing: Vec::new(),
            changing: Changing::new(server),
            impatient: false,
            asked: Vec::new(),
            copying: None,
            offloads: Vec::new(),
            room: 0,
            too_big: NfsStatus::RepTooBig,
            is_last: false,
            patience: Patience::default(),
        }
    }

    /// A piece of what `client` has asked for, in a transaction of its own.
    pub fn in_background(
        server: &'a Shared,
        requester: Requester,
        connection: ConnectionId,
        client: ClientId,
        mode: Mode,
    ) -> Compound<'a> {
        let acting_for = Some(client);
        Compound { acting_for, mode, ..Compound::new(server, requester, connection, 2) }
    }

    /// The session; `NFS4ERR_OP_NOT_IN_SESSION` without SEQUENCE, which only the operations that may stand alone
    /// can meet.
    pub fn session(&self) -> Result<InSession, NfsStatus> {
        self.session.ok_or(NfsStatus::OpNotInSession)
    }

    /// The client of the session, or what the operation said in 4.0.
    pub fn client(&self) -> Result<ClientId, NfsStatus> {
        match self.acting_for {
            Some(client) => Ok(client),
            None => self.session().map(|session| session.client),
        }
    }

    /// Whose the operation is that is about to be run: there is no session that says it.
    pub fn act_for(&mut self, client: ClientId) {
        self.acting_for = Some(client);
    }

    /// The next operation is not to be tried any more: the client is told to come again later.
    pub fn give_up(&mut self) {
        self.given_up = true;
    }

    /// Whether the operation is not to be tried any more.
    pub fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// What the current filehandle stands for.
    pub fn current(&self) -> Result<Handle, NfsStatus> {
        self.current.handle.ok_or(NfsStatus::NoFileHandle)
    }

    /// The current filehandle, where an object of a volume is needed; `otherwise` is the error on the pseudo root,
    /// which is a directory that nobody can change.
    pub fn current_file(&self, otherwise: NfsStatus) -> Result<FileId, NfsStatus> {
        match self.current()? {
            Handle::File(file) => Ok(file),
            Handle::PseudoRoot => Err(otherwise),
        }
    }

    /// What the saved filehandle stands for.
    pub fn saved(&self) -> Result<Handle, NfsStatus> {
        self.saved.handle.ok_or(NfsStatus::NoFileHandle)
    }

    /// Makes `handle` the current filehandle. The current state id goes (RFC 8881 §16.2.3.1.2).
    pub fn set_current(&mut self, handle: Handle) {
        self.current = Place { handle: Some(handle), state_id: StateId::ANONYMOUS };
    }

    /// SAVEFH, state id included.
    pub fn save(&mut self) -> Result<(), NfsStatus> {
        self.current()?;
        self.saved = self.current;
        Ok(())
    }

    /// RESTOREFH, state id included.
    pub fn restore(&mut self) -> Result<(), NfsStatus> {
        self.saved()?;
        self.current = self.saved;
        Ok(())
    }

    /// There is no current filehandle any more, as after SECINFO (RFC 8881 §2.6.3.1.1.8).
    pub fn clear_current(&mut self) {
        self.current = Place::NOWHERE;
    }

    /// Makes `id` the current state id.
    pub fn set_state_id(&mut self, id: StateId) {
        self.current.state_id = id;
    }

    /// `id`, or the current state id if `id` is the one that stands for it (RFC 8881 §8.2.3, §16.2.3.1.2).
    pub fn resolve_state_id(&self, id: StateId) -> Result<StateId, NfsStatus> {
        match id {
            StateId::CURRENT if self.current.state_id.is_special() => Err(NfsStatus::BadStateId),
            StateId::CURRENT => Ok(self.current.state_id),
            id if self.closing.iter().any(|(_, closed, _)| closed.other == id.other) => {
                Err(NfsStatus::BadStateId)
            }
            id => Ok(id),
        }
    }

    /// What the state id `id` entitles to when reading (`write`: writing or cutting) `file`. Whoever reads or writes without
    /// having it open has delegations recalled.
    pub fn authority(&mut self, id: StateId, file: FileId, write: bool) -> Result<Authority, Failure> {
        let authority = self.granted(id, file, write)?;
        match (authority, write) {
            (Authority::Checked, true) => self.yield_delegations(file)?,
            (Authority::Checked, false) => self.recall_writers(file)?,
            (Authority::Opened, _) => {}
        }
        Ok(authority)
    }

    fn granted(&self, id: StateId, file: FileId, write: bool) -> Result<Authority, Failure> {
        if self.minor_version == 0 {
            return minor0::authority(self, id, file, write);
        }
        let client = self.client()?;
        let id = self.resolve_state_id(id)?;
        let grant = self.server.with_state(|state, now| {
            let grant = state.check_io(client, &id, file, write, now)?;
            if write {
                state.sends(client, file, now);
            }
            Ok(grant)
        })?;
        Ok(match grant {
            IoGrant::Anonymous => Authority::Checked,
            IoGrant::Opened => Authority::Opened,
        })
    }

    /// What the pseudo root holds for this client, as of the beginning of the request.
    pub fn exports(&self) -> &Exports {
        &self.exports
    }

    /// The export of a volume; a handle of a volume that is no longer exported, or not to this client, is stale.
    /// `NFS4ERR_WRONGSEC` if the request does not show what the export demands; `NFS4ERR_MOVED` if the volume is elsewhere.
    pub fn export(&self, volume: VolumeId) -> Result<Arc<Export>, NfsStatus> {
        let export = self.export_wherever(volume)?;
        if export.is_elsewhere() { Err(NfsStatus::Moved) } else { Ok(export) }
    }

    /// The same, wherever the volume is.
    pub fn export_wherever(&self, volume: VolumeId) -> Result<Arc<Export>, NfsStatus> {
        let export = self.demanding_export(volume)?;
        let Requester { address: client, shown, .. } = self.requester;
        if let Some(lack) = export.options.security.lack(shown) {
            let refused = Refused::Request(Network::of_client(client), volume, lack);
            if self.server.refusals.is_news(refused, self.server.now()) {
                tracing::warn!(%client, export = export.name, %shown, "request refused: {lack}");
            }
            return Err(NfsStatus::WrongSec);
        }
        Ok(export.clone())
    }

    /// The same, whatever it demands: for operations that find out what that is (RFC 8881 §2.6.3.1).
    pub fn demanding_export(&self, volume: VolumeId) -> Result<&Arc<Export>, NfsStatus> {
        self.exports.of_volume(volume).ok_or(NfsStatus::Stale)
    }

    /// The file system of a volume.
    pub fn file_system(&self, volume: VolumeId) -> Result<Arc<dyn FileSystem>, NfsStatus> {
        Ok(self.export(volume)?.file_system.clone())
    }

    /// Who makes the request, as that volume sees it.
    pub fn caller(&self, volume: VolumeId) -> Result<Caller, NfsStatus> {
        Ok(self.export(volume)?.caller(self.requester.caller.as_ref()))
    }

    /// The transaction of the compound in `volume`; begins it at the first call. To be called before the
    /// operation changes anything, and with one volume only in one operation: when the compound has worked on
    /// another volume so far, that is committed first and the operation called again.
    pub async fn transaction(&mut self, volume: VolumeId) -> Result<&mut dyn Transaction, Failure> {
        match &self.transaction {
            Some((current, _)) if *current == volume => {}
            Some(_) => return Err(self.needs_commit(NfsStatus::Xdev)),
            None => {
                let export = self.export(volume)?;
                let caller = export.caller(self.requester.caller.as_ref());
                let transaction = export.file_system.begin(&caller, self.mode).await?;
                self.transaction = Some((volume, Mutex::new(transaction)));
            }
        }
        match &mut self.transaction {
            Some((_, transaction)) => Ok(&mut **transaction.get_mut()),
            None => Err(NfsStatus::ServerFault.into()),
        }
    }

    /// The operation is about to copy: asks for leave once for the transaction; `NFS4ERR_DELAY` while too many others
    /// copy.
    pub fn will_copy(&mut self) -> Result<(), NfsStatus> {
        if self.copying.is_none() {
            self.copying = Some(self.server.copies.try_acquire().map_err(|_| NfsStatus::Delay)?);
        }
        Ok(())
    }

    /// A copy that goes on by itself after the commit.
    pub fn will_offload(&mut self, job: Job) {
        self.offloads.push(job);
    }

    /// Whether `volume` may be changed; `NFS4ERR_ROFS` if it is offered for reading only.
    pub fn check_writable(&self, volume: VolumeId) -> Result<(), NfsStatus> {
        if self.export(volume)?.options.read_only { Err(NfsStatus::Rofs) } else { Ok(()) }
    }

    /// The operation is about to change a file of `volume`: the compound's commit has to be durable. To be called
    /// once the transaction is that of the volume.
    pub fn will_change(&mut self, volume: VolumeId) -> Result<(), NfsStatus> {
        self.check_writable(volume)?;
        self.changes = Changes::Durable;
        Ok(())
    }

    /// The operation is about to write data that may be lost until COMMIT.
    pub fn will_write_unstable(&mut self, volume: VolumeId) -> Result<(), NfsStatus> {
        self.check_writable(volume)?;
        if self.changes == Changes::None {
            self.changes = Changes::Unstable;
        }
        Ok(())
    }

    /// The operation is about to write to `file`, or to cut it, as `id` entitles to. What a client began before the export
    /// became read-only it may end ([`State::may_finish`]).
    ///
    /// [`State::may_finish`]: crate::state::State::may_finish
    pub fn will_write(&mut self, file: FileId, id: StateId, committed: StableHow) -> Result<(), Failure> {
        match self.check_writable(file.volume) {
            Err(NfsStatus::Rofs) => {
                let (client, id) = (self.client().ok(), self.resolve_state_id(id)?);
                let may = |client| {
                    let now = self.server.now();
                    self.server.state.lock().may_finish(client, &id, file, now)
                };
                if !client.is_some_and(may) {
                    return Err(NfsStatus::Rofs.into());
                }
            }
            checked => checked?,
        }
        if committed != StableHow::Unstable {
            self.make_durable();
        } else if self.changes == Changes::None {
            self.changes = Changes::Unstable;
        }
        Ok(())
    }

    /// What the compound has changed has to be durable with its commit.
    pub fn make_durable(&mut self) {
        self.changes = Changes::Durable;
    }

    /// The operation is about to change `file` in spite of what its delegations promise: those of other clients are
    /// recalled, and none is given before the change is visible. To be called before the operation changes anything.
    pub fn yield_delegations(&mut self, file: FileId) -> Result<(), Failure> {
        let client = self.client().ok();
        self.changing.begin(client, file)
    }

    /// The operation reads `file`, or tests its locks, without having it open: delegations for writing of other clients are
    /// recalled.
    pub fn recall_writers(&self, file: FileId) -> Result<(), Failure> {
        let client = self.client().ok();
        self.server.with_state(|state, now| state.recall_writers(client, file, now))
    }

    /// The size of `file` as its holder says it, if another client holds a delegation for writing and has changed
    /// something.
    pub fn size_by_holder(&self, file: FileId) -> Result<Option<u64>, Failure> {
        let client = self.client().ok();
        self.server.with_state(|state, now| state.size_by_holder(client, file, &self.asked, now))
    }

    /// The sizes of all files that other clients hold delegations for writing of, as far as they have said them.
    pub fn sizes_by_holders(&self) -> HashMap<FileId, u64> {
        let client = self.client().ok();
        self.server.state.lock().sizes_by_holders(client)
    }

    /// How often the compound has marked `file` as changing.
    pub fn own_changes(&self, file: FileId) -> usize {
        self.changing.count(file)
    }

    /// The operation closes `file`: what was written by the open, if it is one for writing, is not visible before the commit.
    pub fn delegate_later(&mut self, open: &StateId, file: FileId) {
        if self.server.state.lock().is_open_for_writing(open) {
            self.changing.mark(file);
        }
    }

    /// Whether anything was changed since the last commit.
    pub fn has_changed(&self) -> bool {
        self.changes != Changes::None
    }

    /// Bytes that the reply may still grow by: this operation's number and status, its result, and what must be
    /// left for the next operation's error.
    pub fn room(&self) -> usize {
        if self.is_last { self.room } else { self.room.saturating_sub(reply::ERROR_BYTES) }
    }

    /// Why an operation fails whose smallest result needs more than [`Compound::room`].
    pub fn reply_too_big(&self) -> NfsStatus {
        self.too_big
    }
}
