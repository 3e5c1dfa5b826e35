//! Delegations that the server wants back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nfs4::bits::share_access;
use nfs4::{NfsCbArgOp, NfsCbResOp, NfsStatus, OpenDelegation, OpenHow};
use nfs4_client::Callback;
use nfs4_client::operations::{owner, unchecked};
use tokio::sync::mpsc;

use crate::world::{LEASE, World, home, until};

struct Recalls(mpsc::UnboundedSender<NfsCbArgOp>);

#[async_trait]
impl Callback for Recalls {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        let result = match operation {
            NfsCbArgOp::Recall(_) => NfsCbResOp::Recall(NfsStatus::Ok),
            _ => NfsCbResOp::failure(operation.op_code(), NfsStatus::NotSupp),
        };
        self.0.send(operation).unwrap();
        result
    }
}

const READ: u32 = share_access::READ | share_access::WANT_READ_DELEG;
const WRITE: u32 = share_access::WRITE | share_access::WANT_NO_DELEG;

#[tokio::test]
async fn a_recalled_delegation_is_given_back_also_after_reconnects_and_restarts() {
    let mut world = World::new().await;
    let (sender, mut recalls) = mpsc::unbounded_channel();
    let client = world.connect_with(world.options(), Arc::new(Recalls(sender))).await;
    let other = world.client().await;
    let home = home(&client).await;
    for round in 0..3 {
        let name = format!("{round}");
        let made = client.open_file(&home, name.clone(), WRITE, unchecked(0o666), owner("o")).await.unwrap();
        client.close_file(&made).await.unwrap();
        let open = client.open_file(&home, name.clone(), READ, OpenHow::NoCreate, owner("o")).await.unwrap();
        assert!(matches!(open.delegation(), OpenDelegation::Read(_)), "{round}: {:?}", open.delegation());
        match round {
            1 => world.proxy.cut_all(),
            2 => world.restart().await,
            _ => {}
        }
        until(|| client.connections() == 1).await;
        let writing = other.open_file(&home, name, WRITE, OpenHow::NoCreate, owner("w"));
        let returning = async {
            let Some(NfsCbArgOp::Recall(recall)) = recalls.recv().await else { panic!("no recall") };
            assert_eq!(recall.file_handle, *open.handle());
            client.return_delegation(&open).await.unwrap();
        };
        // The server makes a pause before it calls once more.
        let ticking = async {
            loop {
                world.clock.advance(Duration::from_millis(50));
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            }
        };
        let writer = tokio::select! {
            (writer, ()) = async { tokio::join!(writing, returning) } => writer.unwrap(),
            () = ticking => unreachable!("it never ends"),
        };
        other.close_file(&writer).await.unwrap();
        client.close_file(&open).await.unwrap();
    }
}

#[tokio::test]
async fn a_delegation_that_was_not_given_back_is_revoked_and_freed() {
    let world = World::new().await;
    let (sender, mut recalls) = mpsc::unbounded_channel();
    let client = world.connect_with(world.options(), Arc::new(Recalls(sender))).await;
    let other = world.client().await;
    let home = home(&client).await;
    let made = client.open_file(&home, "f", WRITE, unchecked(0o666), owner("o")).await.unwrap();
    client.close_file(&made).await.unwrap();
    let open = client.open_file(&home, "f", READ, OpenHow::NoCreate, owner("o")).await.unwrap();
    let before = open.delegation();
    let writing = other.open_file(&home, "f", WRITE, OpenHow::NoCreate, owner("w"));
    let ignoring = async {
        recalls.recv().await.unwrap();
        world.clock.advance(LEASE / 2);
        client.compound(&[]).await.unwrap();
        world.clock.advance(LEASE / 2 + Duration::from_secs(5));
        // As soon as the server has noticed, it says so.
        while open.delegation() != OpenDelegation::None {
            client.compound(&[]).await.unwrap();
        }
    };
    let (writer, ()) = tokio::join!(writing, ignoring);
    writer.unwrap();
    assert!(matches!(before, OpenDelegation::Read(_)));
    assert!(open.lost().is_none(), "the open is still good");
    client.close_file(&open).await.unwrap();
}
