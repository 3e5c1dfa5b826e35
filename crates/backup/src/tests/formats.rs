use ids::{ObjectId, Timestamp, VolumeId};
use proptest::prelude::*;

use super::*;
use crate::{Claim, Known, Numbers, ObjectEntry, Parent, Retired, Unsaved};

fn item() -> impl Strategy<Value = Item> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most).prop_map(Bytes::from);
    let range = (0..1000_u64, 1..1000_u64).prop_map(|(start, length)| start..start + length);
    prop_oneof![
        (bytes(40), prop::option::of(bytes(300))).prop_map(|(key, value)| Item::Row { key, value }),
        (any::<u128>(), any::<[u8; 18]>(), range).prop_map(|(volume, object, range)| {
            let ranges = vec![range.clone(), range.end + 7..range.end + 9];
            Item::Unsaved(Unsaved { volume: VolumeId(volume), object: ObjectId::from_bytes(object), ranges })
        }),
        "\\PC{0,60}".prop_map(Item::Configuration),
        (any::<u64>(), any::<u64>(), any::<i64>(), 0..1_000_000_000_u32).prop_map(
            |(backup, transaction, seconds, nanos)| {
                let time = Timestamp { seconds, nanos };
                Item::End(Mark { backup, transaction, time, objects: 0 })
            }
        ),
    ]
}

fn mark(number: u64) -> Mark {
    let time = Timestamp { seconds: number as i64, nanos: 0 };
    Mark { backup: number, transaction: 3 * number, time, objects: number as u32 }
}

fn head() -> impl Strategy<Value = Head> {
    let object = (any::<u64>(), any::<u32>(), any::<u32>(), any::<[u8; 32]>());
    let object = object.prop_map(|(start, number, length, sum)| ObjectEntry { start, number, length, sum });
    let parent = (any::<u32>(), any::<[u8; 16]>(), any::<u64>(), any::<[u8; 32]>());
    let parent = parent.prop_map(|(branch, id, backup, link)| Parent { branch, id, backup, link });
    (prop::collection::vec(object, 1..20), prop::option::of(parent), any::<[u8; 16]>(), any::<u32>())
        .prop_map(|(objects, parent, id, branch)| Head {
            gateway: GatewayId(7),
            branch,
            id,
            parent,
            first: [1; 32],
            marks: (1..=objects.len() as u64).map(mark).collect(),
            links: (1..=objects.len() as u64).map(|number| (number, [number as u8; 32])).collect(),
            objects,
            before: [2; 32],
        })
}

proptest! {
    #[test]
    fn items_come_back_and_a_cut_is_noticed(items in prop::collection::vec(item(), 1..10), at: prop::sample::Index) {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for item in &items {
            item.encode(&mut bytes);
            ends.push(bytes.len());
        }
        let read: Result<Vec<Item>, _> = Items::of(bytes.clone().into()).collect();
        prop_assert_eq!(read.unwrap(), items);
        let cut = at.index(bytes.len());
        let read: Result<Vec<Item>, _> = Items::of(Bytes::copy_from_slice(&bytes[..cut])).collect();
        prop_assert_eq!(read.is_ok(), ends.contains(&cut));
    }

    #[test]
    fn heads_come_back_and_only_whole(head in head(), at: prop::sample::Index) {
        let bytes = head.encode();
        prop_assert_eq!(&Head::decode(&bytes).unwrap(), &head);
        prop_assert!(Head::decode(&bytes[..at.index(bytes.len())]).is_err());
        prop_assert!(Head::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Head::decode(&bytes);
        let _ = State::decode(&bytes);
        prop_assert!(Items::of(bytes.into()).count() <= 400);
    }

    #[test]
    fn a_sealed_head_opens_for_its_branch_and_unchanged_only(head in head(), at: prop::sample::Index) {
        let (keys, entropy) = (keys(), SystemEntropy::new());
        let mut head = head;
        let link = keys.link(&head);
        head.links.last_mut().unwrap().1 = link;
        let sealed = keys.seal_head(&head, &entropy);
        prop_assert_eq!(&keys.open_head(head.branch, sealed.clone()).unwrap(), &head);
        prop_assert!(keys.open_head(head.branch ^ 1, sealed.clone()).is_err());
        prop_assert!(BackupKeys::new(GatewayId(8), &[5; 32]).open_head(head.branch, sealed.clone()).is_err());
        prop_assert!(BackupKeys::new(GatewayId(7), &[6; 32]).open_head(head.branch, sealed.clone()).is_err());
        let mut changed = sealed.to_vec();
        changed[at.index(sealed.len())] ^= 4;
        prop_assert!(keys.open_head(head.branch, changed.into()).is_err());
    }
}

#[test]
fn notes_come_back() {
    let numbers = Numbers { start: 9, from: 1, to: 64 };
    let parent = Parent { branch: 3, id: [4; 16], backup: 5, link: [6; 32] };
    let state = State {
        branch: 2,
        id: [1; 16],
        parent: Some(parent),
        backups: 1024,
        numbers: vec![numbers, Numbers { start: 8, from: 0, to: 0 }],
        retired: vec![Retired { numbers, places: vec!["a".into(), "cellar".into()] }],
        is_new: false,
        starts: 3,
        known: vec![Known { id: [7; 16], backup: 8, starts: 9 }],
    };
    // Of a version that knew of no claims.
    let claimed = 8 + 4 + 32;
    let mut old = state.encode();
    old.truncate(old.len() - claimed);
    old[0] = 1;
    assert_eq!(State::decode(&old).unwrap(), State { starts: 0, known: Vec::new(), ..state.clone() });
    for state in [state.clone(), State::default(), State::loaded(), State::restored(parent, state.known)] {
        let bytes = state.encode();
        assert_eq!(State::decode(&bytes).unwrap(), state);
        for length in 0..bytes.len() {
            assert!(State::decode(&bytes[..length]).is_err());
        }
    }
    assert!(matches!(State::decode(&[9]), Err(BackupError::Newer(9))));
    assert!(matches!(State::decode(&[0]), Err(BackupError::Damaged(_))));
}

#[test]
fn claims_come_back_and_open_in_their_place_only() {
    let time = Timestamp { seconds: 4, nanos: 5 };
    let claim = Claim { gateway: GatewayId(7), branch: 2, id: [1; 16], starts: 3, start: u64::MAX, time };
    let bytes = claim.encode();
    assert_eq!(Claim::decode(&bytes).unwrap(), claim);
    for length in 0..bytes.len() {
        assert!(Claim::decode(&bytes[..length]).is_err());
    }
    assert!(Claim::decode(&[&bytes[..], &[0]].concat()).is_err());
    assert!(matches!(Claim::decode(&[9]), Err(BackupError::Newer(9))));
    assert!(matches!(Claim::decode(&[0]), Err(BackupError::Damaged(_))));
    let (keys, entropy) = (keys(), SystemEntropy::new());
    let sealed = keys.seal_claim(&claim, &entropy);
    assert_eq!(keys.open_claim(2, sealed.clone()).unwrap(), claim);
    assert!(keys.open_claim(1, sealed.clone()).is_err());
    assert!(keys.open_head(2, sealed).is_err());
    assert!(
        keys.open_claim(2, keys.seal_claim(&Claim { gateway: GatewayId(8), ..claim }, &entropy)).is_err()
    );
}

/// Whoever has all of a cloud sees names of forty letters, and lengths of the classes 16 KiB, 32 KiB, 64 KiB and so on.
#[tokio::test(start_paused = true)]
async fn what_an_observer_sees_is_names_of_letters_and_few_lengths() {
    let mut world = World::new();
    world.start().await;
    let mut lengths = std::collections::BTreeSet::new();
    for (round, count) in [1, 2, 50, 400].into_iter().enumerate() {
        for number in 0..count {
            world.set(
                &format!("canary-name-{round}-{number}"),
                Some(b"canary-value-0123456789-0123456789-0123"),
            );
        }
        world.back_up().await.unwrap();
    }
    let memory = &world.clouds[0].1;
    assert_eq!(memory.names().len(), 5, "four backups and the head");
    for name in memory.names() {
        let text = name.as_str();
        assert!(
            text.len() == 40 && text.bytes().all(|c| c.is_ascii_lowercase() || (b'2'..=b'7').contains(&c))
        );
        let bytes = memory.peek(&name).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"canary"));
        lengths.insert(bytes.len() - seal::SEAL_OVERHEAD);
    }
    assert_eq!(lengths, [16 << 10, 32 << 10].into(), "of one row or fifty: the same");
    // Equal content does not look equal.
    let first: std::collections::HashSet<_> = memory.names().iter().map(|name| memory.peek(name)).collect();
    assert_eq!(first.len(), 5);
}
