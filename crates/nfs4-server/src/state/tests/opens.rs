use super::*;

const R: u32 = Share::READ;
const W: u32 = Share::WRITE;

/// RFC 8881 §9.7: all combinations of two opens by different owners.
#[test]
fn share_reservations_exclude_exactly_what_is_denied() {
    for first in 0..16 {
        for second in 0..16 {
            let (access_a, deny_a, access_b, deny_b) = (first / 4, first % 4, second / 4, second % 4);
            if access_a == 0 || access_b == 0 {
                continue;
            }
            let mut world = world();
            let (a, b) = (world.client("a"), world.client("b"));
            world.open(a, "o", 1, access_a, deny_a).unwrap();
            let compatible = access_a & deny_b == 0 && access_b & deny_a == 0;
            for (client, owner) in [(b, "o"), (a, "other")] {
                let result = world.open(client, owner, 1, access_b, deny_b);
                assert_eq!(result.is_ok(), compatible, "{first} then {second}");
                if let Ok(id) = result {
                    world.state.close(client, &id, file(1), &mut world.undo).unwrap();
                } else {
                    assert_eq!(refused(result), NfsStatus::ShareDenied);
                }
            }
            assert!(world.open(b, "o", 2, access_b, deny_b).is_ok(), "another file");
        }
    }
}

/// RFC 8881 §9.11, §8.2.2.
#[test]
fn opens_of_one_owner_add_up_in_one_state_id() {
    let mut world = world();
    let a = world.client("a");
    let first = world.open(a, "o", 1, R, 0).unwrap();
    let second = world.open(a, "o", 1, W, 0).unwrap();
    assert_eq!(second, StateId { seqid: 2, other: first.other });
    assert_eq!(refused(world.io(a, first, 1, true)), NfsStatus::OldStateId);
    for id in [second, second.newest()] {
        assert_eq!(world.io(a, id, 1, true), Ok(IoGrant::Opened));
    }
    let future = StateId { seqid: 3, ..second };
    assert_eq!(refused(world.io(a, future, 1, true)), NfsStatus::BadStateId);
    world.state.close(a, &second, file(1), &mut world.undo).unwrap();
    assert_eq!(refused(world.io(a, second, 1, true)), NfsStatus::BadStateId);
    assert_eq!(world.state.census().opens, 0);
    assert!(world.state.files.is_empty());
}

/// RFC 8881 §18.18.3.
#[test]
fn downgrade_goes_back_to_what_some_opens_add_up_to() {
    let mut world = world();
    let a = world.client("a");
    world.open(a, "o", 1, R, 0).unwrap();
    let id = world.open(a, "o", 1, R | W, W).unwrap();
    let mut downgrade = |access, deny| {
        world.state.downgrade(a, &id.newest(), file(1), Share { access, deny }, &mut world.undo)
    };
    assert_eq!(downgrade(W, 0), Err(NfsStatus::Inval), "never opened like that");
    assert_eq!(downgrade(R, W), Err(NfsStatus::Inval));
    assert_eq!(downgrade(R, 0).unwrap().seqid, 3);
    assert_eq!(downgrade(R | W, W), Err(NfsStatus::Inval), "given back");
    assert_eq!(refused(world.io(a, id.newest(), 1, true)), NfsStatus::OpenMode);
}

/// RFC 8881 §8.2.3, §8.2.4.
#[test]
fn state_ids_of_others_and_invented_ones_are_bad() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let id = world.open(a, "o", 1, R, 0).unwrap();
    let bad = [
        (b, id, 1),
        (a, id, 2),
        (a, StateId::INVALID, 1),
        (a, StateId { seqid: 2, other: [0; 12] }, 1),
        (a, StateId { seqid: 0, other: [0xff; 12] }, 1),
        (a, StateId { seqid: 1, other: [3; 12] }, 1),
    ];
    for (client, id, number) in bad {
        assert_eq!(refused(world.io(client, id, number, false)), NfsStatus::BadStateId);
    }
    assert_eq!(world.state.test_state_id(a, &id), NfsStatus::Ok);
    assert_eq!(world.state.test_state_id(b, &id), NfsStatus::BadStateId);
    assert_eq!(world.state.test_state_id(a, &StateId::ANONYMOUS), NfsStatus::BadStateId);
}

/// RFC 8881 §8.2.3, §18.22.3, §18.32.3.
#[test]
fn anonymous_io_respects_denials_and_bypass_reads_do_not() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    assert_eq!(world.io(b, StateId::ANONYMOUS, 1, true), Ok(IoGrant::Anonymous));
    world.open(a, "o", 1, R, R | W).unwrap();
    for (id, write) in [(StateId::ANONYMOUS, false), (StateId::ANONYMOUS, true), (StateId::READ_BYPASS, true)]
    {
        assert_eq!(refused(world.io(b, id, 1, write)), NfsStatus::Locked);
    }
    assert_eq!(world.io(b, StateId::READ_BYPASS, 1, false), Ok(IoGrant::Anonymous));
}

#[test]
fn reading_through_an_open_for_writing_is_left_to_the_mode_bits() {
    let mut world = world();
    let a = world.client("a");
    let id = world.open(a, "o", 1, W, 0).unwrap();
    assert_eq!(world.io(a, id, 1, false), Ok(IoGrant::Anonymous));
    let id = world.open(a, "p", 1, R, 0).unwrap();
    assert_eq!(refused(world.io(a, id, 1, true)), NfsStatus::OpenMode);
}

/// RFC 8881 §18.51.3.
#[test]
fn nothing_is_opened_before_reclaim_complete() {
    let mut world = world();
    let (client, _) = world.connect("a");
    assert_eq!(refused(world.open(client, "o", 1, R, 0)), NfsStatus::Grace);
    world.state.reclaim_complete(client).unwrap();
    world.record(client);
    assert!(world.open(client, "o", 1, R, 0).is_ok());
    assert_eq!(world.state.reclaim_complete(client), Err(NfsStatus::CompleteAlready.into()));
}

#[test]
fn opens_of_one_client_are_bounded() {
    let mut world = world_with(Limits { opens_per_client: 2, ..Limits::default() }, &[]);
    let (a, b) = (world.client("a"), world.client("b"));
    world.open(a, "o", 1, R, 0).unwrap();
    world.open(a, "o", 2, R, 0).unwrap();
    assert_eq!(refused(world.open(a, "o", 3, R, 0)), NfsStatus::Delay);
    assert!(world.open(a, "o", 2, W, 0).is_ok(), "an upgrade is no new open");
    assert!(world.open(b, "o", 3, R, 0).is_ok());
    world.state.config.limits.states = 3;
    assert_eq!(refused(world.open(b, "o", 4, R, 0)), NfsStatus::Delay, "all clients together");
}

/// RFC 8881 §15.2: `NFS4ERR_RESOURCE` is of 4.0 alone; whoever closes files may open others.
#[test]
fn a_client_that_opens_a_million_files_has_as_many_as_the_limit_and_is_asked_to_come_again() {
    let mut world = world();
    let (greedy, other) = (world.client("greedy"), world.client("other"));
    let limit = Limits::default().opens_per_client;
    let mut granted = Vec::new();
    for number in 0..1_000_000 {
        match world.open(greedy, "o", number, R, 0) {
            Ok(id) => granted.push(id),
            Err(refusal) => assert_eq!(refusal, NfsStatus::Delay.into()),
        }
    }
    assert_eq!((granted.len(), world.state.held.len(), world.state.files.len()), (limit, limit, limit));
    assert!(world.open(other, "o", 1, R, 0).is_ok());
    world.state.close(greedy, &granted[7], file(7), &mut world.undo).unwrap();
    assert!(world.open(greedy, "o", 999_999, R, 0).is_ok());
}

#[test]
fn shares_from_the_wire_are_checked() {
    for (access, deny, good) in [(0, 0, false), (4, 0, false), (1, 4, false), (3, 3, true)] {
        assert_eq!(Share::new(access, deny).is_ok(), good);
    }
}
