//! Steps over NFSv4.1 and 4.2.

mod attributes;
mod cache;
mod execute;
mod held;
mod large;
mod links;
mod list;
mod open_files;
mod plan;
mod position;
mod promise;
mod readahead;
mod size;
mod transact;

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use environment::Clock;
use nfs4::bits::compound_mode;
use nfs4::{CompoundModeArgs, NfsArgOp, NfsResOp, Outcome, StateOwner};
use nfs4_client::{Callback, ClientError, Reply};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::backend::Backend;
use crate::listing::{Directory, PageResult};
use crate::step::{APPEND, Done, Step, Write};
use crate::transaction::{Aborted, TransactionLimits};
use crate::{Error, Options, Statistics, VectorResult};

use cache::Cache;
use execute::is_doubtful;
use held::Held;
use open_files::OpenFiles;
pub(crate) use plan::REMOVALS;
use plan::{Bounds, Plan};
use position::Start;
use promise::{Promises, Recalls, Returning};

/// Bytes around one READ or WRITE by path in a compound of its own.
const AROUND: usize = 16 << 10;

/// Full WRITEs in one compound. Compounds with READs have less, as several are under way at once; what changes something goes
/// one after the other.
const WRITES: usize = 4;

/// Bytes of a message beside the data of as much as one READ or WRITE carries.
const BESIDE: usize = 64 << 10;

/// A directory of an NFS server.
pub(crate) struct Nfs {
    client: nfs4_client::Client,
    root: Start,
    files: OpenFiles,
    lanes: Lanes,
    clock: Arc<dyn Clock>,
    /// Most bytes of a READ or WRITE.
    transfer: usize,
    extension: Extension,
    /// Whether what changes something does so whole or not at all.
    atomic: bool,
    cache: Option<Cache>,
    promises: Arc<Promises>,
    held: Held,
    /// Room for what is read ahead.
    fetches: Arc<Semaphore>,
    /// Where the client's tasks run.
    runtime: Handle,
    me: Weak<Nfs>,
    _returning: Returning,
}

/// What the server has of the private operation COMPOUND_MODE (docs/protocol.md).
#[derive(Clone, Copy, Debug, Default)]
struct Extension {
    appends: bool,
    transactions: Option<TransactionLimits>,
}

impl Nfs {
    pub async fn connect(server: &str, options: Options) -> Result<Arc<Nfs>, Error> {
        let (clock, cache) = (options.nfs.environment.clock.clone(), Cache::new(options.cache_bytes));
        let (promises, wanted_back) = Promises::new();
        let recalls = Recalls(Arc::downgrade(&promises));
        let callback = cache.is_some().then(|| Arc::new(recalls) as Arc<dyn Callback>);
        let client = nfs4_client::Client::connect(&[server], options.nfs, callback).await?;
        let extension = if options.extensions { extension(&client).await? } else { Extension::default() };
        if options.atomic && extension.transactions.is_none() {
            return Err(Error::Unsupported("a transaction"));
        }
        let (root, files, lanes) = (Start::Root, OpenFiles::default(), Lanes::default());
        let held = Held::new(if cache.is_some() { options.entry_timeout } else { Duration::ZERO });
        let transfer = options.transfer;
        Ok(Arc::new_cyclic(|me| Nfs {
            _returning: Returning::begin(client.clone(), me.clone(), wanted_back, &clock, held.is_on()),
            client,
            root,
            files,
            lanes,
            clock,
            transfer,
            extension,
            atomic: options.atomic,
            cache,
            promises,
            held,
            fetches: Arc::new(Semaphore::new(readahead::AT_ONCE)),
            runtime: Handle::current(),
            me: me.clone(),
        }))
    }

    /// One round trip.
    async fn compound(&self, operations: &[NfsArgOp]) -> Result<Reply, ClientError> {
        self.client.compound(operations).await
    }

    /// One round trip. If the server restarted, open files have other state ids when it is made again.
    async fn send(&self, plan: &Plan) -> Result<Reply, ClientError> {
        let changing = self.promises.changing(&plan.touched);
        let reply = match plan.names_states() {
            false => self.client.compound(&plan.operations).await,
            true => self.client.compound_with(|| plan.renewed()).await,
        };
        if !reply.as_ref().is_err_and(|error| is_doubtful(error, plan)) {
            changing.answered();
        }
        reply
    }

    /// How much a usual compound may be.
    fn bounds(&self) -> Bounds {
        // What is kept is labelled.
        let beside = if self.cache.is_some() { 2 * BESIDE } else { BESIDE };
        let most = |operations: usize| self.transfer.saturating_mul(operations).saturating_add(beside);
        let bounds = self.most();
        Bounds { request: bounds.request.min(most(WRITES)), reply: bounds.reply.min(most(1)), ..bounds }
    }

    /// How much the server takes in one compound.
    fn most(&self) -> Bounds {
        let limits = self.client.limits();
        let (mut operations, mut request) = (limits.operations, u64::from(limits.request_bytes));
        if let Some(whole) = self.extension.transactions.filter(|_| self.atomic) {
            // COMPOUND_MODE is not counted.
            operations = operations.min(whole.operations.saturating_add(1));
            request = request.min(whole.bytes);
        }
        Bounds {
            operations: operations as usize,
            request: request as usize,
            reply: limits.response_bytes as usize,
            kept_reply: limits.cached_response_bytes as usize,
        }
    }

    fn transaction_limits_now(&self) -> Option<TransactionLimits> {
        let (granted, bounds) = (self.extension.transactions?, self.most());
        Some(TransactionLimits {
            operations: granted.operations.min(bounds.operations.saturating_sub(1) as u32),
            bytes: granted.bytes.min(bounds.request as u64),
        })
    }

    /// Most bytes of one READ or WRITE.
    fn transfer(&self) -> usize {
        let bounds = self.most();
        let room = bounds.request.min(bounds.reply).saturating_sub(AROUND);
        self.transfer.min(room).max(1)
    }

    /// Most bytes of a file that are written in one compound.
    fn written_together(&self, write: &Write) -> usize {
        let transfer = self.transfer();
        // What is appended is appended whole.
        let writes = if write.offset == APPEND { 1 } else { WRITES };
        let room = self.most().request.saturating_sub(AROUND);
        transfer.saturating_mul(writes).min(room).max(1)
    }
}

async fn extension(client: &nfs4_client::Client) -> Result<Extension, Error> {
    let ask = [NfsArgOp::CompoundMode(CompoundModeArgs { flags: 0 })];
    let reply = match client.compound(&ask).await {
        Ok(reply) => reply,
        Err(
            error @ (ClientError::Unreachable { .. }
            | ClientError::Unknown
            | ClientError::SessionLost
            | ClientError::Closed),
        ) => return Err(error.into()),
        // A server that cannot read the operation.
        Err(_) => return Ok(Extension::default()),
    };
    match reply.results.first() {
        Some(NfsResOp::CompoundMode(Outcome::Ok(mode))) => Ok(Extension {
            appends: mode.flags & compound_mode::APPEND != 0,
            transactions: (mode.flags & compound_mode::ATOMIC != 0).then_some(TransactionLimits {
                // Without SEQUENCE and COMPOUND_MODE.
                operations: mode.max_operations.saturating_sub(2),
                bytes: mode.max_bytes,
            }),
        }),
        _ => Ok(Extension::default()),
    }
}

#[async_trait]
impl Backend for Nfs {
    async fn execute(&self, steps: Vec<Step>) -> VectorResult<Done> {
        self.let_go_of(&steps);
        self.read_ahead(&steps).await;
        self.do_all(steps).await
    }

    async fn transact(&self, steps: Vec<Step>) -> Result<Vec<Done>, Aborted> {
        self.let_go_of(&steps);
        Nfs::transact(self, steps).await
    }

    fn transaction_limits(&self) -> Option<TransactionLimits> {
        self.transaction_limits_now()
    }

    async fn read_directories(&self, directories: Vec<Directory>) -> Vec<PageResult> {
        Nfs::read_directories(self, directories).await
    }

    fn removals(&self) -> usize {
        // The rest goes from directory to directory.
        (self.most().operations / 8 * 7).clamp(1, REMOVALS)
    }

    fn statistics(&self) -> Statistics {
        let sent = self.client.statistics();
        Statistics {
            round_trips: sent.compounds,
            operations: sent.operations,
            bytes_out: sent.bytes_out,
            bytes_in: sent.bytes_in,
        }
    }

    async fn close(&self) -> Result<(), Error> {
        self.hold_no_more().await;
        Ok(self.client.close().await?)
    }
}

/// Open-owners for compounds that open and close: each compound under way has one of its own, as opens of one owner are
/// one (RFC 8881 §9.1.2), and the CLOSE of one compound would close the file for another.
#[derive(Default)]
struct Lanes {
    state: Mutex<LaneState>,
}

#[derive(Default)]
struct LaneState {
    free: BTreeSet<u32>,
    next: u32,
}

/// An open-owner that is nobody else's until it is dropped; and not after that, if its compound may still be under way.
struct Lane<'a> {
    lanes: &'a Lanes,
    number: u32,
    owner: StateOwner,
    /// A compound was sent, and not answered.
    in_flight: bool,
}

impl Lanes {
    fn take(&self) -> Lane<'_> {
        let mut state = self.state.lock();
        let number = state.free.pop_first().unwrap_or_else(|| {
            state.next += 1;
            state.next
        });
        let owner = nfs4_client::operations::owner(format!("v{number}"));
        Lane { lanes: self, number, owner, in_flight: false }
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        if !self.in_flight {
            self.lanes.state.lock().free.insert(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lanes;

    #[test]
    fn an_owner_whose_compound_may_be_under_way_is_not_used_again() {
        let lanes = Lanes::default();
        let (first, mut second) = (lanes.take(), lanes.take());
        second.in_flight = true;
        drop((first, second));
        let (third, fourth) = (lanes.take(), lanes.take());
        assert_eq!([third.number, fourth.number], [1, 3]);
    }
}
