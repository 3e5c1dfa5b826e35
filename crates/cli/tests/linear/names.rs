//! A directory: which name leads to which file. Made exclusively, renamed over each other, linked, removed, looked up.

use std::sync::Arc;

use async_trait::async_trait;
use linearizable::Model;
use nfs4::bits::share_access;
use nfs4::{
    Attribute, AttributeValues, Bitmap, CreateHow, FileHandle, LinkArgs, NfsArgOp, NfsResOp, NfsStatus,
    OpenHow, Outcome, StateId, Verifier,
};
use nfs4_client::operations::{self, get_attributes, lookup, put_handle};
use nfs4_client::{Client, ClientError};

use crate::contest::{Contender, Expects};
use crate::support::{self, Random};
use crate::world::{World, unless_lost};

const NAMES: usize = 4;
const CLIENTS: usize = 5;

/// Which file: its size, as its maker can choose that, and knows it even if no answer comes. 0 is none.
type FileNumber = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// With GUARDED4 or EXCLUSIVE4_1.
    Create {
        name: usize,
        file: FileNumber,
        exclusive: bool,
    },
    Remove(usize),
    Rename(usize, usize),
    Link(usize, usize),
    Lookup(usize),
    List,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Done,
    NotFound,
    Exists,
    Found { file: FileNumber, links: usize },
    Listed([FileNumber; NAMES]),
}

#[derive(Clone)]
pub struct Folder;

impl Folder {
    fn ask(names: &[FileNumber; NAMES], call: &Call) -> (Answer, [FileNumber; NAMES]) {
        let mut after = *names;
        let answer = match *call {
            Call::Create { name, .. } if names[name] != 0 => Answer::Exists,
            Call::Create { name, file, .. } => {
                after[name] = file;
                Answer::Done
            }
            Call::Remove(name) | Call::Rename(name, _) | Call::Link(name, _) | Call::Lookup(name)
                if names[name] == 0 =>
            {
                Answer::NotFound
            }
            Call::Remove(name) => {
                after[name] = 0;
                Answer::Done
            }
            Call::Rename(from, to) => {
                // Two names of one file stay as they are (RFC 8881 §18.26.3).
                if names[from] != names[to] {
                    after[to] = names[from];
                    after[from] = 0;
                }
                Answer::Done
            }
            Call::Link(_, to) if names[to] != 0 => Answer::Exists,
            Call::Link(from, to) => {
                after[to] = names[from];
                Answer::Done
            }
            Call::Lookup(name) => {
                let file = names[name];
                Answer::Found { file, links: names.iter().filter(|other| **other == file).count() }
            }
            Call::List => Answer::Listed(*names),
        };
        (answer, after)
    }
}

impl Model for Folder {
    type State = [FileNumber; NAMES];
    type Call = Call;
    type Answer = Answer;

    fn start(&self) -> Self::State {
        [0; NAMES]
    }

    fn step(&self, state: &Self::State, call: &Call, answer: Option<&Answer>) -> Option<Self::State> {
        let (right, after) = Folder::ask(state, call);
        answer.is_none_or(|answer| *answer == right).then_some(after)
    }

    fn only_looks(&self, _: &Call, answer: &Answer) -> bool {
        *answer != Answer::Done
    }
}

impl Expects for Folder {
    const EXPECTED: &'static [(&'static str, &'static str)] = &[
        ("Create", "Done"),
        ("Create", "Exists"),
        ("Remove", "Done"),
        ("Remove", "NotFound"),
        ("Rename", "Done"),
        ("Rename", "NotFound"),
        ("Link", "Done"),
        ("Link", "Exists"),
        ("Lookup", "Found"),
        ("Lookup", "NotFound"),
        ("List", "Listed"),
    ];
}

pub struct FolderClient {
    client: Client,
    folder: FileHandle,
    number: usize,
    made: u64,
}

/// The clients, in a new directory of this name.
pub async fn clients(world: &Arc<World>, maker: &support::Client, path: &str) -> Vec<FolderClient> {
    maker.make_directory(path).await;
    let folder = maker.find(path).await.unwrap();
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let client = world.connect(&format!("{path}, client {number}")).await;
        clients.push(FolderClient { client, folder: folder.clone(), number, made: 0 });
    }
    clients
}

fn text(name: usize) -> String {
    format!("name{name}")
}

fn wanted() -> Bitmap {
    Attribute::set(&[Attribute::Size, Attribute::Numlinks])
}

fn values(attributes: &nfs4::Fattr) -> (FileNumber, usize) {
    let values = attributes.values().unwrap();
    (values.size.unwrap(), values.numlinks.unwrap() as usize)
}

#[async_trait]
impl Contender for FolderClient {
    type Model = Folder;

    fn choose(&mut self, random: &mut Random) -> Call {
        let mut name = || random.below(NAMES as u64) as usize;
        let (first, second) = (name(), name());
        match random.below(12) {
            0..3 => {
                self.made += 1;
                let file = self.made * CLIENTS as u64 + self.number as u64;
                Call::Create { name: first, file, exclusive: random.percent(50) }
            }
            3..5 => Call::Remove(first),
            5..7 => Call::Rename(first, second),
            7 => Call::Link(first, second),
            8..11 => Call::Lookup(first),
            _ => Call::List,
        }
    }

    async fn ask(&mut self, call: &Call) -> Option<Answer> {
        let folder = put_handle(&self.folder);
        let request = match *call {
            Call::Create { name, file, exclusive } => {
                let attributes =
                    AttributeValues { mode: Some(0o644), size: Some(file), ..AttributeValues::default() };
                let attributes = attributes.to_fattr();
                let how = if exclusive {
                    CreateHow::Exclusive41 { verifier: Verifier(file.to_le_bytes()), attributes }
                } else {
                    CreateHow::Guarded(attributes)
                };
                let access = share_access::BOTH | share_access::WANT_NO_DELEG;
                let owner = operations::owner(format!("opener {}", self.number));
                let open = operations::open(text(name), access, OpenHow::Create(how), owner);
                vec![folder, open, operations::close(StateId::CURRENT)]
            }
            Call::Remove(name) => vec![folder, operations::remove(text(name))],
            Call::Rename(from, to) => {
                vec![folder, NfsArgOp::SaveFh, operations::rename(text(from), text(to))]
            }
            Call::Link(from, to) => {
                let link = NfsArgOp::Link(LinkArgs { new_name: text(to).into() });
                vec![folder.clone(), lookup(text(from)), NfsArgOp::SaveFh, folder, link]
            }
            Call::Lookup(name) => vec![folder, lookup(text(name)), get_attributes(wanted())],
            Call::List => {
                vec![folder, operations::read_directory(0, Verifier::default(), 4096, wanted())]
            }
        };
        let reply = unless_lost(self.client.compound(&request).await)?.unwrap();
        let results = match reply.into_results() {
            Ok(results) => results,
            Err(ClientError::Operation { status: NfsStatus::NoEnt, .. }) => return Some(Answer::NotFound),
            Err(ClientError::Operation { status: NfsStatus::Exist, .. }) => return Some(Answer::Exists),
            Err(error) => panic!("{call:?}: {error}"),
        };
        Some(match results.last() {
            Some(NfsResOp::GetAttr(Outcome::Ok(attributes))) => {
                let (file, links) = values(attributes);
                Answer::Found { file, links }
            }
            Some(NfsResOp::ReadDir(Outcome::Ok(page))) => {
                assert!(page.eof);
                let mut names = [0; NAMES];
                for entry in &page.entries {
                    let name = (0..NAMES).find(|name| entry.name.as_str().unwrap() == text(*name)).unwrap();
                    names[name] = values(&entry.attributes).0;
                }
                Answer::Listed(names)
            }
            _ => Answer::Done,
        })
    }
}

mod tests {
    use super::*;
    use crate::contest::tests::{one_after_the_other, violates};

    const MAKE: Call = Call::Create { name: 0, file: 7, exclusive: true };

    #[test]
    fn two_who_make_the_same_name_are_found() {
        let other = Call::Create { name: 0, file: 8, exclusive: true };
        violates(&Folder, one_after_the_other([(MAKE, Answer::Done), (other, Answer::Done)]), 1);
    }

    #[test]
    fn a_removed_file_that_is_seen_is_found() {
        let seen = Answer::Found { file: 7, links: 1 };
        let history = [(MAKE, Answer::Done), (Call::Remove(0), Answer::Done), (Call::Lookup(0), seen)];
        violates(&Folder, one_after_the_other(history), 2);
    }

    #[test]
    fn a_renamed_file_with_both_names_is_found() {
        let history = [
            (MAKE, Answer::Done),
            (Call::Rename(0, 1), Answer::Done),
            (Call::List, Answer::Listed([7, 7, 0, 0])),
        ];
        violates(&Folder, one_after_the_other(history), 2);
    }

    #[test]
    fn a_link_that_does_not_count_is_found() {
        let seen = Answer::Found { file: 7, links: 1 };
        let history = [(MAKE, Answer::Done), (Call::Link(0, 1), Answer::Done), (Call::Lookup(1), seen)];
        violates(&Folder, one_after_the_other(history), 2);
    }
}
