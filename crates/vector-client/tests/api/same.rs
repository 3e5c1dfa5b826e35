//! The same vectors over NFS and on this machine: the same results, the same failures, the same tree at the end.
//!
//! What may differ is what the documentation of [`Client::local`] says, and is made equal here.

mod script;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nfs4_server::Limits;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tokio::runtime::Runtime;
use vector_client::{
    AttributeSet, Attributes, Client, Descriptor, Done, Entry, Failure, Kind, Read, Step, Target,
};

use crate::world::World;
use script::{HOME, Part, Script, script, start, substituted};

/// What both must agree on.
const WANTED: AttributeSet = AttributeSet::KIND
    .with(AttributeSet::MODE)
    .with(AttributeSet::SIZE)
    .with(AttributeSet::OWNER)
    .with(AttributeSet::GROUP)
    .with(AttributeSet::LINKS)
    .with(AttributeSet::FILE_ID);

/// A client, and the files that were opened with it.
struct Player {
    world: World,
    opened: Vec<Descriptor>,
    /// Whether a step failed that may have done a part of what it had to.
    half_done: bool,
}

impl Player {
    async fn new(world: World) -> Player {
        let mut player = Player { world, opened: Vec::new(), half_done: false };
        for part in start() {
            let told = player.play(&part).await;
            assert!(!told.contains("failed"), "{told}");
        }
        player
    }

    fn client(&self) -> &Client {
        &self.world.client
    }

    /// Does it, and tells what came of it.
    async fn play(&mut self, part: &Part) -> String {
        match part {
            Part::Vector(steps) => {
                let steps: Vec<Step> = steps.iter().map(|step| substituted(step, &self.opened)).collect();
                let (done, failure) = match self.client().execute(steps.clone()).await {
                    Ok(done) => (done, None),
                    Err(Failure { done, error, unknown }) => {
                        let index = done.len();
                        self.half_done |= has_parts(&steps[index]);
                        let why = reason(&steps[index], error.errno());
                        (done, Some(format!("{index} failed: {why}, {unknown} unknown")))
                    }
                };
                self.opened.extend(done.iter().filter_map(|done| match done {
                    Done::Opened(descriptor) => Some(*descriptor),
                    _ => None,
                }));
                let told: Vec<String> =
                    done.into_iter().zip(&steps).map(|(done, step)| tell(done, step)).collect();
                format!("{told:?} {failure:?}")
            }
            Part::List(path) => match self.client().list(path, AttributeSet::KIND).await {
                Ok(mut entries) => {
                    entries.sort_by(|one, other| one.name.cmp(&other.name));
                    format!("{entries:?}")
                }
                Err(error) => format!("failed: {}", error.errno()),
            },
        }
    }

    /// Everything that there is, wherever a `..` has taken it, and nothing that is open.
    async fn end(mut self) -> BTreeMap<String, String> {
        for descriptor in std::mem::take(&mut self.opened) {
            let _ = self.client().vclose(vec![descriptor]).await;
        }
        let mut entries: Vec<(Target, Entry)> = Vec::new();
        self.client()
            .vlistdir(vec![Target::from(HOME)], WANTED, true, |directory, entry| {
                entries.push((directory.join(&entry.name), entry.clone()));
            })
            .await
            .unwrap();
        entries.sort_by_key(|(target, _)| target.to_string());
        let (mut tree, mut files) = (BTreeMap::new(), Vec::new());
        for (target, entry) in entries {
            let content = match entry.attributes.kind {
                Some(Kind::File) => {
                    let data = self.client().vread(vec![Read::new(&target, 0, 1 << 20)]).await;
                    format!("{:?}", data.unwrap().remove(0).into_bytes())
                }
                Some(Kind::SymbolicLink) => {
                    format!("{:?}", self.client().vreadlink(vec![target.clone()]).await.unwrap())
                }
                _ => String::new(),
            };
            // Names of one file are names of one file on both.
            let id = entry.attributes.file_id;
            let number = files.iter().position(|known| *known == id).unwrap_or_else(|| {
                files.push(id);
                files.len() - 1
            });
            tree.insert(target.to_string(), format!("{number} {:?} {content}", alike(entry.attributes)));
        }
        // A server lets a client go only when it holds nothing open (RFC 8881 §18.50).
        self.client().close().await.unwrap();
        tree
    }
}

/// Sizes and links of directories are what each file system takes them for.
fn alike(mut attributes: Attributes) -> Attributes {
    attributes.file_id = None;
    if attributes.is(Kind::Directory) {
        (attributes.size, attributes.links) = (None, None);
    }
    attributes
}

fn tell(done: Done, step: &Step) -> String {
    match done {
        Done::Opened(_) => "opened".to_owned(),
        Done::Attributes(attributes) => format!("{:?}", alike(*attributes)),
        Done::Read(data) => {
            let end = data.end_of_file;
            format!("read {:?}, end: {end}", data.into_bytes())
        }
        done => format!("{done:?} of {}", kind_of(step)),
    }
}

/// Whether it does one thing after the other, as creating a file and writing it.
fn has_parts(step: &Step) -> bool {
    matches!(step, Step::Write(_) | Step::Copy(_) | Step::Open(_) | Step::SetAttributes { .. })
}

fn kind_of(step: &Step) -> String {
    let text = format!("{step:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}

/// What two paths may each forbid is forbidden for either reason: by whom the step is done decides which path is looked at first.
fn reason(step: &Step, errno: i32) -> String {
    match step {
        Step::Copy(_) | Step::HardLink { .. } | Step::Rename { .. } if PATHS.contains(&errno) => {
            format!("{} not done", kind_of(step))
        }
        _ => format!("{} {errno}", kind_of(step)),
    }
}

/// What can be wrong with a path: EPERM, ENOENT, EEXIST, ENOTDIR, EISDIR, EINVAL, ENOTEMPTY, ELOOP.
const PATHS: [i32; 8] = [1, 2, 17, 20, 21, 22, 39, 40];

pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

async fn compare(script: Script) {
    let limits = Limits { operations: script.operations, ..Limits::default() };
    let nfs = World::with(limits, |options| {
        (options.transfer, options.extensions) = (script.transfer, script.extensions);
        (options.atomic, options.cache_bytes) = (script.atomic, script.cache_bytes);
    });
    let nfs = nfs.await;
    let (mut nfs, mut local) = (Player::new(nfs).await, Player::new(World::local()).await);
    for (index, part) in script.parts.iter().enumerate() {
        let (over_nfs, here) = (nfs.play(part).await, local.play(part).await);
        assert_eq!(over_nfs, here, "NFS left, this machine right, part {index}: {part:#?}");
        if script.atomic && local.half_done {
            // Only here; the server has done nothing of it.
            return;
        }
    }
    assert_eq!(nfs.end().await, local.end().await, "the trees at the end: NFS left, this machine right");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        max_shrink_iters: 4000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/api/same/failures.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_sequence_of_vectors_does_the_same_over_nfs_and_on_this_machine(script in script()) {
        runtime().block_on(compare(script));
    }
}
