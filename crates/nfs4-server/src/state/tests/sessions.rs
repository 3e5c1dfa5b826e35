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
        client: client.client,
        sequence: client.sequence,
        principal: USER,
        fore: huge,
        back: huge,
        back_channel: None,
        callback_program: 0,
    };
    let grant = world.state.create_session(&request, world.now).unwrap();
    assert!(grant.fore.operations >= 1024 && grant.fore.max_request >= (4 << 20) + 65536);
    assert_eq!(grant.fore.slots, 64, "those that a quarter of the reply cache pays for");
    assert!(!grant.back_channel);

    request.sequence += 1;
    request.fore = channel();
    assert_eq!(world.state.create_session(&request, world.now).unwrap().fore, channel());

    request.sequence += 1;
    request.fore = Channel { max_response: 100, ..channel() };
    assert_eq!(refused(world.state.create_session(&request, world.now)), NfsStatus::TooSmall);
    request.fore = channel();
    assert_eq!(
        refused(world.state.create_session(&request, world.now)),
        NfsStatus::TooSmall,
        "refusals are kept"
    );

    for back in [Channel { max_request: 10, ..channel() }, Channel { operations: 1, ..channel() }] {
        request.sequence += 1;
        request.back = back;
        assert_eq!(refused(world.state.create_session(&request, world.now)), NfsStatus::TooSmall, "{back:?}");
    }
}

#[test]
fn reply_caches_are_bounded_over_all_sessions() {
    let limits = Limits { reply_cache_bytes: 10 * 4096, sessions_per_client: 11, ..Limits::default() };
    let mut world = world_with(limits, &[]);
    let client = world.exchange("a", 1, USER, false).unwrap();
    let mut create = |sequence| world.create_session_as(client.client, client.sequence + sequence, USER);
    let first = create(0).unwrap();
    assert_eq!(first.fore.slots, 2, "a quarter of what is left");
    let further: Vec<u32> = (1..8).map(|sequence| create(sequence).unwrap().fore.slots).collect();
    assert_eq!(further, [2, 1, 1, 1, 1, 1, 1]);
    assert_eq!(refused(create(8)), NfsStatus::NoSpc);
    world.state.destroy_session(first.session).unwrap();
    assert_eq!(world.create_session_as(client.client, client.sequence + 9, USER).unwrap().fore.slots, 1);
}

/// RFC 8881 §18.46.3.
#[test]
fn sequence_admits_what_the_session_allows() {
    let mut world = world();
    let (_, session) = world.connect("a");
    let request =
        Sequence { session, slot: 0, sequence: 1, digest: [0; 16], operations: 2, request_bytes: 100 };
    let cases = [
        (Sequence { session: SessionId([9; 16]), ..request }, NfsStatus::BadSession),
        (Sequence { slot: 8, ..request }, NfsStatus::BadSlot),
        (Sequence { sequence: 2, ..request }, NfsStatus::SeqMisordered),
        (Sequence { operations: 17, ..request }, NfsStatus::TooManyOps),
        (Sequence { request_bytes: (1 << 20) + 1, ..request }, NfsStatus::ReqTooBig),
    ];
    for (request, status) in cases {
        assert_eq!(world.state.enter(&request, world.now).unwrap_err(), status);
    }
    let Ok(Entered::Run { status, .. }) = world.state.enter(&request, world.now) else {
        panic!("not admitted")
    };
    assert_eq!(status, SequenceStatus { highest_slot: 7, flags: 0 });
    world.state.leave(session, 0, Some(Bytes::from_static(b"reply")), world.now);
    assert!(matches!(world.state.enter(&request, world.now), Ok(Entered::Replay(reply)) if reply == "reply"));
}

#[test]
fn a_lost_back_channel_is_reported_until_a_connection_is_bound() {
    let mut world = world();
    let (_, session) = world.connect("a");
    let flags = |world: &mut World, sequence| match world.enter(session, 0, sequence).unwrap() {
        Entered::Run { status, .. } => {
            world.state.leave(session, 0, None, world.now);
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

#[test]
fn a_destroyed_session_is_gone_even_for_the_request_that_is_running_in_it() {
    let mut world = world();
    let (_, session) = world.connect("a");
    world.enter(session, 0, 1).unwrap();
    world.state.destroy_session(session).unwrap();
    world.state.leave(session, 0, None, world.now);
    assert_eq!(world.state.destroy_session(session), Err(NfsStatus::BadSession));
}
