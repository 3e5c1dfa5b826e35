use bytes::BytesMut;
use cloud::Operation;
use disperse::Part;
use ids::GatewayId;
use proptest::prelude::*;
use seal::{SEAL_DATA_AT, Signer, SigningKey};

use super::random::trouble;
use super::*;
use crate::{PackBuilder, PackReads, PackVersion, PackedBlock, PlaceInPack, Redundancy};

/// A file with one block, which lies in a pack.
struct Small {
    key: FileKey,
    id: BlockIdentity,
    content: Bytes,
    place: PlaceInPack,
}

/// One file of each of these lengths.
const LENGTHS: [usize; 7] = [10, 4096, 5000, 0, 7000, 6000, 1];

fn owner() -> Signer {
    Signer { gateway: GatewayId(1), key: SigningKey::of_seed(&[9; 32]).into() }
}

fn pack_id(version: u64) -> BlockIdentity {
    let object = ObjectId { creator: GatewayId(1), number: ObjectNumber(1000) };
    BlockIdentity { object, block: BlockIndex(0), version: Version(version), ..identity() }
}

impl World {
    fn version<'a>(&'a self, id: &'a BlockIdentity) -> PackVersion<'a> {
        PackVersion { key: &self.key, id, seal: SEAL, placement: &self.placement }
    }

    /// Stores a pack with every fragment in its place.
    async fn fill_pack(&self, id: &BlockIdentity, seed: u64) -> Vec<Small> {
        let mut builder = PackBuilder::new(id.volume, self.placement.block_shift().bytes());
        let mut files = Vec::new();
        for (at, length) in LENGTHS.into_iter().enumerate() {
            let object = ObjectId { creator: GatewayId(1), number: ObjectNumber(100 + at as u128) };
            let (block, key) = (BlockIdentity { object, ..identity() }, FileKey::from_bytes([at as u8; 32]));
            let content = content(seed + at as u64).slice(..length);
            let (placement, protection) = (&self.placement, Protection::default());
            let parts = [content.slice(..length / 2), content.slice(length / 2..)];
            let sealed = self.store.seal_for_pack(&key, &block, placement, &parts, protection).unwrap();
            builder.push(block, sealed).unwrap();
            files.push((key, block, content));
        }
        let stored =
            self.store.store_pack(self.version(id), builder, &owner(), Redundancy::Enough).await.unwrap();
        assert_eq!(stored.stored.missing, NONE);
        let files = files.into_iter().zip(stored.places);
        files.map(|((key, id, content), place)| Small { key, id, content, place }).collect()
    }

    async fn get_packed(&self, id: &BlockIdentity, file: &Small) -> Result<Loaded, LoadError> {
        self.store.forget_recent_packs();
        let block = PackedBlock { key: &file.key, id: &file.id, place: &file.place };
        self.store.load_packed(self.version(id), block, &All(true)).await
    }

    /// Reads several blocks together, all of which come back.
    async fn get_together(&self, id: &BlockIdentity, files: &[Small]) -> Vec<u8> {
        let blocks: Vec<_> = files
            .iter()
            .map(|file| PackedBlock { key: &file.key, id: &file.id, place: &file.place })
            .collect();
        let loaded = self.store.load_packed_together(self.version(id), &blocks, &All(true)).await.unwrap();
        for (file, block) in files.iter().zip(loaded.blocks) {
            assert_eq!(block.unwrap().plaintext, file.content);
        }
        loaded.bad.iter().map(|bad| bad.fragment).collect()
    }

    /// The fragments that show the block, and where.
    fn parts(&self, place: &PlaceInPack) -> Vec<Part> {
        let sealed_len = u64::from(place.pack_len) + seal::SEAL_OVERHEAD as u64;
        let first = SEAL_DATA_AT as u64 + u64::from(place.offset);
        let range = first..first + u64::from(place.len);
        disperse::locate(self.placement.scheme(), sealed_len, range).unwrap()
    }

    /// Changes one byte of a part.
    fn spoil(&self, id: &BlockIdentity, fragment: u8, column: u64) {
        let mut bytes = self.peek(id, fragment).to_vec();
        bytes[disperse::HEADER_LEN + column as usize] ^= 0x20;
        self.poke(id, fragment, Bytes::from(bytes));
    }

    /// Requests for objects of this pack since the test began.
    fn gets(&self, id: &BlockIdentity) -> usize {
        let of = |fragment: u8| {
            let name = self.name(id, fragment).to_string();
            let calls = self.clouds[usize::from(fragment)].calls();
            calls.iter().filter(|(operation, object)| (*operation, object) == (Operation::Get, &name)).count()
        };
        self.placement.fragments().map(of).sum()
    }
}

fn faulty_fragments(loaded: &Loaded) -> Vec<u8> {
    loaded.bad.iter().map(|bad| bad.fragment).collect()
}

#[tokio::test(start_paused = true)]
async fn every_block_of_a_pack_comes_back_by_every_scheme() {
    for scheme in SCHEMES {
        let world = World::new(scheme);
        let id = pack_id(1);
        let files = world.fill_pack(&id, 1).await;
        for cloud in &world.clouds {
            assert_eq!(cloud.inner().names().len(), 1, "one object in each cloud, {scheme}");
        }
        for file in &files {
            let loaded = world.get_packed(&id, file).await.unwrap();
            assert_eq!(loaded.plaintext, file.content, "{scheme}");
            assert!(loaded.bad.is_empty() && world.incidents().is_empty());
        }
        let whole = world.store.load_pack(world.version(&id), &owner().owner(), &All(true)).await.unwrap();
        let blocks: Vec<_> = files.iter().map(|file| (file.id, file.place)).collect();
        assert_eq!(whole.pack.blocks(), blocks);
        assert_eq!(whole.pack.certificate().owner, owner().owner());
        for Small { key, id, content, place } in &files {
            let opened = whole.pack.open_block(&PackedBlock { key, id, place }, &world.placement).unwrap();
            assert_eq!(opened.plaintext, content);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_costs_one_request_for_its_own_bytes_or_two_at_the_border_of_shards() {
    for scheme in ["replicas:3", "rs:1+1", "rs:2+1", "rs:4+2", "rs:3+0"] {
        let world = World::new(scheme);
        let id = pack_id(1);
        let files = world.fill_pack(&id, 1).await;
        let moved = Arc::new(Mutex::new(0));
        for cloud in &world.clouds {
            let moved = moved.clone();
            let count = move |_: &ObjectName, bytes: Bytes| {
                *moved.lock() += bytes.len();
                bytes
            };
            cloud.set(Side::Reads, CloudFault::Corrupt(Arc::new(count)));
        }
        for file in &files {
            let before = world.gets(&id);
            *moved.lock() = 0;
            assert_eq!(world.get_packed(&id, file).await.unwrap().plaintext, file.content);
            let parts = world.parts(&file.place).len();
            assert!(parts <= 2, "{scheme}");
            assert_eq!(world.gets(&id) - before, parts, "{scheme}");
            assert_eq!(*moved.lock(), file.place.len as usize, "{scheme}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pack_that_shows_no_parts_is_loaded_whole() {
    for scheme in ["aont-rs:2+1", "caont-rs:3+1"] {
        let world = World::new(scheme);
        let id = pack_id(1);
        let files = world.fill_pack(&id, 1).await;
        let loaded = world.get_packed(&id, &files[2]).await.unwrap();
        assert_eq!(loaded.plaintext, files[2].content);
        assert_eq!(world.gets(&id), world.placement.scheme().needed());
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_of_a_cloud_that_is_down_or_lost_them_are_decoded_from_the_same_columns_of_others() {
    for (scheme, is_lost) in
        ["replicas:2", "rs:2+1", "rs:4+2"].into_iter().flat_map(|s| [(s, false), (s, true)])
    {
        let world = World::new(scheme);
        let id = pack_id(1);
        let files = world.fill_pack(&id, 1).await;
        for fragment in world.placement.fragments() {
            let (kept, cloud) = (world.peek(&id, fragment), &world.clouds[usize::from(fragment)]);
            match is_lost {
                true => world.poke(&id, fragment, None),
                false => cloud.set(Side::Reads, CloudFault::Fail(ErrorKind::Refused)),
            }
            let needed = world.placement.scheme().needed();
            let mut noticed = 0;
            for file in &files {
                let before = world.gets(&id);
                let loaded = world.get_packed(&id, file).await.unwrap();
                assert_eq!(loaded.plaintext, file.content, "{scheme}");
                let parts = world.parts(&file.place).len();
                assert!(world.gets(&id) - before <= (needed + 1) * parts, "no whole pack, {scheme}");
                assert!(faulty_fragments(&loaded).iter().all(|bad| is_lost && *bad == fragment));
                noticed += loaded.bad.len();
            }
            let incidents = world.incidents();
            assert_eq!(incidents.len(), noticed, "{scheme}");
            assert!(incidents.iter().all(|incident| incident.wrong == "missing"));
            // A replica or a parity shard that is not asked for is not missed.
            assert!(noticed > 0 || !is_lost || needed == 1 || usize::from(fragment) >= needed, "{scheme}");
            cloud.set(Side::Reads, CloudFault::None);
            world.poke(&id, fragment, kept);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_cloud_costs_a_read_one_hedge() {
    for scheme in ["replicas:2", "rs:2+1", "rs:4+2"] {
        let world = World::new(scheme);
        let id = pack_id(1);
        let files = world.fill_pack(&id, 1).await;
        let file = &files[1];
        let fragment = world.parts(&file.place)[0].fragment;
        world.clouds[usize::from(fragment)].set(Side::Reads, CloudFault::Hang);
        let begun = world.env.clock.monotonic();
        assert_eq!(world.get_packed(&id, file).await.unwrap().plaintext, file.content);
        let took = world.env.clock.monotonic() - begun;
        assert!(took <= Duration::from_millis(250), "{scheme}: {took:?}");
        assert!(world.incidents().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lie_about_the_block_is_found_served_from_others_and_repaired() {
    for scheme in ["replicas:2", "rs:2+1", "rs:3+2", "rs:1+1"] {
        for at in 0..LENGTHS.len() {
            let world = World::new(scheme);
            let id = pack_id(1);
            let files = world.fill_pack(&id, 1).await;
            let file = &files[at];
            let parts = world.parts(&file.place);
            let Part { fragment, columns } = &parts[at % parts.len()];
            world.prefer(*fragment).await;
            world.spoil(&id, *fragment, columns.start);

            let loaded = world.get_packed(&id, file).await.unwrap();
            assert_eq!(loaded.plaintext, file.content, "{scheme}");
            assert_eq!(faulty_fragments(&loaded), [*fragment]);
            let incidents = world.incidents();
            let [incident] = &incidents[..] else { panic!("one incident: {incidents:?}") };
            assert_eq!(&*incident.cloud, format!("cloud{}", fragment + 10));
            assert_eq!((incident.object, incident.outcome), (id.object, Outcome::ServedFromOthers));

            let repaired = world.repair(&id, &[*fragment]).await.unwrap();
            assert_eq!(repaired.repaired, [*fragment]);
            assert_eq!(world.faulty(&id).await, NONE);
            assert!(world.get_packed(&id, file).await.unwrap().bad.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_liar_whose_fragment_the_whole_pack_does_without_is_named_all_the_same() {
    let world = World::new("rs:2+2");
    let id = pack_id(1);
    let files = world.fill_pack(&id, 1).await;
    let Part { fragment, columns } = &world.parts(&files[1].place)[0];
    // The slowest of all: asked for what only it shows, and for nothing else.
    world.prefer((fragment + 1) % 4).await;
    world.clouds[usize::from(*fragment)].set(Side::Reads, CloudFault::Delay(Duration::from_millis(15)));
    world.spoil(&id, *fragment, columns.start);
    let loaded = world.get_packed(&id, &files[1]).await.unwrap();
    assert_eq!(
        (loaded.plaintext.clone(), faulty_fragments(&loaded)),
        (files[1].content.clone(), vec![*fragment])
    );
    assert_eq!(world.incidents().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_lies_about_parts_only_is_caught() {
    let world = World::new("rs:2+1");
    let id = pack_id(1);
    let files = world.fill_pack(&id, 1).await;
    let fragment = world.parts(&files[1].place)[0].fragment;
    let whole = world.peek(&id, fragment).len();
    let lie = move |_: &ObjectName, bytes: Bytes| match bytes.len() < whole {
        true => bytes.iter().map(|byte| byte ^ 1).collect::<Vec<_>>().into(),
        false => bytes,
    };
    world.clouds[usize::from(fragment)].set(Side::Reads, CloudFault::Corrupt(Arc::new(lie)));
    let loaded = world.get_packed(&id, &files[1]).await.unwrap();
    assert_eq!(loaded.plaintext, files[1].content);
    assert_eq!(faulty_fragments(&loaded), [fragment]);
    let incidents = world.incidents();
    assert_eq!(incidents.len(), 1);
    assert!(incidents[0].wrong.contains("in a part"), "{}", incidents[0].wrong);
}

#[tokio::test(start_paused = true)]
async fn a_lie_among_the_columns_that_stand_in_for_a_cloud_is_found() {
    for at in 0..LENGTHS.len() {
        let world = World::new("rs:4+2");
        let id = pack_id(1);
        let file = &world.fill_pack(&id, 1).await[at];
        let Part { fragment, columns } = &world.parts(&file.place)[0];
        let liar = (fragment + 1) % 4;
        world.prefer(liar).await;
        world.clouds[usize::from(*fragment)].set(Side::Reads, CloudFault::Hang);
        world.spoil(&id, liar, columns.start);
        let loaded = world.get_packed(&id, file).await.unwrap();
        assert_eq!(loaded.plaintext, file.content);
        assert_eq!(faulty_fragments(&loaded), [liar]);
        assert_eq!(world.incidents().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lie_about_the_rest_of_the_pack_does_not_disturb_and_is_found_by_a_check() {
    let world = World::new("rs:2+1");
    let id = pack_id(1);
    let files = world.fill_pack(&id, 1).await;
    let Part { fragment, columns } = &world.parts(&files[1].place)[0];
    world.spoil(&id, *fragment, columns.end);
    let loaded = world.get_packed(&id, &files[1]).await.unwrap();
    assert_eq!((loaded.plaintext.clone(), faulty_fragments(&loaded)), (files[1].content.clone(), vec![]));
    assert_eq!(world.gets(&id), 1);
    assert!(world.incidents().is_empty());
    assert_eq!(world.faulty(&id).await, [*fragment]);
}

#[tokio::test(start_paused = true)]
async fn an_older_pack_in_place_of_the_newer_is_noticed() {
    for scheme in ["replicas:2", "rs:2+1", "aont-rs:2+1"] {
        let world = World::new(scheme);
        let (old, new) = (pack_id(1), pack_id(2));
        world.fill_pack(&old, 50).await;
        let files = world.fill_pack(&new, 1).await;
        world.prefer(0).await;
        world.poke(&new, 0, world.peek(&old, 0));
        for file in &files {
            let loaded = world.get_packed(&new, file).await.unwrap();
            assert_eq!(loaded.plaintext, file.content, "{scheme}");
        }
        assert!(!world.incidents().is_empty());
        assert_eq!(world.faulty(&new).await, [0]);
    }
}

#[tokio::test(start_paused = true)]
async fn another_sealing_of_the_same_version_does_not_pass_for_the_block() {
    let world = World::new("replicas:2");
    let (abandoned, id) = (pack_id(1), pack_id(2));
    // The same versions of the same files, sealed before a crash with another content.
    let before = world.fill_pack(&abandoned, 50).await;
    let files = world.fill_pack(&id, 1).await;
    let elsewhere = PlaceInPack { name: files[1].place.name, ..before[1].place };
    let block = PackedBlock { key: &files[1].key, id: &files[1].id, place: &elsewhere };
    let error = world.store.load_packed(world.version(&abandoned), block, &All(true)).await.unwrap_err();
    assert!(matches!(error, LoadError::NotOpened { .. }), "{error}");
    assert!(world.incidents().is_empty(), "no cloud is to blame");
}

#[tokio::test(start_paused = true)]
async fn no_cloud_is_accused_of_a_pack_that_was_cleaned_away() {
    let world = World::new("rs:2+1");
    let id = pack_id(1);
    let files = world.fill_pack(&id, 1).await;
    assert!(world.store.delete(&world.key, &id, SEAL, &world.placement).await.is_empty());
    let block = PackedBlock { key: &files[0].key, id: &files[0].id, place: &files[0].place };
    let error = world.store.load_packed(world.version(&id), block, &All(false)).await.unwrap_err();
    assert!(matches!(&error, LoadError::Superseded { block } if **block == id), "{error}");
    assert!(world.incidents().is_empty());
    let error = world.get_packed(&id, &files[0]).await.unwrap_err();
    assert!(matches!(error, LoadError::Unreadable { .. }), "{error}");
    assert_eq!(world.incidents().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_pack_larger_than_its_block_size_is_refused_before_anything_is_sent() {
    let world = World::new("rs:2+1");
    let mut builder = PackBuilder::new(identity().volume, 1 << 30);
    for version in 1..=2 {
        let id = BlockIdentity { version: Version(version), ..identity() };
        let parts = [BytesMut::zeroed(40_000).freeze()];
        let (key, placement, protection) = (&world.key, &world.placement, Protection::default());
        builder
            .push(id, world.store.seal_for_pack(key, &id, placement, &parts, protection).unwrap())
            .unwrap();
    }
    let error = world
        .store
        .store_pack(world.version(&pack_id(1)), builder, &owner(), Redundancy::Enough)
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::TooLong { .. }), "{error}");
    assert!(world.clouds.iter().all(|cloud| cloud.calls().is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn up_to_m_faulty_clouds_read_packed_blocks_right_and_more_never_read_them_wrong(
        data in 1u8..5,
        parity in 0u8..4,
        kind in 0usize..4,
        troubles in prop::collection::btree_map(0u8..9, trouble(), 0..9),
    ) {
        let scheme = match kind {
            0 => format!("replicas:{}", parity + 1),
            1 | 2 => format!("rs:{data}+{parity}"),
            _ => format!("aont-rs:{}+{parity}", data + 1),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let world = World::new(&scheme);
            let id = pack_id(2);
            world.fill_pack(&pack_id(1), 50).await;
            world.fill(&BlockIdentity { block: BlockIndex(4), ..id }, &content(3)).await;
            let files = world.fill_pack(&id, 1).await;
            let total = world.placement.scheme().total() as u8;
            let troubles: Vec<_> = troubles.into_iter().filter(|(fragment, _)| *fragment < total).collect();
            for (fragment, trouble) in &troubles {
                trouble.strike(&world, &id, *fragment);
            }
            for file in &files {
                match world.get_packed(&id, file).await {
                    Ok(loaded) => prop_assert_eq!(&loaded.plaintext, &file.content),
                    Err(error) => prop_assert!(troubles.len() > world.placement.scheme().spare(), "{}", error),
                }
            }
            let accused: Vec<_> = world.incidents().iter().map(|incident| incident.fragment).collect();
            prop_assert!(accused.iter().all(|fragment| troubles.iter().any(|(struck, _)| struck == fragment)));
            Ok(())
        })?;
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_that_lie_side_by_side_are_one_request() {
    for scheme in ["replicas:3", "rs:1+1", "rs:2+1", "rs:4+2"] {
        let world = World::new(scheme);
        let id = pack_id(1);
        let files = world.fill_pack(&id, 1).await;
        let first = world.parts(&files[1].place)[0].fragment;
        let last = world.parts(&files[2].place).pop().unwrap().fragment;
        assert_eq!(world.get_together(&id, &files[1..3]).await, NONE, "{scheme}");
        assert_eq!(world.gets(&id), usize::from(last - first) + 1, "{scheme}");
        assert_eq!(world.store.pack_reads(), PackReads { run: 2, ..PackReads::default() });
    }
}

#[tokio::test(start_paused = true)]
async fn who_wants_most_of_a_pack_has_it_loaded_once() {
    for scheme in ["replicas:3", "rs:2+1", "rs:4+2", "aont-rs:2+1"] {
        let world = World::new(scheme);
        let id = pack_id(1);
        let files = world.fill_pack(&id, 1).await;
        let needed = world.placement.scheme().needed();
        for round in 0..3 {
            assert_eq!(world.get_together(&id, &files).await, NONE, "{scheme}");
            assert_eq!(world.gets(&id), needed, "{scheme}, round {round}");
        }
        assert_eq!(world.store.pack_reads(), PackReads { whole: 7, kept: 14, ..PackReads::default() });
        world.store.forget_recent_packs();
        world.get_together(&id, &files).await;
        assert_eq!(world.gets(&id), 2 * needed, "{scheme}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lie_about_one_of_several_blocks_is_found_and_the_others_are_right() {
    for scheme in ["replicas:3", "rs:2+1", "rs:4+2"] {
        let world = World::new(scheme);
        let id = pack_id(1);
        let files = world.fill_pack(&id, 1).await;
        let part = world.parts(&files[2].place).remove(0);
        world.spoil(&id, part.fragment, part.columns.start);
        if scheme == "replicas:3" {
            // Whichever of them is asked.
            (1..3).for_each(|other| world.spoil(&id, other, part.columns.start + 1));
            let blocks = [PackedBlock { key: &files[2].key, id: &files[2].id, place: &files[2].place }];
            let loaded = world.store.load_packed_together(world.version(&id), &blocks, &All(true)).await;
            assert!(matches!(loaded, Err(LoadError::Unreadable { .. })));
            continue;
        }
        assert_eq!(world.get_together(&id, &files[1..3]).await, [part.fragment], "{scheme}");
        assert_eq!(world.incidents().len(), 1);
    }
}
