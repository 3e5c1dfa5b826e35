//! Metadata backups: what opened, and what clouds give for a head.

use backup::{
    BackupKeys, Claim, Head, Item, Items, Known, Mark, Numbers, ObjectEntry, Retired, State, Unsaved,
};
use bytes::Bytes;
use ids::{GatewayId, ObjectId, Timestamp, VolumeId};

use crate::machine::Counted;

fn keys() -> BackupKeys {
    BackupKeys::new(GatewayId(1), &[7; 32])
}

fn head() -> Head {
    let time = Timestamp { seconds: 5, nanos: 6 };
    let mut head = Head {
        gateway: GatewayId(1),
        branch: 0,
        id: [3; 16],
        parent: None,
        first: [0; 32],
        objects: vec![ObjectEntry { start: 1, number: 2, length: 3, sum: [4; 32] }],
        marks: vec![Mark { backup: 9, transaction: 8, time, objects: 1 }],
        links: vec![(9, [0; 32])],
        before: [0; 32],
    };
    let link = keys().link(&head);
    head.links[0].1 = link;
    head
}

fn claim() -> Claim {
    let time = Timestamp { seconds: 5, nanos: 6 };
    Claim { gateway: GatewayId(1), branch: 0, id: [3; 16], starts: 4, start: 5, time }
}

/// Each decoder; what is accepted is what was meant.
pub(crate) fn any(data: &[u8]) {
    let mut again = Vec::new();
    let items: Vec<_> = Items::of(Bytes::copy_from_slice(data)).collect();
    assert!(items.len() <= data.len());
    if items.iter().all(Result::is_ok) {
        items.into_iter().flatten().for_each(|item| item.encode(&mut again));
        assert_eq!(again, data);
    }
    if let Ok(head) = Head::decode(data) {
        assert_eq!(head.encode(), data);
    }
    if let Ok(state) = State::decode(data) {
        let again = state.encode();
        // One of an older version is written anew as one of this.
        assert!(again == data || State::decode(&again).is_ok_and(|state| state.encode() == again));
    }
    if let Ok(claim) = Claim::decode(data) {
        assert_eq!(claim.encode(), data);
    }
    if keys().open_claim(0, Bytes::copy_from_slice(data)).is_ok() {
        assert_eq!(data, keys().seal_claim(&claim(), &Counted::default()), "a forgery was opened");
    }
    if keys().open_head(0, Bytes::copy_from_slice(data)).is_ok() {
        assert_eq!(data, keys().seal_head(&head(), &Counted::default()), "a forgery was opened");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut items = Vec::new();
    let row = |value| Item::Row { key: Bytes::from_static(b"key"), value };
    let unsaved = Unsaved {
        volume: VolumeId(1),
        object: ObjectId::from_bytes([2; ObjectId::LEN]),
        ranges: vec![0..9, 12..14],
    };
    let all = [
        row(Some(Bytes::from_static(b"value"))),
        row(None),
        Item::Unsaved(unsaved),
        Item::Configuration("text".into()),
        Item::End(Mark { objects: 0, ..head().marks[0] }),
    ];
    all.iter().for_each(|item| item.encode(&mut items));
    let numbers = Numbers { start: 1, from: 2, to: 3 };
    let state = State {
        backups: 4,
        parent: Some(head().as_parent()),
        numbers: vec![numbers],
        retired: vec![Retired { numbers, places: vec!["a".into()] }],
        starts: 2,
        known: vec![Known { id: [3; 16], backup: 9, starts: 1 }],
        ..State::default()
    };
    let sealed =
        [keys().seal_head(&head(), &Counted::default()), keys().seal_claim(&claim(), &Counted::default())];
    let plain = [items, head().encode(), state.encode(), claim().encode()];
    plain.into_iter().chain(sealed.iter().map(|sealed| sealed.to_vec())).collect()
}
