use bytes::Bytes;

use super::*;

/// RFC 8881 §18.36.4, phases 1 to 3.
#[test]
fn create_session_is_done_once_for_each_sequence_number() {
    let mut world = world();
    assert_eq!(refused(world.create_session_as(ClientId(1), 1, USER)), NfsStatus::StaleClientId);
    let client = world.exchange("a", 1, USER, false).unwrap();
    for wrong in [client.sequence - 1, client.sequence + 1] {
        assert_eq!(refused(world.create_session_as(client.client, wrong, USER)), NfsStatus::SeqMisordered);
    }
    assert_eq!(
        refused(world.create_session_as(client.client, client.sequence, Principal::Nobody)),
        NfsStatus::ClidInUse
    );
    let first = world.create_session_as(client.client, client.sequence, USER).unwrap();
    assert_eq!(world.create_session_as(client.client, client.sequence, USER), Ok(first), "a retry");
    let second = world.create_session_as(client.client, client.sequence + 1, USER).unwrap();
    assert_ne!(second.session, first.session);
    assert_eq!(world.state.census().sessions, 2);
}

#[test]
fn channels_get_at_most_what_was_asked_for_and_what_the_limits_allow() {
    let mut world = world();
    let client = world.exchange("a", 1, USER, false).unwrap();
    let huge = Channel {
        max_request: u32::MAX,
        max_response: u32::MAX,
        max_response_cached: u32::MAX,
        operations: u32::MAX,
        slots: u32::MAX,
    };
    let mut request = CreateSession {
        session: SessionId([5; 16]),
        connection: CONNECTION,
        client: client.client,
        sequence: client.sequence,
        principal: USER,
        fore: huge,
        back: huge,
        back_channel: false,
        callback_program: 0,
        callback_credential: Credential::None,
        minor_version: 1,
        within: None,
    };
    let grant = world.state.create_session(&request, world.now).unwrap();
    assert!(grant.fore.operations >= 1024 && grant.fore.max_request >= (4 << 20) + 65536);
    assert_eq!((grant.fore.slots, grant.fore.max_response_cached), (128, 256 << 10));
    assert!(!grant.back_channel);

    request.sequence += 1;
    request.session = SessionId([6; 16]);
    request.fore = channel();
    assert_eq!(world.state.create_session(&request, world.now).unwrap().fore, channel());

    request.sequence += 1;
    request.fore = Channel { max_response: 100, ..channel() };
    assert_eq!(refused(world.state.create_session(&request, world.now)), NfsStatus::TooSmall);

    for back in [Channel { max_request: 10, ..channel() }, Channel { operations: 1, ..channel() }] {
        request.sequence += 1;
        request.back = back;
        assert_eq!(refused(world.state.create_session(&request, world.now)), NfsStatus::TooSmall, "{back:?}");
    }
}

#[test]
fn after_a_refusal_a_session_is_made_under_the_same_number_or_the_next() {
    for step in [0, 1] {
        let mut world = world();
        let client = world.exchange("a", 1, USER, false).unwrap();
        let refused_request = CreateSession {
            session: SessionId([5; 16]),
            connection: CONNECTION,
            client: client.client,
            sequence: client.sequence,
            principal: USER,
            fore: Channel { max_request: 10, ..channel() },
            back: channel(),
            back_channel: false,
            callback_program: 0,
            callback_credential: Credential::None,
            minor_version: 1,
            within: None,
        };
        for _ in 0..2 {
            let refusal = world.state.create_session(&refused_request, world.now);
            assert_eq!(refused(refusal), NfsStatus::TooSmall);
        }
        let made = world.create_session_as(client.client, client.sequence + step, USER).unwrap();
        let again = world.create_session_as(client.client, client.sequence + step, USER);
        assert_eq!(again, Ok(made), "a retry");
    }
}

#[test]
fn reply_caches_are_bounded_over_all_sessions() {
    let limits = Limits { reply_cache_bytes: 10 * 2048, sessions_per_client: 11, ..Limits::default() };
    let mut world = world_with(limits, &[]);
    let client = world.exchange("a", 1, USER, false).unwrap();
    let mut create = |sequence| world.create_session_as(client.client, client.sequence + sequence, USER);
    let first = create(0).unwrap();
    assert_eq!(first.fore.slots, 2, "a quarter of what is left");
    let further: Vec<u32> = (1..8).map(|sequence| create(sequence).unwrap().fore.slots).collect();
    assert_eq!(further, [2, 1, 1, 1, 1, 1, 1]);
    assert_eq!(refused(create(8)), NfsStatus::NoSpc);
    world.state.destroy_session(first.session, USER, CONNECTION, None).unwrap();
    assert_eq!(world.create_session_as(client.client, client.sequence + 9, USER).unwrap().fore.slots, 1);
}

#[test]
fn every_client_gets_one_session_whatever_others_have_taken() {
    let limits = Limits { clients: 10, reply_cache_bytes: 10 * 4096, ..Limits::default() };
    let mut world = world_with(limits, &[]);
    for number in 0..9 {
        world.connect(&format!("{number}"));
    }
    let last = world.exchange("last", 1, USER, false).unwrap();
    let grant = world.create_session_as(last.client, last.sequence, USER).unwrap();
    assert_eq!((grant.fore.slots, grant.fore.max_response_cached), (2, 4096), "its share");
    let second = world.create_session_as(last.client, last.sequence + 1, USER);
    assert_eq!(refused(second), NfsStatus::NoSpc, "of what was asked for there is nothing left");
    assert!(world.state.reply_cache_bytes <= 2 * limits.reply_cache_bytes);
}

#[test]
fn many_idle_clients_leave_slots_to_others() {
    let mut world = world_with(Limits { reply_cache_bytes: 2 << 20, ..Limits::default() }, &[]);
    for number in 0..90 {
        world.connect(&format!("{number}"));
    }
    let late = world.exchange("late", 1, USER, false).unwrap();
    assert_eq!(world.create_session_as(late.client, late.sequence, USER).unwrap().fore, channel());
}

/// Clients with requests whose replies are to be kept.
struct Keeping(World);

/// Of a reply that is not small, as long as may be; and what that takes of the room for such.
const LARGE: usize = 4096;
const ROOM: u64 = 2048;

impl Keeping {
    /// How long the reply may be if it is to be kept.
    fn enter(
        &mut self,
        session: SessionId,
        slot: u32,
        sequence: u32,
        keep: bool,
    ) -> Result<usize, NfsStatus> {
        self.enter_with(session, slot, sequence, keep, 16)
    }

    fn enter_with(
        &mut self,
        session: SessionId,
        slot: u32,
        sequence: u32,
        keep: bool,
        operations: usize,
    ) -> Result<usize, NfsStatus> {
        let request = Sequence { operations, cache_this: keep, ..request(session, slot, sequence) };
        match self.0.state.enter(&request, self.0.now)? {
            Entered::Run { channel, .. } => Ok(channel.max_response_cached as usize),
            Entered::Replay(reply) => Ok(reply.len()),
            Entered::Uncached { .. } => Err(NfsStatus::RetryUncachedRep),
        }
    }

    fn leave(&mut self, session: SessionId, slot: u32, bytes: usize, is_promised: bool) {
        let reply = Some(Bytes::from(vec![0; bytes]));
        self.0.state.leave(session, slot, reply, is_promised, self.0.now);
    }

    fn large(&self) -> u64 {
        let all = self.0.state.sessions.values().map(|session| session.slots.large()).sum();
        assert_eq!(self.0.state.large_replies, all);
        all
    }
}

#[test]
fn large_replies_are_kept_within_bounds() {
    // Three for each client, twelve in all.
    let limits = Limits { large_reply_bytes: 12 * ROOM + 500, ..Limits::default() };
    let mut world = world_with(limits, &[]);
    let sessions: Vec<SessionId> = ["a", "b", "c", "d"].map(|owner| world.connect(owner).1).to_vec();
    let mut world = Keeping(world);
    for session in &sessions {
        for slot in 0..3 {
            assert_eq!(world.enter(*session, slot, 1, true), Ok(LARGE));
        }
        // It waits for its own; what is small, or not to be kept, does not.
        assert_eq!(world.enter(*session, 3, 1, true), Err(NfsStatus::Delay));
        assert_eq!(world.enter_with(*session, 5, 1, true, 5), Ok(LARGE));
        world.leave(*session, 5, 100, true);
        assert_eq!(world.enter(*session, 4, 1, false), Ok(LARGE));
        world.leave(*session, 4, LARGE, false);
        assert_eq!(world.enter(*session, 4, 1, false), Err(NfsStatus::RetryUncachedRep));
    }
    assert_eq!(world.large(), 12 * ROOM);
    assert_eq!(world.0.state.counts.replies_put_off, 4);
    // Small ones give their room back.
    for session in &sessions {
        world.leave(*session, 0, LARGE, true);
        world.leave(*session, 1, 2048, true);
        world.leave(*session, 2, 100, true);
    }
    assert_eq!(world.large(), 4 * ROOM);
    for session in &sessions {
        assert_eq!(world.enter(*session, 0, 1, true), Ok(LARGE), "a retry");
        for slot in 1..3 {
            assert_eq!(world.enter(*session, slot, 2, true), Ok(LARGE));
            world.leave(*session, slot, LARGE, true);
        }
        // What is not to be kept is under way all the time: nobody waits for that.
        assert_eq!(world.enter(*session, 7, 1, false), Ok(LARGE));
        for slot in 3..7 {
            let sequence = 1 + u32::from(slot == 4 || slot == 5);
            assert_eq!(world.enter(*session, slot, sequence, true), Ok(2048 + 125));
            world.leave(*session, slot, 2048, true);
        }
        // Where a large one was there may be another.
        assert_eq!(world.enter(*session, 0, 2, true), Ok(LARGE));
        world.leave(*session, 0, LARGE, true);
    }
    assert_eq!(world.large(), 12 * ROOM);
    // What goes while requests are run, and what comes back afterwards.
    assert_eq!(world.enter(sessions[0], 0, 3, true), Ok(LARGE));
    world.0.state.drop_session(sessions[0]);
    world.leave(sessions[0], 0, LARGE, true);
    assert_eq!(world.large(), 9 * ROOM);
    for session in sessions {
        world.0.state.drop_session(session);
    }
    assert_eq!(world.large(), 0);
}

#[test]
fn a_reply_that_was_promised_is_kept_and_one_that_was_not_if_there_is_room() {
    let limits = Limits { large_reply_bytes: 4 * ROOM, ..Limits::default() };
    let mut world = world_with(limits, &[]);
    let session = world.connect("a").1;
    let mut world = Keeping(world);
    // Little was expected, and it was allowed to have more.
    assert_eq!(world.enter_with(session, 0, 1, true, 2), Ok(LARGE));
    assert_eq!(world.large(), 0);
    world.leave(session, 0, LARGE, true);
    assert_eq!((world.large(), world.enter(session, 0, 1, true)), (ROOM, Ok(LARGE)));
    assert_eq!(world.enter_with(session, 0, 2, false, 2), Ok(LARGE));
    world.leave(session, 0, LARGE, false);
    assert_eq!((world.large(), world.enter(session, 0, 2, true)), (ROOM, Ok(LARGE)), "there was room");
    for (slot, is_promised, expected) in [(1, false, Err(NfsStatus::RetryUncachedRep)), (2, true, Ok(LARGE))]
    {
        assert_eq!(world.enter_with(session, slot, 1, false, 2), Ok(LARGE));
        world.leave(session, slot, LARGE, is_promised);
        assert_eq!(world.enter(session, slot, 1, true), expected);
    }
}

/// RFC 8881 §18.46.3.
#[test]
fn sequence_admits_what_the_session_allows() {
    let mut world = world();
    let (_, session) = world.connect("a");
    let request = request(session, 0, 1);
    let cases = [
        (Sequence { session: SessionId([99; 16]), ..request }, NfsStatus::BadSession),
        (Sequence { slot: 8, ..request }, NfsStatus::BadSlot),
        (Sequence { sequence: 2, ..request }, NfsStatus::SeqMisordered),
        (Sequence { operations: 17, ..request }, NfsStatus::TooManyOps),
        (Sequence { reply_bytes: (1 << 20) + 1, ..request }, NfsStatus::RepTooBig),
        (Sequence { reply_bytes: 4097, cache_this: true, ..request }, NfsStatus::RepTooBigToCache),
        (Sequence { request_bytes: (1 << 20) + 1, ..request }, NfsStatus::ReqTooBig),
    ];
    for (request, status) in cases {
        assert_eq!(world.state.enter(&request, world.now).unwrap_err(), status);
    }
    let Ok(Entered::Run { status, .. }) = world.state.enter(&request, world.now) else {
        panic!("not admitted")
    };
    assert_eq!(status, SequenceStatus { highest_slot: 7, flags: 0 });
    world.state.leave(session, 0, Some(Bytes::from_static(b"reply")), true, world.now);
    assert!(matches!(world.state.enter(&request, world.now), Ok(Entered::Replay(reply)) if reply == "reply"));
}

#[test]
fn a_lost_back_channel_is_reported_until_a_connection_is_bound() {
    let mut world = world();
    let (_, session) = world.connect("a");
    let flags = |world: &mut World, sequence| match world.enter(session, 0, sequence).unwrap() {
        Entered::Run { status, .. } => {
            world.state.leave(session, 0, None, false, world.now);
            status.flags
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(flags(&mut world, 1), 0);
    world.state.connection_lost(ConnectionId(1));
    assert_eq!(flags(&mut world, 2), 0x201);
    world.state.bind_connection(session, ConnectionId(2), false).unwrap();
    assert_eq!(flags(&mut world, 3), 0x201);
    world.state.bind_connection(session, ConnectionId(2), true).unwrap();
    assert_eq!(flags(&mut world, 4), 0);
    assert_eq!(
        world.state.bind_connection(SessionId([0; 16]), ConnectionId(2), true),
        Err(NfsStatus::BadSession)
    );
}

/// RFC 8881 §20.1.
#[test]
fn a_connection_that_does_not_take_the_null_call_is_lost_to_callbacks() {
    let mut world = world();
    let (client, session) = world.connect("a");
    let probe = world.state.next_probe().unwrap();
    assert_eq!((probe.session, probe.connection, probe.program), (session, CONNECTION, 0x4000_0000));
    world.connect("b");
    world.state.bind_connection(session, CONNECTION, true).unwrap();
    assert!(world.state.next_probe().is_none(), "one at a time on a connection");
    world.state.end_probe(session, CONNECTION, true);
    assert!(world.state.can_call_back(client));

    let other = ConnectionId(2);
    world.state.bind_connection(session, other, true).unwrap();
    let probe = world.state.next_probe().unwrap();
    world.state.end_probe(probe.session, probe.connection, false);
    assert!(world.state.can_call_back(client), "over the first one");
    world.state.bind_connection(session, CONNECTION, true).unwrap();
    let probe = world.state.next_probe().unwrap();
    assert_eq!(probe.connection, CONNECTION);
    world.state.end_probe(probe.session, probe.connection, false);
    assert!(!world.state.can_call_back(client));
    let Ok(Entered::Run { status, .. }) = world.enter(session, 0, 1) else { panic!() };
    assert_eq!(status.flags, 0x201);
}

/// Without a pause the client, which binds whenever it is told that its path is down, and the server, which finds that so
/// again, would go on as fast as they can.
#[test]
fn probes_behind_one_that_failed_are_slower_and_the_path_counts_when_one_is_answered() {
    let mut world = world();
    let (client, session) = world.connect("a");
    let seconds = Duration::from_secs;
    let flags = |world: &mut World, sequence| match world.enter(session, 0, sequence) {
        Ok(Entered::Run { status, .. }) => {
            world.state.leave(session, 0, None, false, world.now);
            status.flags
        }
        other => panic!("{other:?}"),
    };
    let pauses = [0, 1, 2, 4, 8, 16, 32, 64, 64];
    for (sequence, pause) in (1..).zip(pauses) {
        let probe = world.state.next_probe().unwrap();
        assert_eq!(probe.pause, seconds(pause));
        assert_eq!(flags(&mut world, 2 * sequence - 1), 0, "nothing is known yet");
        assert_eq!(world.state.can_call_back(client), sequence == 1, "it is not relied on");
        world.state.end_probe(session, CONNECTION, false);
        assert_eq!(flags(&mut world, 2 * sequence), 0x201);
        world.state.bind_connection(session, CONNECTION, true).unwrap();
    }
    world.state.next_probe().unwrap();
    world.state.end_probe(session, CONNECTION, true);
    assert!(world.state.can_call_back(client));
    world.state.bind_connection(session, CONNECTION, true).unwrap();
    assert_eq!(world.state.next_probe().unwrap().pause, Duration::ZERO);
    assert!(world.state.can_call_back(client));
}

#[test]
fn a_back_channel_that_is_gone_is_not_probed() {
    let mut world = world();
    let (_, session) = world.connect("a");
    world.state.destroy_session(session, USER, CONNECTION, None).unwrap();
    assert!(world.state.next_probe().is_none());
    let (_, session) = world.connect("b");
    assert_eq!(world.state.next_probe().map(|probe| probe.session), Some(session));
}

#[test]
fn a_session_is_destroyed_when_nothing_is_under_way_in_it_but_the_request_that_asks() {
    let mut world = world();
    let (_, session) = world.connect("a");
    world.enter(session, 0, 1).unwrap();
    let destroy = |world: &mut World, within| world.state.destroy_session(session, USER, CONNECTION, within);
    assert_eq!(destroy(&mut world, None), Err(NfsStatus::Delay));
    world.enter(session, 1, 1).unwrap();
    assert_eq!(destroy(&mut world, Some(session)), Err(NfsStatus::Delay));
    world.state.leave(session, 1, None, false, world.now);
    assert_eq!(destroy(&mut world, Some(session)), Ok(()));
    world.state.leave(session, 0, None, false, world.now);
    assert_eq!(destroy(&mut world, None), Err(NfsStatus::BadSession));
}

/// RFC 8881 §18.35.4, case 5.
#[test]
fn a_client_that_restarted_is_put_off_until_nothing_of_its_former_life_is_under_way() {
    let mut world = world();
    let (_, session) = world.connect("a");
    world.enter(session, 0, 1).unwrap();
    let reborn = world.exchange("a", 2, USER, false).unwrap();
    let create = |world: &mut World| world.create_session_as(reborn.client, reborn.sequence, USER);
    assert_eq!(refused(create(&mut world)), NfsStatus::Delay);
    world.state.leave(session, 0, None, false, world.now);
    assert!(create(&mut world).is_ok());
    assert_eq!(world.enter(session, 0, 2).err(), Some(NfsStatus::BadSession));
}

/// RFC 8881 §2.10.3.1, §18.37.3.
#[test]
fn a_session_is_destroyed_by_its_principal_on_one_of_its_connections() {
    let mut world = world();
    let (_, session) = world.connect("a");
    let (other, user) = (ConnectionId(2), Principal::Unix(1));
    let destroy = |world: &mut World, who, on| world.state.destroy_session(session, who, on, None);
    assert_eq!(destroy(&mut world, user, CONNECTION), Err(NfsStatus::WrongCred));
    assert_eq!(destroy(&mut world, USER, other), Err(NfsStatus::ConnNotBoundToSession));
    world.enter_on(other, session, 0, 1).unwrap();
    world.state.leave(session, 0, None, false, world.now);
    world.state.connection_lost(other);
    assert_eq!(destroy(&mut world, USER, other), Err(NfsStatus::ConnNotBoundToSession), "it is lost");
    world.state.bind_connection(session, other, false).unwrap();
    assert_eq!(destroy(&mut world, USER, other), Ok(()));
}

/// RFC 8881 §18.36.4: the principal counts for the confirmation only.
#[test]
fn another_principal_makes_sessions_and_ends_only_its_own() {
    let mut world = world();
    let client = world.exchange("a", 1, USER, false).unwrap();
    let first = world.create_session_as(client.client, client.sequence, USER).unwrap();
    let user = Principal::Unix(1);
    let replay = world.create_session_as(client.client, client.sequence, user);
    assert_eq!(replay, Ok(first));
    let second = world.create_session_as(client.client, client.sequence + 1, user).unwrap();
    let destroy =
        |world: &mut World, session, who| world.state.destroy_session(session, who, CONNECTION, None);
    assert_eq!(destroy(&mut world, second.session, USER), Err(NfsStatus::WrongCred));
    assert_eq!(destroy(&mut world, first.session, user), Err(NfsStatus::WrongCred));
    assert_eq!(destroy(&mut world, second.session, user), Ok(()));
}

#[test]
fn a_silent_client_makes_room_before_a_session_gets_less_than_it_asks_for() {
    let enough = 8 * 2048;
    let mut world = world_with(Limits { reply_cache_bytes: 5 * enough, ..Limits::default() }, &[]);
    let (first, _) = world.connect("a");
    for owner in ["b", "c"] {
        world.now += Duration::from_secs(1);
        world.connect(owner);
    }
    let late = world.exchange("d", 1, USER, false).unwrap();
    let create = |world: &mut World| world.create_session_as(late.client, late.sequence, USER);
    world.now += LEASE - Duration::from_secs(1);
    assert_eq!(create(&mut world), Err(Refusal::Expired(first)));
    assert!(world.state.forget(first, world.now));
    assert!(create(&mut world).is_ok());
}
