//! Delegations of 4.0 (RFC 7530 §10.4): as later, but that nobody says whose a request is, and what he wants.

use std::time::Duration;

use bytes::Bytes;
use nfs4::bits::{open_result, share_access};
use nfs4::{
    Attribute, DelegReturnArgs, DelegationType, FileHandle, NfsArgOp, NfsResOp, NfsStatus, OpenArgs,
    OpenClaim, OpenDelegation, OpenHow, OpenOk, Outcome, RenewArgs, StableHow, StateId,
};
use nfs4_client::operations::{get_attributes, put_handle, read, remove, set_attributes, write};

use super::back::Back;
use super::old::Old;
use crate::delegations::{make, opening, sized};
use crate::harness::{LEASE, Running, World, home, outcome};

pub fn state_id(delegation: &OpenDelegation) -> StateId {
    match delegation {
        OpenDelegation::Read(read) => read.state_id,
        OpenDelegation::Write(write) => write.state_id,
        other => panic!("{other:?} is no delegation"),
    }
}

fn is_for_writing(delegation: &OpenDelegation) -> bool {
    matches!(delegation, OpenDelegation::Write(_))
}

impl Old {
    /// Opens a file that there is. The owner is confirmed afterwards.
    pub async fn open_there(&mut self, root: &FileHandle, name: &str, access: u32) -> (FileHandle, OpenOk) {
        let args = OpenArgs { how: OpenHow::NoCreate, ..self.open_args(name, access, 0) };
        self.open(root, args).await.unwrap()
    }

    /// Opens it as often as it takes until it is delegated, and closes it.
    pub async fn delegated(
        &mut self,
        root: &FileHandle,
        name: &str,
        access: u32,
    ) -> (FileHandle, OpenDelegation) {
        loop {
            let (file, opened) = self.open_there(root, name, access).await;
            let close = self.close_op(opened.state_id);
            assert_eq!(self.status(&[put_handle(&file), close]).await, NfsStatus::Ok);
            if opened.delegation != OpenDelegation::None {
                assert_eq!(is_for_writing(&opened.delegation), access & share_access::WRITE != 0);
                return (file, opened.delegation);
            }
        }
    }

    pub async fn give_back(&mut self, file: &FileHandle, state_id: StateId) -> NfsStatus {
        self.status(&[put_handle(file), NfsArgOp::DelegReturn(DelegReturnArgs { state_id })]).await
    }

    pub async fn renew(&mut self) -> NfsStatus {
        self.status(&[NfsArgOp::Renew(RenewArgs { client: self.client })]).await
    }
}

/// A client that has `f` delegated.
async fn holder(running: &Running, access: u32) -> (Old, Back, FileHandle, FileHandle, StateId) {
    let (mut old, back) = Old::listening(running, "holder").await;
    let root = old.home().await;
    let (file, delegation) = old.delegated(&root, "f", access).await;
    (old, back, root, file, state_id(&delegation))
}

#[tokio::test]
async fn who_of_4_0_can_be_called_back_is_delegated_what_it_opens_and_asked_before_others_change_it() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let (mut old, mut back, root, file, id) = holder(&running, share_access::READ).await;
    let by_it = [put_handle(&file), read(id, 0, 9)];
    assert_eq!(old.status(&by_it).await, NfsStatus::Ok);
    let write_by_it = [put_handle(&file), write(id, 0, StableHow::FileSync, Bytes::from_static(b"x"))];
    assert_eq!(old.status(&write_by_it).await, NfsStatus::OpenMode);
    // It has one, and keeps it beside others that read, and beside what it does itself.
    assert_eq!(old.open_there(&root, "f", share_access::READ).await.1.delegation, OpenDelegation::None);
    let own = [put_handle(&file), set_attributes(id, &sized(9))];
    assert_eq!(old.status(&own).await, NfsStatus::OpenMode);
    assert!(back.is_left_alone());

    let change = [put_handle(&home(&maker).await), remove("f")];
    let changed = tokio::spawn(async move { outcome(&maker, &change).await });
    let recall = back.recalls.recv().await.unwrap();
    assert_eq!((recall.state_id, &recall.file_handle, recall.truncate), (id, &file, false));
    // What was opened by it at the client is opened here first.
    let claim = OpenClaim::DelegateCurrent { state_id: id, file: "f".into() };
    let args = OpenArgs { how: OpenHow::NoCreate, claim, ..old.open_args("f", share_access::READ, 0) };
    let (_, opened) = old.open(&root, args).await.unwrap();
    assert_eq!(opened.delegation, OpenDelegation::None);
    assert!(!changed.is_finished());
    assert_eq!(old.give_back(&file, id).await, NfsStatus::Ok);
    assert_eq!(changed.await.unwrap(), (NfsStatus::Ok, 2), "it has waited, and was not put off");
    assert_eq!(old.give_back(&file, id).await, NfsStatus::BadStateId);
    assert_eq!(old.renew().await, NfsStatus::Ok);
    assert_eq!(back.connections(), 1);
    running.stop().await;
}

/// RFC 7530 §9.1.11.
#[tokio::test]
async fn an_open_that_has_to_be_confirmed_is_not_delegated() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f", "g"]).await;
    let (mut old, _back, root, file, id) = holder(&running, share_access::READ).await;
    assert_eq!(old.give_back(&file, id).await, NfsStatus::Ok);
    let args = OpenArgs {
        seqid: 1,
        owner: old.owner("new"),
        how: OpenHow::NoCreate,
        ..old.open_args("g", share_access::READ, 0)
    };
    let reply = old.compound(&[put_handle(&root), NfsArgOp::Open(args)]).await;
    let Some(NfsResOp::Open(Outcome::Ok(opened))) = reply.results.last() else { panic!("{reply:?}") };
    assert_eq!(opened.flags & open_result::CONFIRM, open_result::CONFIRM);
    assert_eq!(opened.delegation, OpenDelegation::None);
    running.stop().await;
}

#[tokio::test]
async fn the_holder_of_4_0_is_asked_for_what_it_has_written_and_never_about_itself() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let (mut old, mut back, _, file, id) = holder(&running, share_access::BOTH).await;
    let looks = get_attributes(Attribute::set(&[Attribute::Change, Attribute::Size]));
    // It says whose the compound is, wherever that stands.
    let returning = NfsArgOp::DelegReturn(DelegReturnArgs { state_id: StateId { seqid: 2, ..id } });
    for own in [
        vec![put_handle(&file), looks.clone(), read(id, 0, 9)],
        vec![put_handle(&file), read(id, 0, 9), looks.clone()],
    ] {
        assert_eq!(old.status(&own).await, NfsStatus::Ok);
    }
    assert_eq!(old.status(&[put_handle(&file), looks.clone(), returning]).await, NfsStatus::BadStateId);
    assert_eq!(back.asked(), 0);

    back.manner.says(1 << 40, 1234);
    let seen = maker.attributes(&file, Attribute::set(&[Attribute::Size])).await.unwrap();
    assert_eq!(seen.size, Some(1234));
    assert_eq!(back.asked(), 1);
    assert!(back.is_left_alone());

    // What it wrote comes in before another one reads it.
    let root = home(&maker).await;
    let reads = [put_handle(&root), opening("f", share_access::READ, 0, OpenHow::NoCreate)];
    let reading = {
        let maker = maker.clone();
        tokio::spawn(async move { outcome(&maker, &reads).await })
    };
    back.recalls.recv().await.unwrap();
    let writes = [put_handle(&file), write(id, 0, StableHow::FileSync, Bytes::from_static(b"written"))];
    assert_eq!(old.status(&writes).await, NfsStatus::Ok);
    // Linux asks for the attributes and returns the delegation in one compound.
    let returning = NfsArgOp::DelegReturn(DelegReturnArgs { state_id: id });
    assert_eq!(old.status(&[put_handle(&file), looks, returning]).await, NfsStatus::Ok);
    assert_eq!(reading.await.unwrap(), (NfsStatus::Ok, 2));
    assert_eq!(back.asked(), 1);
    running.stop().await;
}

/// State ids can be guessed.
#[tokio::test]
async fn a_delegation_of_4_0_is_of_no_use_to_others() {
    let world = World::new().await;
    let running = world.start().await;
    let (mut old, mut back) = Old::listening(&running, "holder").await;
    let root = old.home().await;
    let (file, id) = old.make(&root, "f").await;
    let mode = nfs4::AttributeValues { mode: Some(0o600), ..nfs4::AttributeValues::default() };
    assert_eq!(
        old.status(&[put_handle(&file), set_attributes(StateId::ANONYMOUS, &mode)]).await,
        NfsStatus::Ok
    );
    let close = old.close_op(id);
    assert_eq!(old.status(&[put_handle(&file), close]).await, NfsStatus::Ok);
    let (file, delegation) = old.delegated(&root, "f", share_access::BOTH).await;
    let id = state_id(&delegation);

    let mut thief = Old::stranger(&running, 1001).await;
    assert_eq!(thief.give_back(&file, id).await, NfsStatus::BadStateId);
    let uses = [put_handle(&file), read(id, 0, 9)];
    // He is told to wait, as anybody who reads what is delegated for writing, and then that he may not.
    let waits = tokio::spawn(async move {
        let status = thief.status(&uses).await;
        (thief, status)
    });
    let recall = back.recalls.recv().await.unwrap();
    let cheat = OpenArgs {
        how: OpenHow::NoCreate,
        claim: OpenClaim::DelegateCurrent { state_id: id, file: "f".into() },
        owner: old.owner("thief"),
        seqid: 1,
        ..old.open_args("f", share_access::READ, 0)
    };
    let mut other = Old::stranger(&running, 1002).await;
    assert_eq!(other.status(&[put_handle(&root), NfsArgOp::Open(cheat)]).await, NfsStatus::Access);
    assert_eq!(old.give_back(&file, recall.state_id).await, NfsStatus::Ok);
    let (_, status) = waits.await.unwrap();
    assert!(matches!(status, NfsStatus::BadStateId | NfsStatus::Access), "{status}");
    running.stop().await;
}

#[tokio::test]
async fn who_of_4_0_does_not_return_a_delegation_loses_it_after_a_lease() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let (mut old, mut back, root, file, id) = holder(&running, share_access::BOTH).await;
    // An open of its own is not lost.
    let (_, opened) = old.open_there(&root, "f", share_access::READ).await;
    let there = home(&maker).await;
    let change = [put_handle(&there), opening("f", share_access::WRITE, 0, OpenHow::NoCreate)];
    let try_once = || {
        let (maker, change) = (maker.clone(), change.clone());
        tokio::spawn(async move { outcome(&maker, &change).await })
    };
    let first = try_once();
    back.recalls.recv().await.unwrap();
    while !first.is_finished() {
        world.clock.advance(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(first.await.unwrap(), (NfsStatus::Delay, 2));
    for _ in 0..2 {
        world.clock.advance(LEASE / 2 + Duration::from_secs(1));
        assert_eq!(old.renew().await, NfsStatus::Ok);
        maker.renew().await.unwrap();
    }
    assert_eq!(outcome(&maker, &change).await, (NfsStatus::Ok, 2));
    let census = running.server.metrics().census;
    assert_eq!((census.delegations, census.opens), (0, 2));
    assert_eq!(old.status(&[put_handle(&file), read(id, 0, 9)]).await, NfsStatus::BadStateId);
    assert_eq!(old.give_back(&file, id).await, NfsStatus::BadStateId);
    assert_eq!(old.status(&[put_handle(&file), read(opened.state_id, 0, 9)]).await, NfsStatus::Ok);
    assert!(back.is_left_alone(), "one recall is enough");
    // After a restart it must not write over what others have written.
    assert!(!world.records.load().await.unwrap().iter().any(|owner| owner.ends_with(b"holder")));
    running.stop().await;
}

#[tokio::test]
async fn a_client_of_4_0_waits_for_another_one_without_holding_a_thread() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let (mut old, mut back, root, file, id) = holder(&running, share_access::READ).await;
    let mut other = Old::connect(&running, "other").await;
    let args = OpenArgs { how: OpenHow::NoCreate, ..other.open_args("f", share_access::WRITE, 0) };
    let request = [put_handle(&root), NfsArgOp::Open(args)];
    let put_off = tokio::spawn(async move {
        let reply = other.compound(&request).await;
        (other, request, reply)
    });
    back.recalls.recv().await.unwrap();
    while !put_off.is_finished() {
        world.clock.advance(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    let (mut other, request, reply) = put_off.await.unwrap();
    assert_eq!(reply.status, NfsStatus::Delay);
    assert_eq!(other.compound(&request).await, reply, "it counts");
    assert_eq!(old.give_back(&file, id).await, NfsStatus::Ok);
    other.open_there(&root, "f", share_access::WRITE).await;
    running.stop().await;
}

/// RFC 7530 §10.2.1, §16.16.5: CLAIM_PREVIOUS with a delegation.
#[tokio::test]
async fn delegations_of_4_0_are_reclaimed_after_a_restart_to_be_returned() {
    for (access, kind) in
        [(share_access::READ, DelegationType::Read), (share_access::BOTH, DelegationType::Write)]
    {
        let world = World::new().await;
        let running = world.start().await;
        let _maker = make(&running, &["f"]).await;
        let (old, _back, _, file, id) = holder(&running, access).await;
        running.stop().await;
        assert!(
            world.records.load().await.unwrap().iter().any(|owner| owner.ends_with(b"holder")),
            "a delegation is worth a record"
        );

        let running = world.start().await;
        drop(old);
        let (mut old, back) = Old::listening(&running, "holder").await;
        assert_eq!(old.give_back(&file, id).await, NfsStatus::StaleStateId);
        let args = OpenArgs {
            how: OpenHow::NoCreate,
            claim: OpenClaim::Previous(kind),
            ..old.open_args("", access, 0)
        };
        let (_, opened) = old.open(&file, args).await.unwrap();
        let recall = match &opened.delegation {
            OpenDelegation::Read(read) => read.recall,
            OpenDelegation::Write(write) => write.recall,
            other => panic!("{other:?}"),
        };
        assert!(recall, "it may have been revoked before, and nobody remembers");
        let id = state_id(&opened.delegation);
        assert_eq!(old.give_back(&file, id).await, NfsStatus::Ok);
        assert_eq!(running.server.metrics().census.delegations, 0);
        drop(back);
        running.stop().await;
    }
}

/// There is no CB_RECALL_ANY.
#[tokio::test]
async fn who_of_4_0_has_nearly_too_many_delegations_is_asked_for_the_oldest() {
    let mut world = World::new().await;
    world.limits.delegations_per_client = 8;
    let running = world.start().await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let _maker = make(&running, &names).await;
    let (mut old, mut back) = Old::listening(&running, "old").await;
    let root = old.home().await;
    let mut given = Vec::new();
    for name in names {
        let (file, delegation) = old.delegated(&root, name, share_access::READ).await;
        given.push((file, state_id(&delegation)));
    }
    let mut recalled = Vec::new();
    for _ in 0..3 {
        let recall = back.recalls.recv().await.unwrap();
        recalled.push((recall.file_handle, recall.state_id));
    }
    // They go out side by side.
    recalled.sort_by_key(|(_, id)| given.iter().position(|(_, given)| given == id));
    assert_eq!(recalled, given[..3]);
    for (file, id) in recalled {
        assert_eq!(old.give_back(&file, id).await, NfsStatus::Ok);
    }
    assert!(back.is_left_alone());
    running.stop().await;
}
