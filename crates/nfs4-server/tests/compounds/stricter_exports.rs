//! Exports that allow less than before: delegations come back, and what was written under them is not lost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nfs4::bits::{sequence_status, share_access};
use nfs4::{
    CbRecallArgs, FileHandle, NfsCbArgOp, NfsCbResOp, NfsResOp, NfsStatus, OpenClaim, OpenDelegation,
    OpenHow, Outcome, StableHow, StateId,
};
use nfs4_client::operations::{commit, owner, put_handle, read, set_attributes, unchecked, write};
use nfs4_client::{Callback, Config, OpenFile, Session};
use nfs4_server::{Export, ExportOptions};
use tokio::sync::mpsc;

use crate::delegations::{give_back, make, open_handle, opened, sized};
use crate::harness::{LEASE, Running, World, home, outcome};

struct Recalls(mpsc::UnboundedSender<CbRecallArgs>);

#[async_trait]
impl Callback for Recalls {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        match operation {
            NfsCbArgOp::Recall(recall) => {
                self.0.send(recall).unwrap();
                NfsCbResOp::Recall(NfsStatus::Ok)
            }
            other => NfsCbResOp::failure(other.op_code(), NfsStatus::NotSupp),
        }
    }
}

struct Holder {
    session: Session,
    root: FileHandle,
    recalls: mpsc::UnboundedReceiver<CbRecallArgs>,
}

impl Holder {
    async fn connect(running: &Running) -> Holder {
        let (sender, recalls) = mpsc::unbounded_channel();
        let (config, callback) = (Config::new("holder", [1; 8]), Arc::new(Recalls(sender)));
        let session = Session::connect(running.address, config, Some(callback)).await.unwrap();
        let root = home(&session).await;
        Holder { session, root, recalls }
    }

    /// Opens a file, which has to be delegated.
    async fn delegated(&self, name: &str, access: u32) -> (OpenFile, StateId) {
        let file = self.session.open(&self.root, name, access, OpenHow::NoCreate, owner("o")).await.unwrap();
        let id = match &file.delegation {
            OpenDelegation::Write(given) => given.state_id,
            OpenDelegation::Read(given) => given.state_id,
            other => panic!("{other:?}"),
        };
        (file, id)
    }

    /// The status of writing these bytes.
    async fn writes(&self, file: &FileHandle, id: StateId, data: &'static str) -> NfsStatus {
        write_by(&self.session, file, id, data).await
    }
}

async fn write_by(session: &Session, file: &FileHandle, id: StateId, data: &'static str) -> NfsStatus {
    let data = Bytes::from_static(data.as_bytes());
    let request = [put_handle(file), write(id, 0, StableHow::Unstable, data), commit(0, 0)];
    outcome(session, &request).await.0
}

fn offer(world: &World, running: &Running, options: ExportOptions) {
    let home = Export::new("home", world.home.clone()).with(options);
    running.server.replace_exports(vec![home, Export::new("other", world.other.clone())]).unwrap();
}

fn read_only() -> ExportOptions {
    ExportOptions { read_only: true, ..ExportOptions::default() }
}

#[tokio::test]
async fn what_was_written_under_a_delegation_is_taken_after_the_export_became_read_only() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f", "g", "h"]).await;
    let mut holder = Holder::connect(&running).await;
    let (file, id) = holder.delegated("f", share_access::BOTH).await;
    let (other, _) = holder.delegated("g", share_access::READ).await;
    offer(&world, &running, ExportOptions { acls: true, ..ExportOptions::default() });
    offer(&world, &running, ExportOptions { acls: true, ..read_only() });
    let recall = holder.recalls.recv().await.unwrap();
    assert_eq!((recall.state_id, &recall.file_handle), (id, &file.handle));

    let f = &file.handle;
    let h = maker.lookup(&["home", "h"]).await.unwrap();
    assert_eq!(write_by(&maker, &h, StateId::ANONYMOUS, "no").await, NfsStatus::Rofs);
    assert_eq!(holder.writes(&other.handle, StateId::ANONYMOUS, "no").await, NfsStatus::Rofs);
    assert_eq!(holder.writes(f, id, "by delegation").await, NfsStatus::Ok);
    assert_eq!(holder.writes(f, file.state_id, "by open").await, NfsStatus::Ok);
    let cut = [put_handle(f), set_attributes(id, &sized(7))];
    assert_eq!(outcome(&holder.session, &cut).await, (NfsStatus::Ok, 2));

    // What is not sent by then is sent by an open that the delegation is turned into, and is to be sent soon.
    let claim = OpenClaim::DelegateCurrentFileHandle(id);
    let results =
        holder.session.execute(&[put_handle(f), open_handle(claim, share_access::BOTH)]).await.unwrap();
    let open = opened(&results).unwrap().state_id;
    assert_eq!(give_back(&holder.session, f, id).await, NfsStatus::Ok);
    assert_eq!(holder.writes(f, open, "by it, too").await, NfsStatus::Ok);
    assert_eq!(holder.writes(f, StateId::ANONYMOUS, "no").await, NfsStatus::Rofs);
    let looks = [put_handle(f), read(StateId::ANONYMOUS, 0, 99)];
    let results = maker.execute(&looks).await.unwrap();
    let Some(NfsResOp::Read(Outcome::Ok(seen))) = results.last() else { panic!("{results:?}") };
    assert_eq!(seen.data.clone().into_bytes(), "by it, too");
    world.clock.advance(LEASE);
    assert_eq!(holder.writes(f, open, "late").await, NfsStatus::Rofs);
    assert!(holder.recalls.try_recv().is_err(), "who reads may go on");
    running.stop().await;
}

#[tokio::test]
async fn every_delegation_of_an_export_that_some_may_not_use_any_more_is_recalled_and_revoked() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f", "g"]).await;
    let mut holder = Holder::connect(&running).await;
    let (file, writing) = holder.delegated("f", share_access::BOTH).await;
    let (_, reading) = holder.delegated("g", share_access::READ).await;
    let networks = vec!["10.0.0.0/8".parse().unwrap()];
    offer(&world, &running, ExportOptions { networks, ..ExportOptions::default() });
    let recalled = [holder.recalls.recv().await.unwrap(), holder.recalls.recv().await.unwrap()];
    for id in [writing, reading] {
        assert!(recalled.iter().any(|recall| recall.state_id == id), "{recalled:?}");
    }
    let request = [put_handle(&file.handle)];
    assert_eq!(outcome(&holder.session, &request).await.0, NfsStatus::Stale);
    world.clock.advance(LEASE / 2 + Duration::from_secs(1));
    let flags = holder.session.renew().await.unwrap();
    assert_eq!(flags & sequence_status::RECALLABLE_STATE_REVOKED, 0);
    world.clock.advance(LEASE / 2 + Duration::from_secs(1));
    while running.server.metrics().counts.delegations_revoked < 2 {
        tokio::task::yield_now().await;
    }
    let flags = holder.session.renew().await.unwrap();
    assert_ne!(flags & sequence_status::RECALLABLE_STATE_REVOKED, 0);
    running.stop().await;
}

/// It was begun under the former exports, and is not recalled any more.
#[tokio::test]
async fn nothing_is_delegated_by_a_request_that_met_other_exports() {
    let world = World::new().await;
    let running = world.start().await;
    let holder = Holder::connect(&running).await;
    let gate = world.home.hold_next_open();
    let made = holder.session.open(&holder.root, "new", share_access::BOTH, unchecked(0o644), owner("o"));
    let (made, ()) = tokio::join!(made, async {
        gate.reached.notified().await;
        offer(&world, &running, read_only());
        gate.open.notify_one();
    });
    let given = made.unwrap().delegation;
    assert!(matches!(given, OpenDelegation::None | OpenDelegation::NoneExt(_)), "{given:?}");
    offer(&world, &running, ExportOptions::default());
    holder.delegated("new", share_access::BOTH | share_access::WANT_WRITE_DELEG).await;
    running.stop().await;
}
