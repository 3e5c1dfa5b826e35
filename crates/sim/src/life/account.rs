use std::collections::BTreeMap;
use std::sync::Arc;

/// Names that a client uses.
pub const SLOTS: u16 = 8;
pub type Slot = u8;
/// The files of a client, with what they hold.
pub type Tree = BTreeMap<Slot, Arc<Vec<u8>>>;

/// What a client may find: one of these trees. The first is known to be durable; each follows from the one before by a change
/// that is visible, or that nobody knows the fate of.
pub struct Account {
    states: Vec<Tree>,
}

impl Default for Account {
    fn default() -> Account {
        Account { states: vec![Tree::new()] }
    }
}

impl Account {
    /// What the client sees.
    pub fn now(&self) -> &Tree {
        &self.states[self.states.len() - 1]
    }

    /// A change is about to be made.
    pub fn begin(&mut self, after: Tree) {
        self.states.push(after);
    }

    /// Nothing of the last change was done.
    pub fn undo(&mut self) {
        self.states.pop();
    }

    /// The last change is durable, and with it everything before: the journal is one sequence.
    pub fn all_durable(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// All changes of this file's content are durable.
    pub fn durable(&mut self, slot: Slot) {
        let Some(content) = self.now().get(&slot).cloned() else { return };
        let has = |tree: &Tree| tree.values().any(|other| Arc::ptr_eq(other, &content));
        let made = self.states.iter().position(has).unwrap_or(0);
        self.states.drain(..made);
    }

    /// Nobody knows whether the last change was made; this is what is there now.
    pub fn decide(&mut self, found: &Tree) -> bool {
        if self.now() == found {
            return true;
        }
        self.undo();
        !self.states.is_empty() && self.now() == found
    }

    /// After an end of the machine this is what is there. It must be one of the states that could be.
    pub fn resume(&mut self, found: Tree) -> Result<(), String> {
        if self.states.contains(&found) {
            self.states = vec![found];
            return Ok(());
        }
        let show = |tree: &Tree| {
            let lengths = tree.iter().map(|(slot, content)| format!("{slot}: {}", content.len()));
            lengths.collect::<Vec<_>>().join(", ")
        };
        let (least, most) = (&self.states[0], self.now());
        let differ = |tree: &Tree| {
            (0..SLOTS as Slot).filter(|slot| tree.get(slot) != found.get(slot)).collect::<Vec<_>>()
        };
        Err(format!(
            "files with lengths {{{}}} are none of the {} states from {{{}}} (files {:?} differ) to {{{}}} (files {:?} differ)",
            show(&found),
            self.states.len(),
            show(least),
            differ(least),
            show(most),
            differ(most),
        ))
    }
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
            account.begin(tree(1));
            account.all_durable();
            account.begin(tree(2));
            account.begin(tree(3));
            account
        };
        for byte in 1..4 {
            account().resume(tree(byte)).unwrap();
        }
        account().resume(tree(4)).unwrap_err();
        account().resume(Tree::new()).unwrap_err();
        let mut synced = account();
        synced.durable(0);
        synced.resume(tree(2)).unwrap_err();
    }
}
