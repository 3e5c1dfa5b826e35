//! Where a compound is in the tree, and the cheapest way from there (V29, kurma.md §3.8).

use bytes::Bytes;
use nfs4::{FileHandle, NfsArgOp};
use nfs4_client::operations::{lookup, put_handle};

use crate::path::Part;

/// Where a path begins, for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The root of the server.
    Root,
    /// This object.
    Handle(FileHandle),
}

impl Start {
    pub fn operation(&self) -> NfsArgOp {
        match self {
            Start::Root => NfsArgOp::PutRootFh,
            Start::Handle(handle) => put_handle(handle),
        }
    }
}

/// An object by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub start: Start,
    pub parts: Vec<Part>,
}

impl Place {
    /// Without `..`, so that equal paths are equal places and others are not.
    fn is_regular(&self) -> bool {
        !self.parts.contains(&Part::Parent)
    }

    /// How many steps two places share; `None` if they begin elsewhere or are not to be compared.
    fn shared(&self, other: &Place) -> Option<usize> {
        let comparable = self.start == other.start && self.is_regular() && other.is_regular();
        comparable.then(|| self.parts.iter().zip(&other.parts).take_while(|(a, b)| a == b).count())
    }

    /// The directory it is in, and its name there; `None` without a name at the end.
    pub fn split(&self) -> Option<(Place, Bytes)> {
        match self.parts.split_last() {
            Some((Part::Name(name), parents)) => {
                let parent = Place { start: self.start.clone(), parts: parents.to_vec() };
                Some((parent, name.clone()))
            }
            _ => None,
        }
    }

    pub fn child(&self, name: &Bytes) -> Place {
        let mut child = self.clone();
        child.parts.push(Part::Name(name.clone()));
        child
    }
}

/// The step along one part.
pub(super) fn down(part: &Part) -> NfsArgOp {
    match part {
        Part::Name(name) => lookup(name.clone()),
        Part::Parent => NfsArgOp::LookupParent,
    }
}

/// The current and the saved filehandle of a compound, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(super) struct Position {
    /// The directory that the current filehandle is.
    current: Option<Place>,
    /// The directory that the saved filehandle is.
    saved: Option<Place>,
}

/// Where a way begins, and how many directories up it goes first.
enum Way {
    Start,
    Current { up: usize },
    Saved { up: usize },
}

impl Position {
    /// The operations after which the current filehandle is this directory. Whoever comes next wants to be in
    /// `next`, a list of directories of which two are enough: a SAVEFH is put in if it saves more than it costs.
    pub fn go(&mut self, to: &Place, next: &[Place]) -> Vec<NfsArgOp> {
        let mut hops = Vec::new();
        let from_start = 1 + to.parts.len();
        let (mut way, mut cost, mut common) = (Way::Start, from_start, 0);
        if let Some((saved, shared)) = self.saved.as_ref().and_then(|it| Some((it, it.shared(to)?))) {
            let up = saved.parts.len() - shared;
            let there = 1 + up + to.parts.len() - shared;
            if there < cost {
                (way, cost, common) = (Way::Saved { up }, there, shared);
            }
        }
        if let Some((current, shared)) = self.current.as_ref().and_then(|it| Some((it, it.shared(to)?))) {
            let up = current.parts.len() - shared;
            let there = up + to.parts.len() - shared;
            if there <= cost {
                (way, common) = (Way::Current { up }, shared);
            }
        }
        let up = match way {
            Way::Start => {
                hops.push(to.start.operation());
                0
            }
            Way::Saved { up } => {
                hops.push(NfsArgOp::RestoreFh);
                up
            }
            Way::Current { up } => up,
        };
        hops.extend((0..up).map(|_| NfsArgOp::LookupParent));
        let save_at = self.worth_saving(to, next, common);
        let mut here = Place { start: to.start.clone(), parts: to.parts[..common].to_vec() };
        for depth in common..=to.parts.len() {
            if save_at == Some(depth) {
                hops.push(NfsArgOp::SaveFh);
                self.saved = Some(here.clone());
            }
            let Some(part) = to.parts.get(depth) else { break };
            hops.push(down(part));
            here.parts.push(part.clone());
        }
        self.current = to.is_regular().then(|| to.clone());
        hops
    }

    /// How deep on the way to `to` a SAVEFH pays off, walking down from depth `common`.
    fn worth_saving(&self, to: &Place, next: &[Place], common: usize) -> Option<usize> {
        let depth = to.shared(next.first()?)?;
        let followers =
            next.iter().take_while(|place| to.shared(place).is_some_and(|it| it >= depth)).count();
        let kept = self.saved.as_ref().and_then(|saved| saved.shared(to).map(|it| (saved.parts.len(), it)));
        let already =
            kept.is_some_and(|(length, shared)| length == shared && shared >= depth && length <= depth);
        (!already && depth >= common && depth * followers > 1).then_some(depth)
    }

    /// Whether the saved filehandle is this directory.
    pub fn has_saved(&self, place: &Place) -> bool {
        self.saved.as_ref() == Some(place)
    }

    /// Whether the current filehandle is this directory.
    pub fn is_at(&self, place: &Place) -> bool {
        self.current.as_ref() == Some(place)
    }

    /// SAVEFH was put in by hand.
    pub fn saved_current(&mut self) {
        self.saved = self.current.clone();
    }

    /// The current filehandle has become this directory, or, with `None`, something that is none.
    pub fn arrived(&mut self, at: Option<Place>) {
        self.current = at.filter(Place::is_regular);
    }

    /// SAVEFH was put in by hand where the current filehandle is no directory.
    pub fn saved_other(&mut self) {
        self.saved = None;
    }

    /// This name, and what is below, may mean something else from now on.
    pub fn forget(&mut self, name: &Place) {
        let doubtful = |place: &Option<Place>| {
            place.as_ref().is_some_and(|place| place.shared(name).is_none_or(|it| it == name.parts.len()))
        };
        if doubtful(&self.current) {
            self.current = None;
        }
        if doubtful(&self.saved) {
            self.saved = None;
        }
    }

    /// Both filehandles are something else.
    pub fn forget_paths(&mut self) {
        self.current = None;
        self.saved = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn place(path: &str) -> Place {
        let parts = crate::path::parts(&Bytes::copy_from_slice(path.as_bytes()), true);
        Place { start: Start::Root, parts }
    }

    /// What the operations lead to, in a tree in which everything exists.
    #[derive(Default)]
    struct Walker {
        current: Option<Vec<Part>>,
        saved: Option<Vec<Part>>,
    }

    impl Walker {
        fn walk(&mut self, operations: &[NfsArgOp]) {
            for operation in operations {
                match operation {
                    NfsArgOp::PutRootFh => self.current = Some(Vec::new()),
                    NfsArgOp::SaveFh => self.saved = Some(self.current.clone().unwrap()),
                    NfsArgOp::RestoreFh => self.current = Some(self.saved.clone().unwrap()),
                    NfsArgOp::LookupParent => drop(self.current.as_mut().unwrap().pop().unwrap()),
                    NfsArgOp::Lookup(lookup) => {
                        self.current.as_mut().unwrap().push(Part::Name(lookup.name.0.clone()));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn a_cousin_is_reached_from_the_root_and_a_brother_from_his_brother() {
        let mut position = Position::default();
        assert_eq!(position.go(&place("/1/a/b"), &[]).len(), 4);
        // `../../c/d` would be no shorter than the way from the root.
        assert_eq!(position.go(&place("/1/c/d"), &[]).len(), 4);
        assert_eq!(position.go(&place("/1/c/e"), &[]).len(), 2);
        assert_eq!(position.go(&place("/1/c/e"), &[]).len(), 0);
    }

    #[test]
    fn a_directory_is_saved_if_two_others_need_it_or_if_it_is_deep() {
        let mut position = Position::default();
        let (shallow, deep) = (place("/1"), place("/1/2"));
        let saves = |operations: &[NfsArgOp]| operations.contains(&NfsArgOp::SaveFh);
        assert!(!saves(&position.go(&shallow, std::slice::from_ref(&shallow))));
        position.arrived(None);
        assert!(saves(&position.go(&shallow, &[shallow.clone(), shallow.clone()])));
        position.arrived(None);
        assert_eq!(position.go(&shallow, std::slice::from_ref(&shallow)), [NfsArgOp::RestoreFh]);
        let mut position = Position::default();
        assert!(saves(&position.go(&deep, std::slice::from_ref(&deep))));
    }

    proptest! {
        /// Whatever the order of directories, and whether each is left by a file or not.
        #[test]
        fn every_way_leads_there_and_none_is_longer_than_from_the_root(
            steps in vec((vec("[ab]", 0..5), any::<bool>()), 1..20)
        ) {
            let places: Vec<Place> = steps.iter().map(|(names, _)| place(&names.join("/"))).collect();
            let (mut position, mut walker) = (Position::default(), Walker::default());
            let (mut operations, mut naive) = (0, 0);
            for (index, (_, leaves)) in steps.iter().enumerate() {
                let next = if *leaves { &places[index + 1..places.len().min(index + 3)] } else { &[] };
                let way = position.go(&places[index], next);
                walker.walk(&way);
                prop_assert_eq!(walker.current.as_ref(), Some(&places[index].parts));
                operations += way.len();
                naive += 1 + places[index].parts.len();
                if *leaves {
                    position.arrived(None);
                    walker.current = None;
                }
            }
            prop_assert!(operations <= naive, "{operations} instead of {naive}");
        }
    }
}
