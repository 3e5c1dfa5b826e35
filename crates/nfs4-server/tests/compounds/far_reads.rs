//! Reads that take long wait at the same time, and the compound is as if they had not (`V43`, `T13`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{FileHandle, NfsArgOp, NfsResOp, OpenHow, Outcome, StableHow, StateId};
use nfs4_client::Session;
use nfs4_client::operations::{self as op, put_handle};

use crate::conflicting::Turnstile;
use crate::harness::{Running, World, home};

const FILES: usize = 20;

/// Files named by number, of which each holds its name.
struct Scene {
    world: World,
    running: Running,
    session: Session,
    root: FileHandle,
}

impl Scene {
    async fn new() -> Scene {
        let world = World::new().await;
        let running = world.start().await;
        let session = running.client("a").await;
        let root = home(&session).await;
        for name in names() {
            let text = Bytes::from(name.clone());
            let make = [
                put_handle(&root),
                op::open(name.as_str(), share_access::BOTH, op::guarded(0o644), op::owner("o")),
                op::write(StateId::CURRENT, 0, StableHow::FileSync, text),
                op::close(StateId::CURRENT),
            ];
            session.execute(&make).await.unwrap();
        }
        Scene { world, running, session, root }
    }

    fn read(&self, name: &str) -> [NfsArgOp; 4] {
        [
            put_handle(&self.root),
            op::open(name, share_access::READ, OpenHow::NoCreate, op::owner("o")),
            op::read(StateId::CURRENT, 0, 1 << 20),
            op::close(StateId::CURRENT),
        ]
    }

    /// Sends it while reads are held up; the clock is moved as soon as the first has begun.
    async fn send(&self, operations: Vec<NfsArgOp>, others: usize) -> Vec<Bytes> {
        let reads: Arc<Turnstile> = self.world.home.hold_reads();
        let answered = self.session.execute(&operations);
        let meanwhile = async {
            reads.arrival().await;
            self.world.clock.advance(Duration::from_millis(1));
            for _ in 0..others {
                reads.arrival().await;
            }
            reads.open();
        };
        let (results, ()) = tokio::join!(answered, meanwhile);
        results.unwrap().into_iter().filter_map(data).collect()
    }
}

fn names() -> impl Iterator<Item = String> {
    (0..FILES).map(|number| number.to_string())
}

fn data(result: NfsResOp) -> Option<Bytes> {
    match result {
        NfsResOp::Read(Outcome::Ok(read)) => Some(read.data.into_bytes()),
        _ => None,
    }
}

#[tokio::test]
async fn the_reads_of_a_compound_wait_at_the_same_time() {
    let scene = Scene::new().await;
    let reads: Vec<NfsArgOp> = names().flat_map(|name| scene.read(&name)).collect();
    for head in [vec![], vec![super::atomic::scene::atomic()]] {
        let got = scene.send([head, reads.clone()].concat(), FILES).await;
        assert_eq!(got, names().collect::<Vec<_>>());
    }
    assert_eq!(scene.running.server.metrics().census.opens, 0);
    scene.running.stop().await;
}

#[tokio::test]
async fn what_the_compound_itself_has_changed_is_read_as_changed() {
    let scene = Scene::new().await;
    let write = [
        put_handle(&scene.root),
        op::open("3", share_access::BOTH, OpenHow::NoCreate, op::owner("o")),
        op::write(StateId::CURRENT, 0, StableHow::FileSync, Bytes::from_static(b"new")),
        op::close(StateId::CURRENT),
        put_handle(&scene.root),
        NfsArgOp::SaveFh,
        op::rename("5", "renamed"),
        op::remove("4"),
    ];
    let reads = ["0", "3", "renamed", "4", "1"].map(|name| scene.read(name)).concat();
    let request = [&write[..], &reads].concat();
    // There is no "4" to be read.
    let (held, answered) = (scene.world.home.hold_reads(), scene.session.compound(&request));
    let meanwhile = async {
        held.arrival().await;
        scene.world.clock.advance(Duration::from_millis(1));
        // As they were before: the old "3", and what is to be called "renamed".
        for _ in ["0", "3", "renamed", "1"] {
            held.arrival().await;
        }
        held.open();
    };
    let (reply, ()) = tokio::join!(answered, meanwhile);
    let reply = reply.unwrap();
    assert_eq!(reply.status, nfs4::NfsStatus::NoEnt);
    assert_eq!(reply.results.into_iter().filter_map(data).collect::<Vec<_>>(), ["0", "new", "5"]);
    scene.running.stop().await;
}

#[tokio::test]
async fn a_read_that_nothing_follows_is_done_once() {
    let scene = Scene::new().await;
    let file = scene.session.lookup_in(&scene.root, &["7"]).await.unwrap();
    let request = [put_handle(&file), op::read(StateId::ANONYMOUS, 0, 100)];
    let held = scene.world.home.hold_reads();
    let answered = scene.session.execute(&request);
    let meanwhile = async {
        held.arrival().await;
        scene.world.clock.advance(Duration::from_secs(1));
        held.let_through(1);
    };
    let (results, ()) = tokio::join!(answered, meanwhile);
    assert_eq!(results.unwrap().into_iter().find_map(data).unwrap(), "7");
    scene.running.stop().await;
}
