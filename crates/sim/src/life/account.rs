use std::collections::BTreeMap;
use std::sync::Arc;

use volume::Settled;

/// Names that a client uses.
pub const SLOTS: u16 = 8;
pub type Slot = u8;
/// The files of a client, with what they hold.
pub type Tree = BTreeMap<Slot, Arc<Vec<u8>>>;
/// When something happened: so many events of the world before.
pub type Moment = u64;

/// What a client may find: one of these trees. Each follows from the one before by a change that is visible, or that nobody knows the fate of.
pub struct Account {
    states: Vec<State>,
    /// The first that is known to be durable; those before are what a restore may find.
    durable: usize,
    /// What was in clouds, and in a backup that was complete, at some time.
    safe: Vec<Arc<Vec<u8>>>,
    /// When that was asked for.
    flushed: Option<Moment>,
}

struct State {
    tree: Tree,
    /// When the change began that it is made by.
    begun: Moment,
    /// When it was there for certain.
    seen: Option<Moment>,
}

/// Since when everything is kept, by what the gateway has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// The instant of the newest backup that was complete. Nothing from before is found after a restore.
    pub backed_up: Option<Moment>,
    /// When a flush was asked for of which was said that everything from before survives the loss of the machine.
    pub flushed: Option<Moment>,
}

impl Default for Account {
    fn default() -> Account {
        let first = State { tree: Tree::new(), begun: 0, seen: Some(0) };
        Account { states: vec![first], durable: 0, safe: Vec::new(), flushed: None }
    }
}

impl Account {
    /// What the client sees.
    pub fn now(&self) -> &Tree {
        &self.last().tree
    }

    fn last(&self) -> &State {
        &self.states[self.states.len() - 1]
    }

    /// A change is about to be made.
    pub fn begin(&mut self, after: Tree, now: Moment) {
        self.states.push(State { tree: after, begun: now, seen: None });
    }

    /// Nothing of the last change was done.
    pub fn undo(&mut self) {
        self.states.pop();
    }

    /// The last change is visible.
    pub fn seen(&mut self, now: Moment) {
        let last = self.states.len() - 1;
        self.states[last].seen.get_or_insert(now);
    }

    /// The last change is durable, and with it everything before: the journal is one sequence.
    pub fn all_durable(&mut self, now: Moment) {
        self.seen(now);
        self.durable = self.states.len() - 1;
    }

    /// All changes of this file's content are durable.
    pub fn durable(&mut self, slot: Slot) {
        let Some(content) = self.now().get(&slot).cloned() else { return };
        let has = |state: &State| state.tree.values().any(|other| Arc::ptr_eq(other, &content));
        self.durable += self.states[self.durable..].iter().position(has).unwrap_or(0);
    }

    /// Nobody knows whether the last change was made; this is what is there now.
    pub fn decide(&mut self, found: &Tree, now: Moment) -> bool {
        if self.now() == found {
            self.seen(now);
            return true;
        }
        self.undo();
        self.states.len() > self.durable && self.now() == found
    }

    /// The states that may have been there at this moment.
    fn at(&self, moment: Moment) -> impl Iterator<Item = usize> {
        let is_over = move |next: &State| next.seen.is_some_and(|seen| seen < moment);
        let states = self.states.iter().enumerate();
        let there = states.filter(move |(number, state)| {
            state.begun <= moment && !self.states.get(number + 1).is_some_and(is_over)
        });
        there.map(|(number, _)| number)
    }

    /// What the gateway has said meanwhile.
    pub fn told(&mut self, promise: Promise) {
        if self.flushed != promise.flushed
            && let Some(flushed) = promise.flushed
        {
            self.flushed = Some(flushed);
            let mut there = self.at(flushed).map(|number| &self.states[number].tree);
            let first = there.next().into_iter().flat_map(|tree| tree.values().cloned());
            let others: Vec<&Tree> = there.collect();
            let is_in =
                |content: &Arc<Vec<u8>>, tree: &Tree| tree.values().any(|other| Arc::ptr_eq(other, content));
            self.safe = first.filter(|content| others.iter().all(|tree| is_in(content, tree))).collect();
        }
        let Some(backed_up) = promise.backed_up else { return };
        let is_over = |next: &State| next.seen.is_some_and(|seen| seen < backed_up);
        let over = self.states[1..=self.durable].iter().take_while(|next| is_over(next)).count();
        self.states.drain(..over);
        self.durable -= over;
    }

    /// After an end of the machine this is what is there. It must be one of the states that could be.
    pub fn resume(&mut self, found: Tree, now: Moment) -> Result<(), String> {
        let possible = &self.states[self.durable..];
        if let Some(last) = possible.iter().rposition(|state| state.tree == found) {
            self.states.truncate(self.durable + last + 1);
            self.durable += last;
            self.seen(now);
            return Ok(());
        }
        let trees: Vec<&Tree> = possible.iter().map(|state| &state.tree).collect();
        Err(none_of(&found, &trees))
    }

    /// After a restore of what there was at `instant`, with these files `lost` in part, this is what is there.
    pub fn resume_restored(
        &mut self,
        found: Tree,
        instant: Moment,
        lost: &BTreeMap<Slot, Settled>,
        now: Moment,
    ) -> Result<(), String> {
        let numbers: Vec<usize> = self.at(instant).collect();
        let possible: Vec<&Tree> = numbers.iter().map(|number| &self.states[*number].tree).collect();
        let is_it = |tree: &Tree| {
            tree.len() == found.len()
                && found.iter().all(|(slot, content)| {
                    tree.get(slot).is_some_and(|was| match lost.get(slot) {
                        None => was == content,
                        Some(lost) => is_left(was, content, lost),
                    })
                })
        };
        let Some(at) = possible.iter().rposition(|tree| is_it(tree)) else {
            let lost = lost.iter().map(|(slot, lost)| format!("{slot}: {lost:?}")).collect::<Vec<_>>();
            return Err(format!("of event {instant}, with losses {lost:?}: {}", none_of(&found, &possible)));
        };
        let was = possible[at];
        let was_safe =
            |slot: &Slot| was.get(slot).filter(|was| self.safe.iter().any(|safe| Arc::ptr_eq(safe, was)));
        if let Some((slot, lost)) = lost.iter().find(|(slot, _)| was_safe(slot).is_some()) {
            let is_there = found.get(slot) == was.get(slot);
            return Err(format!(
                "file {slot} was in the clouds, and is said to be lost: {lost:?}; {is_there} that it is there all the same"
            ));
        }
        // It may be restored from the same backup once more, or from an older one.
        self.states.truncate(numbers[at] + 1);
        self.states.push(State { tree: found, begun: instant, seen: Some(now) });
        (self.durable, self.safe) = (self.states.len() - 1, Vec::new());
        Ok(())
    }
}

/// Whether `found` is what may be left of `was`: all but what is lost, and cut nowhere else.
fn is_left(was: &[u8], found: &[u8], lost: &Settled) -> bool {
    let is_lost = |at: usize| lost.ranges.iter().any(|range| range.contains(&(at as u64)));
    let is_right = |at: usize| is_lost(at) || if lost.certain { found.get(at) == was.get(at) } else { true };
    found.len() as u64 == lost.size
        && found.len() <= was.len()
        && (0..was.len()).all(|at| {
            // Behind what is lost there may have been nothing but a hole.
            is_right(at) || (at >= found.len() && was[at] == 0)
        })
}

fn none_of(found: &Tree, possible: &[&Tree]) -> String {
    let show = |tree: &Tree| {
        let lengths = tree.iter().map(|(slot, content)| format!("{slot}: {}", content.len()));
        lengths.collect::<Vec<_>>().join(", ")
    };
    let nothing = Tree::new();
    let (least, most) = (*possible.first().unwrap_or(&&nothing), *possible.last().unwrap_or(&&nothing));
    let differ =
        |tree: &Tree| (0..SLOTS as Slot).filter(|slot| tree.get(slot) != found.get(slot)).collect::<Vec<_>>();
    format!(
        "files with lengths {{{}}} are none of the {} states from {{{}}} (files {:?} differ) to {{{}}} (files {:?} differ)",
        show(found),
        possible.len(),
        show(least),
        differ(least),
        show(most),
        differ(most),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(byte: u8) -> Tree {
        Tree::from([(0, Arc::new(vec![byte]))])
    }

    #[test]
    fn any_state_behind_the_durable_one_may_be_found_and_none_before() {
        let account = || {
            let mut account = Account::default();
            account.begin(tree(1), 1);
            account.all_durable(2);
            account.begin(tree(2), 3);
            account.begin(tree(3), 5);
            account
        };
        for byte in 1..4 {
            account().resume(tree(byte), 9).unwrap();
        }
        account().resume(tree(4), 9).unwrap_err();
        account().resume(Tree::new(), 9).unwrap_err();
        let mut synced = account();
        synced.durable(0);
        synced.resume(tree(2), 9).unwrap_err();
    }

    #[test]
    fn a_restore_finds_what_there_was_at_its_instant() {
        let account = || {
            let mut account = Account::default();
            for number in 1..4 {
                account.begin(tree(number), u64::from(number) * 10);
                account.all_durable(u64::from(number) * 10 + 2);
            }
            account.told(Promise { backed_up: Some(15), flushed: Some(15) });
            account
        };
        let restored = |byte, instant, lost: &BTreeMap<Slot, Settled>| {
            account().resume_restored(tree(byte), instant, lost, 99)
        };
        let nothing = BTreeMap::new();
        restored(1, 15, &nothing).unwrap();
        restored(2, 15, &nothing).unwrap_err();
        restored(1, 21, &nothing).unwrap();
        restored(2, 21, &nothing).unwrap();
        restored(3, 21, &nothing).unwrap_err();
        restored(3, 40, &nothing).unwrap();
        let settled =
            Settled { size_was: 1, size: 1, certain: true, ranges: std::iter::once(0..1).collect() };
        let lost = BTreeMap::from([(0, settled)]);
        restored(9, 25, &lost).unwrap();
        restored(9, 15, &lost).unwrap_err();
    }
}
