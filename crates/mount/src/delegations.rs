//! Files that the server has delegated for reading (RFC 8881 §10.4): what is known of them counts without asking.
//!
//! As long as such a delegation stands no other client changes the file. This mount may, as the server recalls nothing
//! for what its holder does himself: each change made here counts (`Core::changing`), and what was asked
//! for before counts no more. When a promise is one is said in decision 0018 §5 and §6, which this follows.
//!
//! The OPEN that brought the delegation stays open with it. Further opens by the same caller share it, and whoever has
//! the file open when the delegation goes back keeps it.

mod returning;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use fuser::FileAttr;
use nfs4::{CbRecallArgs, FileHandle, OpenDelegation, StateId};
use nfs4_client::{Client, ClientError, EarlyRecalls, OpenState};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::core::Core;
use crate::inode::Inode;

/// How long a delegation is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(300);

/// Returns of such ones at once; the server is asked to come again for more.
const ON_THE_WAY: usize = 64;

/// All that the server has delegated; at most as many as the options say.
pub(crate) struct Delegations {
    most: usize,
    table: Mutex<Table>,
    returning: Arc<Semaphore>,
}

#[derive(Default)]
struct Table {
    held: HashMap<FileHandle, Arc<Delegated>>,
    early: EarlyRecalls,
}

/// A delegated file.
pub(crate) struct Delegated {
    pub state: Arc<OpenState>,
    inode: Arc<Inode>,
    /// Who opened it. What he may do others need not be allowed to.
    client: Client,
    /// The client's [doubts](Client::doubts) before it was opened: with one more it is no promise any more.
    doubts: u64,
    inner: Mutex<Inner>,
}

struct Inner {
    /// It is going back.
    is_over: bool,
    /// Opens of the kernel's that share the one at the server.
    users: usize,
    used: Duration,
    known: Seen,
}

/// What the server said of a file.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub change: u64,
    pub attributes: FileAttr,
    /// By the clock of the file system, before it was asked.
    pub since: u64,
}

/// Taken before a file is opened.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    pub doubts: u64,
    pub tick: u64,
}

impl Delegations {
    pub fn new(most: usize) -> Delegations {
        Delegations { most, table: Mutex::default(), returning: Arc::new(Semaphore::new(ON_THE_WAY)) }
    }

    /// Whether the server is to be asked for a delegation of this file.
    pub fn may_ask(&self, handle: &FileHandle) -> bool {
        self.most > 0 && !self.table.lock().held.contains_key(handle)
    }

    fn find(&self, handle: &FileHandle) -> Option<Arc<Delegated>> {
        self.table.lock().held.get(handle).cloned()
    }

    /// Whether it was there until now.
    fn remove(&self, delegated: &Arc<Delegated>) -> bool {
        let mut table = self.table.lock();
        let is_there =
            table.held.get(&delegated.inode.handle).is_some_and(|held| Arc::ptr_eq(held, delegated));
        is_there && table.held.remove(&delegated.inode.handle).is_some()
    }

    /// Takes in what the server has just delegated. If not, it was recalled before, or there is one already. And those that
    /// have to make room.
    fn insert(&self, delegated: &Arc<Delegated>, id: StateId) -> (bool, Vec<Arc<Delegated>>) {
        let mut table = self.table.lock();
        let handle = &delegated.inode.handle;
        // A server may say again what it has delegated. Whichever it means goes back.
        if let Some(other) = table.held.remove(handle) {
            return (false, vec![other]);
        }
        if table.early.contains(&id) {
            return (false, Vec::new());
        }
        let surplus = table.oldest((table.held.len() + 1).saturating_sub(self.most));
        surplus.iter().for_each(|other| drop(table.held.remove(&other.inode.handle)));
        table.held.insert(handle.clone(), delegated.clone());
        (true, surplus)
    }

    /// What the server wants back. If that is not known, it will not count when the answer that has it comes.
    fn recalled(&self, recall: &CbRecallArgs) -> Option<Arc<Delegated>> {
        let mut table = self.table.lock();
        let known = table.held.get(&recall.file_handle);
        if known.is_some_and(|held| held.id().is_some_and(|id| id.other == recall.state_id.other)) {
            return table.held.remove(&recall.file_handle);
        }
        table.early.add(&recall.state_id);
        None
    }

    /// Those that nobody has used for a while.
    fn idle(&self, now: Duration) -> Vec<Arc<Delegated>> {
        let table = self.table.lock();
        let is_idle = |held: &&Arc<Delegated>| {
            let inner = held.inner.lock();
            inner.users == 0 && now.saturating_sub(inner.used) >= IDLE
        };
        table.held.values().filter(is_idle).cloned().collect()
    }

    /// Those used least lately, so that so many are left.
    fn all_but(&self, most: usize) -> Vec<Arc<Delegated>> {
        let table = self.table.lock();
        table.oldest(table.held.len().saturating_sub(most))
    }
}

impl Table {
    fn oldest(&self, count: usize) -> Vec<Arc<Delegated>> {
        if count == 0 {
            return Vec::new();
        }
        let mut held: Vec<_> = self.held.values().cloned().collect();
        held.sort_by_cached_key(|held| held.inner.lock().used);
        held.truncate(count);
        held
    }
}

impl Delegated {
    /// The delegation, as long as there is one.
    fn id(&self) -> Option<StateId> {
        self.state.read_delegation().filter(|_| self.state.lost().is_none())
    }

    /// From here on nothing is believed. Whether nobody has the file open, and nobody will by this.
    fn end(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.is_over = true;
        inner.users == 0
    }

    /// One that shared the open is closed.
    pub async fn release(&self) -> Result<(), ClientError> {
        let is_last = {
            let mut inner = self.inner.lock();
            inner.users = inner.users.saturating_sub(1);
            inner.is_over && inner.users == 0
        };
        if is_last { self.client.close_file(&self.state).await } else { Ok(()) }
    }
}

impl Core {
    /// Before a file is opened.
    pub fn before(&self, client: &Client) -> Before {
        Before { doubts: client.doubts(), tick: self.tick() }
    }

    /// What the file certainly is, for this caller.
    pub fn believed(self: &Arc<Core>, client: &Client, inode: &Arc<Inode>) -> Option<Seen> {
        self.with_believed(client, inode, |inner| inner.known).map(|(_, seen)| seen)
    }

    /// Opens a file without the server, if it would certainly allow it: it has, and nothing has changed since.
    pub fn share_open(
        self: &Arc<Core>,
        client: &Client,
        inode: &Arc<Inode>,
    ) -> Option<(Arc<Delegated>, Seen)> {
        let now = self.clock.monotonic();
        self.with_believed(client, inode, |inner| {
            inner.users += 1;
            inner.used = now;
            inner.known
        })
    }

    fn with_believed<T>(
        self: &Arc<Core>,
        client: &Client,
        inode: &Arc<Inode>,
        take: impl FnOnce(&mut Inner) -> T,
    ) -> Option<(Arc<Delegated>, T)> {
        let delegated = self.delegations.find(&inode.handle)?;
        if delegated.client.credential() != client.credential() || !Arc::ptr_eq(&delegated.inode, inode) {
            return None;
        }
        let is_good = client.is_in_good_standing();
        if delegated.doubts != client.doubts() || delegated.id().is_none() {
            self.give_back_later(&delegated);
            return None;
        }
        let mut inner = delegated.inner.lock();
        // First, as what was written counts as a change before it is no more on its way.
        let is_busy = inode.writer.is_busy();
        let mut changed = inode.touched.load(SeqCst).max(self.renamed.load(SeqCst));
        if inner.users > 0 || inner.known.attributes.nlink != 1 {
            changed = changed.max(self.removed.load(SeqCst));
        }
        let holds = is_good && !is_busy && !inner.is_over && inner.known.since >= changed;
        let taken = holds.then(|| take(&mut inner));
        drop(inner);
        taken.map(|taken| (delegated, taken))
    }

    /// The server has opened the file for this caller, and says this of it.
    pub fn saw_open(&self, client: &Client, inode: &Inode, seen: Seen) {
        self.saw(inode, seen, |held| held.client.credential() == client.credential());
    }

    /// The server says this of the file. Who may open it is known no more if the file is another than before.
    pub fn saw_attributes(&self, inode: &Inode, seen: Seen) {
        self.saw(inode, seen, |held| held.inner.lock().known.change == seen.change);
    }

    fn saw(&self, inode: &Inode, seen: Seen, counts: impl FnOnce(&Delegated) -> bool) {
        if let Some(held) = self.delegations.find(&inode.handle)
            && counts(&held)
        {
            let mut inner = held.inner.lock();
            if seen.since >= inner.known.since {
                inner.known = seen;
            }
        }
    }

    /// A file was opened for reading; perhaps it was delegated as well. Then it is shared from now on.
    pub fn accept(
        self: &Arc<Core>,
        client: &Client,
        inode: &Arc<Inode>,
        state: &Arc<OpenState>,
        before: Before,
        seen: Option<Seen>,
    ) -> Option<Arc<Delegated>> {
        let id = match (state.delegation(), seen) {
            (OpenDelegation::None | OpenDelegation::NoneExt(_), _) => return None,
            (OpenDelegation::Read(read), Some(seen)) if self.delegations.most > 0 => {
                Ok((read.state_id, seen))
            }
            (delegation, _) => Err(delegation),
        };
        let now = self.clock.monotonic();
        if let Ok((id, known)) = id {
            let delegated = Arc::new(Delegated {
                state: state.clone(),
                inode: inode.clone(),
                client: client.clone(),
                doubts: before.doubts,
                inner: Mutex::new(Inner { is_over: false, users: 1, used: now, known }),
            });
            let (is_in, surplus) = self.delegations.insert(&delegated, id);
            surplus.into_iter().for_each(|other| self.let_go(other, false));
            if is_in {
                return Some(delegated);
            }
        }
        // Not wanted, or not any more.
        let (client, state) = (client.clone(), state.clone());
        self.tasks.spawn_on(async move { client.bring_back(&state).await }, &self.runtime);
        None
    }
}

#[cfg(test)]
mod tests {
    use nfs4::AttributeValues;
    use nfs4_client::testing::{self, state_id, unconnected};

    use super::*;
    use crate::attributes::to_kernel;

    /// As if the server had delegated the file of this number, which was used at that second.
    fn delegated(client: &Client, number: u8, seconds: u64) -> Arc<Delegated> {
        let handle = FileHandle::new(vec![number]).unwrap();
        let state = testing::delegated(client, handle.clone(), 100 + number, number);
        let attributes = to_kernel(2, &AttributeValues::default());
        let known = Seen { change: 1, attributes, since: 1 };
        let used = Duration::from_secs(seconds);
        let inner = Mutex::new(Inner { is_over: false, users: 0, used, known });
        let inode = Arc::new(Inode::new(2, handle));
        Arc::new(Delegated { state, inode, client: client.clone(), doubts: 0, inner })
    }

    fn recall(number: u8) -> CbRecallArgs {
        let file_handle = FileHandle::new(vec![number]).unwrap();
        CbRecallArgs { state_id: state_id(number), truncate: false, file_handle }
    }

    #[tokio::test]
    async fn what_is_recalled_before_the_answer_that_has_it_is_never_believed() {
        let client = unconnected();
        let delegations = Delegations::new(10);
        let (early, other) = (delegated(&client, 1, 0), delegated(&client, 2, 0));
        assert!(delegations.recalled(&recall(1)).is_none());
        assert!(!delegations.insert(&early, state_id(1)).0);
        assert!(delegations.insert(&other, state_id(2)).0);
        assert!(delegations.find(&early.inode.handle).is_none());
        assert!(Arc::ptr_eq(&delegations.recalled(&recall(2)).unwrap(), &other));
        assert!(delegations.find(&other.inode.handle).is_none());
    }

    #[tokio::test]
    async fn what_is_delegated_twice_goes_back_whichever_is_meant() {
        let client = unconnected();
        let delegations = Delegations::new(10);
        let (one, again) = (delegated(&client, 1, 0), delegated(&client, 1, 0));
        assert!(delegations.insert(&one, state_id(1)).0);
        let (is_in, back) = delegations.insert(&again, state_id(1));
        assert!(!is_in && Arc::ptr_eq(&back[0], &one));
        assert!(delegations.find(&one.inode.handle).is_none());
    }

    #[tokio::test]
    async fn those_used_least_lately_make_room_and_those_idle_for_long_go_back() {
        let client = unconnected();
        let delegations = Delegations::new(3);
        let all: Vec<_> =
            [30, 10, 20, 40].iter().zip(1..).map(|(at, n)| delegated(&client, n, *at)).collect();
        let mut back = Vec::new();
        for (held, number) in all.iter().zip(1..) {
            back.extend(delegations.insert(held, state_id(number)).1);
        }
        assert!(back.len() == 1 && Arc::ptr_eq(&back[0], &all[1]));
        all[2].inner.lock().users = 1;
        let now = Duration::from_secs(35) + IDLE;
        let idle = delegations.idle(now);
        assert!(idle.len() == 1 && Arc::ptr_eq(&idle[0], &all[0]), "one is in use, one was lately");
        let rest = delegations.all_but(2);
        assert!(rest.len() == 1 && Arc::ptr_eq(&rest[0], &all[2]));
    }
}
