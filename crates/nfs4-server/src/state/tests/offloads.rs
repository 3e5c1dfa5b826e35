//! RFC 7862 §4.8: what is known of copies, and for how long.

use tokio_util::sync::CancellationToken;

use super::*;

/// A client that can be called back, and what it has open.
struct Copying {
    world: World,
    client: ClientId,
    given_by: RequestId,
    rights: [CopyRight; 2],
}

impl Copying {
    fn with(limits: Limits) -> Copying {
        let mut world = world_with(limits, &[]);
        let client = world.client("a");
        let session = world.state.clients[&client].sessions[0];
        let id = world.open(client, "o", 1, Share::READ | Share::WRITE, 0).unwrap();
        let right = |write| CopyRight { id, file: file(1), write };
        let given_by = RequestId { session, slot: 0, sequence: 1 };
        Copying { world, client, given_by, rights: [right(false), right(true)] }
    }

    fn begin(&mut self) -> Option<(StateId, Control)> {
        let control = Control { stop: CancellationToken::new(), over: CancellationToken::new() };
        let request = OffloadRequest { client: self.client, file: file(1), given_by: self.given_by };
        let id = self.world.state.begin_offload(request, control.clone())?;
        Some((id, control))
    }

    fn piece(&mut self, id: &StateId) -> Result<(), Refusal> {
        self.world.state.begin_piece(id, &self.rights, self.world.now)
    }

    fn end(&mut self, id: StateId) {
        self.world.state.end_offload(id, NfsStatus::Ok, [0; 8]);
        self.world.state.offload_over(&id, file(1));
    }

    fn status(&self, id: &StateId) -> Result<(u64, Option<NfsStatus>), NfsStatus> {
        self.world.state.offload_status(self.client, id, file(1))
    }

    /// Tells the client the next thing, which it answers like that; what it was.
    fn tell(&mut self, status: NfsStatus) -> Option<Notice> {
        let callback = self.world.state.next_callback()?;
        self.world.state.end_callback(&callback, CallbackEnd::Answered(status));
        Some(callback.notice)
    }
}

#[test]
fn a_client_may_have_as_many_copies_as_it_leaves_free() {
    let mut copying = Copying::with(Limits { offloads: 5, ..Limits::default() });
    let first = copying.begin().unwrap().0;
    assert!(copying.begin().is_some() && copying.begin().is_some());
    assert!(copying.begin().is_none(), "three are its own, and two are free");
    assert_eq!(copying.world.state.census().offloads, 3);
    copying.end(first);
    assert!(copying.begin().is_some(), "one that has ended does not count");
}

#[test]
fn a_copy_that_never_began_leaves_nothing() {
    let mut copying = Copying::with(Limits::default());
    let (id, control) = copying.begin().unwrap();
    assert_eq!(copying.status(&id), Ok((0, None)));
    copying.world.state.offload_over(&id, file(1));
    assert_eq!(copying.status(&id), Err(NfsStatus::BadStateId));
    assert!(control.stop.is_cancelled());
    assert_eq!((copying.world.state.census().offloads, copying.world.state.files[&file(1)].changing), (0, 0));
}

#[test]
fn no_client_is_expired_while_a_piece_of_its_copy_is_made_and_no_piece_is_begun_after_that() {
    let mut copying = Copying::with(Limits::default());
    let (id, control) = copying.begin().unwrap();
    copying.piece(&id).unwrap();
    copying.world.outlast_leases();
    let (client, now) = (copying.client, copying.world.now);
    assert!(!copying.world.state.forget(client, now));
    copying.world.state.end_piece(&id, 7);
    assert_eq!(copying.status(&id), Ok((7, None)));
    assert_eq!(copying.piece(&id), Err(NfsStatus::Expired.into()));
    assert!(copying.world.state.forget(client, now));
    assert!(control.stop.is_cancelled());
    assert_eq!(copying.piece(&id), Err(NfsStatus::BadStateId.into()));
    copying.world.state.end_piece(&id, 7);
    assert_eq!(copying.world.state.census().offloads, 1, "its task is not over");
    copying.end(id);
    assert_eq!(copying.world.state.census(), Census::default());
    assert!(copying.world.state.files.is_empty());
}

#[test]
fn a_state_id_that_has_ended_entitles_as_long_as_nobody_is_in_the_way() {
    let mut copying = Copying::with(Limits::default());
    let (id, _) = copying.begin().unwrap();
    let open = copying.rights[0].id;
    let (client, other) = (copying.client, copying.world.client("b"));
    copying.world.state.close(client, &open, file(1), &mut copying.world.undo).unwrap();
    copying.piece(&id).unwrap();
    copying.world.state.end_piece(&id, 1);
    copying.world.open(other, "o", 1, Share::READ, Share::WRITE).unwrap();
    assert_eq!(copying.piece(&id), Err(NfsStatus::Locked.into()));
    // Who is in the way and silent is no obstacle.
    copying.world.outlast_leases();
    copying.world.state.clients.get_mut(&client).unwrap().renewed = copying.world.now;
    assert_eq!(copying.piece(&id), Err(Refusal::Expired(other)));
}

#[test]
fn an_end_is_kept_until_it_is_answered_and_told_later_as_often_as_is_reasonable() {
    let mut copying = Copying::with(Limits::default());
    let (id, _) = copying.begin().unwrap();
    copying.end(id);
    let end = OffloadEnd { status: NfsStatus::Ok, copied: 0, verifier: [0; 8] };
    let mut told = 0;
    while let Some(notice) = copying.tell(NfsStatus::Delay) {
        assert_eq!(notice, Notice::Offload { id, file: file(1), end });
        assert_eq!(copying.status(&id), Ok((0, Some(NfsStatus::Ok))));
        told += 1;
    }
    assert_eq!(told, 64);
    let (next, _) = copying.begin().unwrap();
    copying.end(next);
    assert!(copying.tell(NfsStatus::Ok).is_some());
    assert_eq!(copying.status(&next), Err(NfsStatus::BadStateId));
    assert_eq!(copying.status(&id), Ok((0, Some(NfsStatus::Ok))));
}

#[test]
fn of_too_many_ends_that_were_not_answered_the_oldest_is_forgotten() {
    let mut copying = Copying::with(Limits::default());
    let ids: Vec<StateId> = (0..66)
        .map(|_| {
            let (id, _) = copying.begin().unwrap();
            copying.end(id);
            assert!(copying.tell(NfsStatus::NotSupp).is_some());
            id
        })
        .collect();
    assert!(ids[..2].iter().all(|id| copying.status(id).is_err()));
    assert!(ids[2..].iter().all(|id| copying.status(id).is_ok()));
}

#[test]
fn the_client_is_told_to_read_the_reply_to_its_copy_first_unless_it_has() {
    for read in [false, true] {
        let mut copying = Copying::with(Limits::default());
        let RequestId { session, slot, sequence } = copying.given_by;
        copying.world.enter(session, slot, sequence).unwrap();
        let (id, _) = copying.begin().unwrap();
        copying.world.state.leave(session, slot, None, false, copying.world.now);
        copying.end(id);
        if read {
            copying.world.enter(session, slot, sequence + 1).unwrap();
        }
        let callback = copying.world.state.next_callback().unwrap();
        assert_eq!(callback.slot().referring, (!read).then_some(copying.given_by));
    }
}
