//! Files that are read by the same path again and again (decision 36).
//!
//! The client keeps their delegations after they are closed. Then nothing about the file is to be asked for, and where the path leads is
//! believed for as long as [`Options::entry_timeout`](crate::Options::entry_timeout) says.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use nfs4::bits::{share_access, share_deny};
use nfs4::{AttributeValues, DelegReturnArgs, FileHandle, NfsArgOp, NfsResOp, OpenDelegation, Outcome};
use nfs4_client::{ClientError, OpenState, Reply};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Nfs;
use super::cache::detached;
use super::execute::walk as way_to;
use super::plan::Plan;
use crate::step::{Done, Open, Step};
use crate::target::{Base, Target};

/// Files that are held at most.
const MOST: usize = 1024;

/// Files that are being opened or given back at once. Of more, each is opened when it is read again.
const AT_ONCE: usize = 64;

/// How long one is held that is not read.
const IDLE: Duration = Duration::from_secs(300);

/// How often it is looked for those.
pub(super) const SWEEP: Duration = Duration::from_secs(60);

/// How long who closes the client waits for a server that does not answer.
const LEAVING: Duration = Duration::from_secs(5);

/// How long a file is left alone that the server does not delegate, at least.
const REFUSED: Duration = Duration::from_secs(1);

/// All files that are held, by the paths that they are read by.
pub(super) struct Held {
    timeout: Duration,
    ways: Mutex<Ways>,
    /// What opens them and gives them back; ends with this.
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Default)]
struct Ways(HashMap<Target, Way>);

/// The server was asked where a path leads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Walk {
    /// When, since boot.
    pub at: Duration,
    /// How often this client had [changed](super::promise::Promises::changes) files by their names then: any of these may have
    /// been a directory on the way.
    pub changes: u64,
    /// And [by descriptors](super::promise::Promises::writes).
    pub writes: u64,
}

/// Where a path leads.
#[derive(Debug)]
struct Way {
    handle: FileHandle,
    /// The last that led here.
    walk: Walk,
    used: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    Opening,
    /// And closed again; since when that is known.
    Delegated(Arc<OpenState>, Duration),
    /// It was not delegated, then.
    Refused(Duration),
}

/// What is to be done about a path that has led to the file once more.
#[derive(Debug, Default)]
struct Todo {
    /// This is to be given back,
    back: Option<Arc<OpenState>>,
    /// and then the file is to be opened, and [told of](Held::opened).
    open: bool,
}

impl Held {
    pub fn new(timeout: Duration) -> Held {
        Held { timeout, ways: Mutex::default(), tasks: TaskTracker::new(), stop: CancellationToken::new() }
    }

    /// Whether paths are believed at all.
    pub fn is_on(&self) -> bool {
        !self.timeout.is_zero()
    }

    /// Whether there is room for one that was not read before.
    pub fn has_room(&self) -> bool {
        self.is_on() && !self.tasks.is_closed() && self.ways.lock().0.len() < MOST
    }

    /// The file where the path leads for certain, but for what others may have done to directories within the timeout; `changes`: of
    /// the client's own until now.
    pub fn find(&self, target: &Target, now: Duration, changes: u64) -> Option<Arc<OpenState>> {
        let mut ways = self.ways.lock();
        let way = ways.0.get_mut(target)?;
        let State::Delegated(open, _) = &way.state else { return None };
        if now.saturating_sub(way.walk.at) >= self.timeout || way.walk.changes != changes {
            return None;
        }
        way.used = now;
        Some(open.clone())
    }

    /// The path has led to this file, which is as it was when it was read before. `is_promised`: whether a delegation counts still.
    fn seen(
        &self,
        target: &Target,
        handle: &FileHandle,
        walk: Walk,
        now: Duration,
        is_promised: impl Fn(&Arc<OpenState>) -> bool,
    ) -> Todo {
        // An open file's number may be nobody's when it is asked for the next time.
        if matches!(target.base, Base::Descriptor(_)) {
            return Todo::default();
        }
        let is_busy = self.tasks.len() >= AT_ONCE;
        let mut ways = self.ways.lock();
        let mut back = None;
        if let Some(way) = ways.0.get_mut(target) {
            if way.handle == *handle {
                way.used = now;
                way.walked(walk);
                let is_settled = match &way.state {
                    State::Opening => true,
                    State::Delegated(open, _) => is_promised(open),
                    State::Refused(then) => now.saturating_sub(*then) < self.timeout.max(REFUSED),
                };
                if is_settled || is_busy {
                    return Todo::default();
                }
            }
            back = ways.let_go(target);
        } else if is_busy || ways.0.len() >= MOST {
            // Those that are read all the time are not given up for one that perhaps is not read any more.
            return Todo::default();
        }
        let mut others = ways.0.values().filter(|way| way.handle == *handle).filter_map(Way::delegated);
        let state = match others.find(|(open, _)| is_promised(open)) {
            // Nobody knows where the path led to before that.
            Some((_, since)) if walk.at < *since => return Todo { back, open: false },
            Some((open, since)) => State::Delegated(open.clone(), *since),
            None => State::Opening,
        };
        let open = matches!(state, State::Opening);
        let way = Way { handle: detached(handle), walk, used: now, state };
        ways.0.insert(target.detached(), way);
        Todo { back, open }
    }

    /// The path has led to this file, which was opened, delegated and closed; what is to be given back.
    fn delegated(
        &self,
        target: &Target,
        open: Arc<OpenState>,
        walk: Walk,
        used: Duration,
    ) -> Option<Arc<OpenState>> {
        let mut ways = self.ways.lock();
        if ways.0.len() >= MOST && !ways.0.contains_key(target) {
            return Some(open);
        }
        let back = ways.let_go(target);
        let way = Way { handle: detached(open.handle()), walk, used, state: State::Delegated(open, used) };
        ways.0.insert(target.detached(), way);
        back
    }

    /// What came of opening it; what is to be given back, if it is of no use.
    fn opened(
        &self,
        target: &Target,
        open: Option<Arc<OpenState>>,
        walk: Walk,
        now: Duration,
    ) -> Option<Arc<OpenState>> {
        let mut ways = self.ways.lock();
        let Some(way) = ways.0.get_mut(target).filter(|way| matches!(way.state, State::Opening)) else {
            return open;
        };
        match open {
            Some(open) if *open.handle() == way.handle => {
                way.walk = walk;
                way.state = State::Delegated(open, now);
                None
            }
            open => {
                way.state = State::Refused(now);
                open
            }
        }
    }

    /// The path leads to this file, or nowhere; what is to be given back.
    fn leads(&self, target: &Target, to: Option<(&FileHandle, Walk)>) -> Option<Arc<OpenState>> {
        let mut ways = self.ways.lock();
        let way = ways.0.get_mut(target)?;
        match to {
            Some((handle, walk)) if *handle == way.handle => {
                way.walked(walk);
                None
            }
            _ => ways.let_go(target),
        }
    }

    /// Holds those no more of which this is true.
    fn take(&self, is_wanted: impl Fn(&Way) -> bool) -> Vec<Arc<OpenState>> {
        let mut ways = self.ways.lock();
        let taken: Vec<Target> =
            ways.0.iter().filter(|(_, way)| is_wanted(way)).map(|(target, _)| target.clone()).collect();
        taken.iter().filter_map(|target| ways.let_go(target)).collect()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Ways {
    /// What is to be given back then: nothing, if another path leads to the same file.
    fn let_go(&mut self, target: &Target) -> Option<Arc<OpenState>> {
        let way = self.0.remove(target)?;
        let (open, _) = way.delegated()?;
        let is_shared = self.0.values().filter_map(Way::delegated).any(|(other, _)| Arc::ptr_eq(other, open));
        (!is_shared).then(|| open.clone())
    }
}

impl Way {
    fn walked(&mut self, walk: Walk) {
        if self.walk.at < walk.at {
            self.walk = walk;
        }
    }

    fn delegated(&self) -> Option<(&Arc<OpenState>, &Duration)> {
        match &self.state {
            State::Delegated(open, since) => Some((open, since)),
            State::Opening | State::Refused(_) => None,
        }
    }
}

impl Nfs {
    /// A path has led to a file that is as it was.
    pub(super) fn seen_again(&self, target: &Target, handle: &FileHandle, walk: Walk) {
        if !self.held.is_on() || target.descriptor().is_some() || self.held.tasks.is_closed() {
            return;
        }
        let doubts = self.client.doubts();
        let is_promised = |open: &Arc<OpenState>| self.promises.count_under(open, doubts);
        let Todo { back, open } = self.held.seen(target, handle, walk, self.now(), is_promised);
        if !open {
            self.give_back(back);
            return;
        }
        let back = back.map(|open| self.letting_go(open));
        let (nfs, target) = (self.me.clone(), target.detached());
        self.in_background(async move {
            // A server that has delegated the file already does not do it again.
            if let Some(back) = back {
                back.await;
            }
            if let Some(nfs) = nfs.upgrade() {
                nfs.hold(target).await;
            }
        });
    }

    /// A READ by path has come to this file.
    pub(super) fn came_to(&self, target: &Target, results: &[NfsResOp], walk: Walk) {
        if self.held.is_on()
            && let Some(handle) = label_of(results).and_then(|label| label.filehandle)
        {
            self.give_back(self.held.leads(target, Some((&handle, walk))));
        }
    }

    /// [Sends](Nfs::send) a plan. What is delegated with it is kept, or given back, also if nobody waits for the answer any more.
    pub(super) async fn send_and_hold(
        &self,
        plan: &Arc<Plan>,
        doubts: u64,
        walk: Walk,
    ) -> Result<Reply, ClientError> {
        let (Some(_), Some(nfs)) = (&plan.wanted, self.me.upgrade()) else { return self.send(plan).await };
        let (plan, (tell, told)) = (plan.clone(), oneshot::channel());
        let task = async move {
            let reply = nfs.send(&plan).await;
            if let Ok(reply) = &reply {
                nfs.delegated_with_read(&plan, reply, doubts, walk).await;
            }
            let _ = tell.send(reply);
        };
        self.held.tasks.spawn_on(task, &self.runtime);
        told.await.unwrap_or(Err(ClientError::Closed))
    }

    /// A READ by path has opened its file: keeps the delegation, if there is one.
    async fn delegated_with_read(&self, plan: &Plan, reply: &Reply, doubts: u64, walk: Walk) {
        let Some((index, target)) = &plan.wanted else { return };
        let (Some(NfsArgOp::Open(asked)), Some(NfsResOp::Open(Outcome::Ok(opened)))) =
            (plan.operations.get(*index), reply.results.get(*index))
        else {
            return;
        };
        let OpenDelegation::Read(delegation) = &opened.delegation else { return };
        let label = label_of(&reply.results[*index..]);
        let Some((handle, change)) = label.and_then(|label| label.filehandle.zip(label.change)) else {
            // Nobody knows of what it is, but for its name.
            let places = plan.openings.iter().filter(|opening| opening.open == *index);
            for opening in places {
                let mut back = way_to(&opening.file);
                back.push(NfsArgOp::DelegReturn(DelegReturnArgs { state_id: delegation.state_id.newest() }));
                // If it fails, it is given back when it is recalled.
                let _ = self.compound(&back).await;
            }
            return;
        };
        if self.promises.rest_on(&handle, &delegation.state_id) {
            // Said again: whoever has it keeps it.
            return;
        }
        let share = (share_access::READ, share_deny::NONE);
        let open = self.client.adopt(detached(&handle), share, asked.owner.clone(), opened);
        self.client.closed(&open);
        self.promises.opened(&open, doubts);
        self.promises.know(&open, change, walk);
        let back = match self.promises.count_under(&open, doubts) {
            true => self.held.delegated(target, open, walk, self.now()),
            // Recalled already.
            false => Some(open),
        };
        self.give_back(back);
    }

    /// A path leads nowhere.
    pub(super) fn leads_nowhere(&self, target: &Target) {
        if self.held.is_on() {
            self.give_back(self.held.leads(target, None));
        }
    }

    /// Opens a file for the sake of its delegation.
    async fn hold(&self, target: Target) {
        let (walk, doubts) = (self.walk(), self.client.doubts());
        let open = Open { follow: false, ..Open::read(target.clone()) };
        let done = self.do_all(vec![Step::Open(open)]).await;
        let file = match done.as_deref() {
            Ok([Done::Opened(descriptor)]) => self.files.remove(*descriptor),
            _ => None,
        };
        let mut open = file.map(|file| file.open.clone());
        if let Some(opened) = &open {
            self.client.insist(|| self.client.close_file(opened)).await;
        }
        if let Some(useless) = open.take_if(|open| !self.promises.count_under(open, doubts)) {
            self.letting_go(useless).await;
        }
        if let Some(open) = self.held.opened(&target, open, walk, self.now()) {
            self.letting_go(open).await;
        }
    }

    /// Gives back what these steps take from where it is: nobody recalls from a client what it does itself.
    pub(super) fn let_go_of(&self, steps: &[Step]) {
        if !self.held.is_on() {
            return;
        }
        for step in steps {
            match step {
                Step::Remove(target) => self.leads_nowhere(target),
                Step::Rename { from, to } => [from, to].into_iter().for_each(|it| self.leads_nowhere(it)),
                _ => {}
            }
        }
    }

    /// Holds a file no more, because the server wants its delegation back.
    pub(super) async fn let_go_of_file(&self, handle: &FileHandle) {
        for open in self.held.take(|way| way.handle == *handle) {
            self.letting_go(open).await;
        }
    }

    /// Gives back what was not read for long, but for what a descriptor makes use of. What was not read since this client has changed something,
    /// for less long: perhaps that was the removal of the file, which takes room as long as it is delegated.
    pub(super) fn let_go_of_idle(&self) {
        let (Walk { at: now, changes, .. }, open) = (self.walk(), self.files.handles());
        let is_idle = |way: &Way| {
            let most = if way.walk.changes == changes { IDLE } else { self.held.timeout.min(IDLE) };
            now.saturating_sub(way.used) >= most && !open.contains(&way.handle)
        };
        self.held.take(is_idle).into_iter().for_each(|open| self.give_back(Some(open)));
    }

    /// Holds nothing from now on; waits for what is on its way, so that nothing is opened while the client takes its leave.
    pub(super) async fn hold_no_more(&self) {
        self.held.tasks.close();
        tokio::select! {
            () = self.held.tasks.wait() => {}
            () = self.clock.sleep(LEAVING) => {}
        }
    }

    fn give_back(&self, open: Option<Arc<OpenState>>) {
        if let Some(open) = open {
            self.in_background(self.letting_go(open));
        }
    }

    fn letting_go(&self, open: Arc<OpenState>) -> impl Future<Output = ()> + Send + 'static {
        self.promises.closing(&open);
        let client = self.client.clone();
        async move {
            client.insist(|| client.close_file(&open)).await;
            client.bring_back(&open).await;
        }
    }

    fn in_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.held.stop.clone();
        let task = async move { stop.run_until_cancelled(task).await.unwrap_or_default() };
        self.held.tasks.spawn_on(task, &self.runtime);
    }

    /// Before the server is asked.
    pub(super) fn walk(&self) -> Walk {
        Walk { at: self.now(), changes: self.promises.changes(), writes: self.promises.writes() }
    }

    fn now(&self) -> Duration {
        self.clock.since_boot()
    }
}

/// What a READ was told with.
fn label_of(results: &[NfsResOp]) -> Option<AttributeValues> {
    results.iter().find_map(|result| match result {
        NfsResOp::GetAttr(Outcome::Ok(got)) => got.values().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use nfs4_client::Client;
    use nfs4_client::testing::{delegated, unconnected};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn handle(number: u16) -> FileHandle {
        FileHandle::new(number.to_be_bytes().to_vec()).unwrap()
    }

    struct World {
        client: Client,
        held: Held,
    }

    impl World {
        fn new() -> World {
            World { client: unconnected(), held: Held::new(TIMEOUT) }
        }

        fn seen(&self, path: &str, number: u16, seconds: u64, is_promised: bool) -> Todo {
            let at = Duration::from_secs(seconds);
            self.held.seen(&path.into(), &handle(number), Walk { at, ..Walk::default() }, at, |_| is_promised)
        }

        fn opened(&self, path: &str, number: u16, seconds: u64) -> Option<Arc<OpenState>> {
            let (at, open) = (Duration::from_secs(seconds), delegated(&self.client, handle(number), 1, 1));
            self.held.opened(&path.into(), Some(open), Walk { at, ..Walk::default() }, at)
        }

        fn find(&self, path: &str, seconds: u64) -> Option<FileHandle> {
            let open = self.held.find(&path.into(), Duration::from_secs(seconds), 0);
            open.map(|open| open.handle().clone())
        }
    }

    #[tokio::test]
    async fn a_path_is_believed_from_when_it_was_walked_for_as_long_as_was_said() {
        let world = World::new();
        let todo = world.seen("/a", 1, 10, false);
        assert!(todo.open && todo.back.is_none());
        assert_eq!(world.find("/a", 11), None, "it is not open yet");
        assert!(!world.seen("/a", 1, 11, false).open, "it is being opened");
        assert!(world.opened("/a", 1, 12).is_none());
        assert_eq!(world.find("/a", 41), Some(handle(1)));
        assert_eq!(world.find("/a", 42), None);
        assert_eq!(world.find("/b", 12), None);
        let todo = world.seen("/a", 1, 50, true);
        assert!(!todo.open && todo.back.is_none());
        assert_eq!(world.find("/a", 79), Some(handle(1)));
        let changed = world.held.find(&"/a".into(), Duration::from_secs(51), 1);
        assert!(changed.is_none(), "the client itself may have moved a directory");
    }

    #[tokio::test]
    async fn what_is_of_no_use_is_given_back() {
        let world = World::new();
        assert!(world.opened("/nobody's", 1, 1).is_some(), "nobody wants it any more");
        world.seen("/a", 1, 1, false);
        assert!(world.opened("/a", 2, 1).is_some(), "the path leads to another file now");
        assert!(!world.seen("/a", 1, 2, false).open, "it is left alone for a while");
        assert!(world.seen("/a", 1, 40, false).open);
        let none = world.held.opened(&"/a".into(), None, Walk::default(), Duration::from_secs(40));
        assert!(none.is_none() && world.find("/a", 40).is_none(), "it is not delegated");
        world.seen("/b", 3, 1, false);
        assert!(world.opened("/b", 3, 1).is_none());
        let todo = world.seen("/b", 3, 2, false);
        assert!(todo.open && todo.back.is_some(), "what was promised counts no more");
        assert!(world.opened("/b", 3, 2).is_none());
        let todo = world.seen("/b", 4, 3, true);
        assert!(todo.open && todo.back.is_some(), "the path leads to another file now");
        assert!(world.opened("/b", 4, 3).is_none());
        assert!(world.held.leads(&"/b".into(), Some((&handle(4), Walk::default()))).is_none());
        assert!(world.held.leads(&"/b".into(), None).is_some(), "it leads nowhere");
        assert_eq!(world.find("/b", 3), None);
    }

    #[tokio::test]
    async fn those_that_are_read_all_the_time_are_not_given_up_for_others() {
        let world = World::new();
        for number in 0..MOST as u16 {
            let path = format!("/{number}");
            assert!(world.held.has_room());
            assert!(world.seen(&path, number, number.into(), false).open);
            assert!(world.opened(&path, number, 2000).is_none());
        }
        assert!(!world.held.has_room());
        let todo = world.seen("/more", 5000, 2000, false);
        assert!(!todo.open && todo.back.is_none());
        assert_eq!(world.held.take(|way| way.used < Duration::from_secs(24)).len(), 24);
        assert!(world.seen("/more", 5000, 2001, false).open);
    }

    #[tokio::test]
    async fn two_paths_to_one_file_share_its_delegation_but_not_what_was_before() {
        let world = World::new();
        world.seen("/a", 1, 10, false);
        assert!(world.opened("/a", 1, 10).is_none());
        assert!(!world.seen("/early", 1, 9, true).open);
        assert_eq!(world.find("/early", 11), None, "it was asked for before the delegation was there");
        assert!(!world.seen("/b", 1, 12, true).open);
        assert_eq!(world.find("/b", 13), Some(handle(1)));
        assert!(world.held.leads(&"/a".into(), None).is_none(), "the other path needs it");
        assert!(world.held.leads(&"/b".into(), None).is_some());
    }

    #[test]
    fn what_is_reached_from_a_descriptor_is_not_held() {
        let held = Held::new(TIMEOUT);
        let target = Target::at(crate::Descriptor(1), "name");
        assert!(!held.seen(&target, &handle(1), Walk::default(), Duration::ZERO, |_| false).open);
    }
}
