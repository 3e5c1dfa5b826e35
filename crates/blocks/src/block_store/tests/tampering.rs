//! The security tests of the source, 1 to 5, and more ways in which a cloud can lie.

use super::*;

/// Stores two versions, spoils the newer one's fragment in the cloud that is asked first, and expects the right
/// content, one incident that says `reason`, and a repair that makes all good (`K22`-`K28`, `K65`).
async fn survives(scheme: &str, reason: &str, spoil: impl Fn(&World, &BlockIdentity, u8)) {
    let total: u8 = scheme.parse::<disperse::Scheme>().unwrap().total() as u8;
    for fragment in 0..total {
        let world = World::new(scheme);
        let old = identity();
        let new = BlockIdentity { version: Version(2), ..old };
        world.fill(&old, &content(1)).await;
        world.fill(&new, &content(2)).await;
        world.prefer(fragment).await;
        spoil(&world, &new, fragment);

        let loaded = world.get(&new).await.unwrap();
        assert_eq!(loaded.plaintext, content(2), "{scheme} {fragment}");
        assert_eq!(loaded.bad.iter().map(|bad| bad.fragment).collect::<Vec<_>>(), [fragment]);
        let incidents = world.incidents();
        let [incident] = &incidents[..] else { panic!("one incident: {incidents:?}") };
        assert!(incident.wrong.contains(reason), "{} is not {reason}", incident.wrong);
        assert_eq!(&*incident.cloud, format!("cloud{}", fragment + 10));
        assert_eq!(incident.object_name, world.name(&new, fragment).to_string());
        assert_eq!((incident.block, incident.version), (BlockIndex(3), Version(2)));
        assert_eq!((incident.time, incident.outcome), (world.env.clock.wall(), Outcome::ServedFromOthers));

        assert_eq!(world.faulty(&new).await, [fragment]);
        let repaired = world.repair(&new, &[fragment]).await.unwrap();
        assert_eq!(repaired.repaired, [fragment]);
        assert!(repaired.failed.is_empty() && repaired.bad.is_empty());
        assert_eq!(world.faulty(&new).await, NONE);
        assert!(world.get(&new).await.unwrap().bad.is_empty());
    }
}

async fn survives_by_every_scheme(reason: &str, spoil: impl Fn(&World, &BlockIdentity, u8)) {
    for scheme in ["replicas:2", "rs:2+1", "rs:3+2", "aont-rs:2+1", "caont-rs:2+1", "caont-rs:3+2"] {
        survives(scheme, reason, &spoil).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_fragment_is_read_from_elsewhere() {
    survives_by_every_scheme("missing", |world, id, fragment| world.poke(id, fragment, None)).await;
}

#[tokio::test(start_paused = true)]
async fn a_flipped_byte_anywhere_is_noticed() {
    // Header, length, checksum, first and last byte of the body, and the seal's own header and tag.
    for at in [0, 4, 8, 15, 16, 31, 32, 33, 40, 90, 1000, usize::MAX] {
        let flip = |world: &World, id: &BlockIdentity, fragment| {
            let mut bytes = world.peek(id, fragment).to_vec();
            let at = at.min(bytes.len() - 1);
            bytes[at] ^= 0x10;
            world.poke(id, fragment, Bytes::from(bytes));
        };
        for scheme in ["replicas:2", "rs:2+1", "aont-rs:2+1", "caont-rs:2+1"] {
            survives(scheme, "", flip).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_swapped_blocks_of_one_file_are_noticed() {
    survives_by_every_scheme("checksum", |world, id, fragment| {
        let other = BlockIdentity { block: BlockIndex(4), ..*id };
        futures::FutureExt::now_or_never(world.fill(&other, &content(3))).expect("memory answers at once");
        let (one, two) = (world.peek(id, fragment), world.peek(&other, fragment));
        world.poke(id, fragment, two);
        world.poke(&other, fragment, one);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_swapped_blocks_of_two_files_are_noticed() {
    survives_by_every_scheme("checksum", |world, id, fragment| {
        let object = ObjectId { number: ObjectNumber(6), ..id.object };
        let (other, key) = (BlockIdentity { object, ..*id }, FileKey::from_bytes([8; 32]));
        let parts = [content(3)];
        let store = world.store.store(&key, &other, SEAL, &world.placement, &parts, Protection::default());
        assert!(futures::FutureExt::now_or_never(store).expect("memory answers at once").is_ok());
        let name = Target::new(&key, &other, SEAL, &world.placement).name_of(fragment);
        let theirs = world.memory(fragment).peek(&name).unwrap();
        world.memory(fragment).poke(&name, Some(world.peek(id, fragment)));
        world.poke(id, fragment, theirs);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_older_version_in_place_of_the_newer_is_noticed() {
    survives_by_every_scheme("checksum", |world, id, fragment| {
        let old = BlockIdentity { version: Version(1), ..*id };
        world.poke(id, fragment, world.peek(&old, fragment));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn truncated_extended_and_foreign_objects_are_noticed() {
    survives_by_every_scheme("shorter than its header", |world, id, fragment| {
        world.poke(id, fragment, world.peek(id, fragment).slice(..20));
    })
    .await;
    survives_by_every_scheme("shorter than its header", |world, id, fragment| {
        world.poke(id, fragment, Bytes::new())
    })
    .await;
    survives_by_every_scheme("instead of", |world, id, fragment| {
        let bytes = world.peek(id, fragment);
        world.poke(id, fragment, bytes.slice(..bytes.len() - 1));
    })
    .await;
    survives_by_every_scheme("instead of", |world, id, fragment| {
        world.poke(id, fragment, Bytes::from([&world.peek(id, fragment)[..], b"x"].concat()));
    })
    .await;
    survives_by_every_scheme("does not start a fragment", |world, id, fragment| {
        world.poke(id, fragment, Bytes::from(vec![b'x'; 1000]));
    })
    .await;
    survives_by_every_scheme("longer than", |world, id, fragment| {
        world.poke(id, fragment, Bytes::from(vec![0xF1; 10 << 20]));
    })
    .await;
    survives("rs:3+2", "came where", |world, id, fragment| {
        world.poke(id, fragment, world.peek(id, (fragment + 1) % 5));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_sealing_kept_by_a_cloud_does_not_pass_for_the_new_one() {
    for scheme in ["replicas:2", "rs:2+1", "aont-rs:2+1", "caont-rs:2+1"] {
        let world = World::new(scheme);
        world.fill(&identity(), &content(1)).await;
        let kept = world.peek(&identity(), 0);
        // The gateway crashed before the commit, came back, and stores newer content as the same version. The
        // cloud gives what it kept under the new name.
        let (seal, parts) = (SealId(2), [content(2)]);
        let (key, placement) = (&world.key, &world.placement);
        let again = world.store.store(key, &identity(), seal, placement, &parts, Protection::default()).await;
        assert_eq!(again.unwrap().missing, NONE);
        let renamed = Target::new(key, &identity(), seal, placement).name_of(0);
        world.memory(0).poke(&renamed, Some(kept));
        world.clouds[1].set(Side::Reads, CloudFault::Delay(Duration::from_millis(5)));
        let loaded = world.store.load(key, &identity(), seal, placement, &All(true)).await.unwrap();
        assert_eq!(loaded.plaintext, content(2));
        assert_eq!(loaded.bad.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn mixed_sealings_of_the_same_content_are_sorted_out_and_repaired() {
    for (scheme, stray) in (0..5).flat_map(|stray| [("rs:3+2", stray), ("aont-rs:3+2", stray)]) {
        let world = World::new(scheme);
        world.fill(&identity(), &content(1)).await;
        let first = world.peek(&identity(), stray);
        world.fill(&identity(), &content(1)).await;
        world.poke(&identity(), stray, first);
        world.prefer(stray).await;

        let loaded = world.get(&identity()).await.unwrap();
        assert_eq!(loaded.plaintext, content(1));
        let bad: Vec<_> = loaded.bad.iter().map(|bad| (bad.fragment, bad.what.to_string())).collect();
        assert_eq!(bad, [(stray, "of another sealing than the other fragments".to_owned())]);
        // Rebuilding another fragment must not spread the stray one.
        let other = (stray + 1) % 5;
        let repaired = world.repair(&identity(), &[other]).await.unwrap();
        assert_eq!(repaired.bad.iter().map(|bad| bad.fragment).collect::<Vec<_>>(), [stray]);
        assert_eq!(world.repair(&identity(), &[stray]).await.unwrap().repaired, [stray]);
        for lost in 0..5 {
            let kept = world.peek(&identity(), lost);
            world.poke(&identity(), lost, None);
            assert_eq!(world.get(&identity()).await.unwrap().plaintext, content(1));
            world.poke(&identity(), lost, kept);
        }
    }
}

/// What any clouds hold together that are fewer than needed, and the right keys: they open nothing.
#[tokio::test(start_paused = true)]
async fn fewer_fragments_than_needed_open_to_nothing_with_the_right_keys() {
    for scheme in ["rs:3+1", "aont-rs:3+1", "aont-rs:2+2", "caont-rs:3+1"] {
        let world = World::new(scheme);
        world.fill(&identity(), &content(1)).await;
        let (needed, total) = (world.placement.scheme().needed(), world.placement.scheme().total());
        let stored: Vec<Bytes> =
            world.placement.fragments().map(|fragment| world.peek(&identity(), fragment)).collect();
        let choices = (0_u32..1 << total).filter(|choice| choice.count_ones() as usize == needed - 1);
        for choice in choices {
            let is_kept = |fragment: usize| choice & 1 << fragment != 0;
            for (fragment, bytes) in stored.iter().enumerate() {
                world.poke(&identity(), fragment as u8, is_kept(fragment).then(|| bytes.clone()));
            }
            let error = world.get(&identity()).await.unwrap_err();
            let LoadError::Unreadable { good, .. } = error else { panic!("{scheme} {choice:b}: {error}") };
            assert_eq!(good, needed - 1, "{scheme} {choice:b}");
            let kept = (0..total).filter(|fragment| is_kept(*fragment));
            let bodies = kept.flat_map(|fragment| stored[fragment][disperse::HEADER_LEN..].to_vec());
            let part = seal::SealedBlock::from_untrusted(bodies.collect::<Vec<_>>().into());
            assert!(seal::open(&world.key, &identity(), part.clone()).is_err(), "{scheme} {choice:b}");
            assert!(seal::open_convergent(world.key.content_key(), part).is_err(), "{scheme} {choice:b}");
        }
    }
}

/// K32: what is the same in the clouds, and what is not.
#[tokio::test(start_paused = true)]
async fn equal_content_makes_equal_bodies_under_unlinkable_names_and_checksums() {
    let stored = async |scheme| {
        let world = World::new(scheme);
        let other = BlockIdentity { block: BlockIndex(9), version: Version(4), ..identity() };
        world.fill(&identity(), &content(1)).await;
        world.fill(&other, &content(1)).await;
        let fragments = world.placement.fragments();
        let pairs =
            fragments.map(|fragment| (world.peek(&identity(), fragment), world.peek(&other, fragment)));
        pairs.collect::<Vec<_>>()
    };
    for (one, other) in stored("caont-rs:3+1").await {
        assert_eq!(one[disperse::HEADER_LEN..], other[disperse::HEADER_LEN..]);
        assert_ne!(one[..disperse::HEADER_LEN], other[..disperse::HEADER_LEN]);
    }
    for scheme in ["replicas:2", "rs:3+1", "aont-rs:3+1"] {
        for (one, other) in stored(scheme).await {
            assert_ne!(one[disperse::HEADER_LEN..], other[disperse::HEADER_LEN..], "{scheme}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_bad_fragments_are_a_clean_error_with_all_reasons() {
    let world = World::new("rs:2+2");
    world.fill(&identity(), &content(1)).await;
    world.poke(&identity(), 0, None);
    world.poke(&identity(), 1, Bytes::from_static(b"nonsense"));
    world.poke(&identity(), 2, world.peek(&identity(), 3));
    let error = world.get(&identity()).await.unwrap_err();
    let LoadError::Unreadable { good: 1, needed: 2, faults, .. } = &error else { panic!("{error}") };
    assert_eq!(faults.len(), 3);
    assert!(!error.is_temporary());
    for reason in ["cloud 10: missing", "cloud 11: fragment of 8 bytes", "cloud 12: fragment 3 came where 2"]
    {
        assert!(error.to_string().contains(reason), "{error}");
    }
    let incidents = world.incidents();
    assert_eq!(incidents.len(), 3);
    assert!(incidents.iter().all(|incident| incident.outcome == Outcome::Unreadable));
    let error = world.repair(&identity(), &[0, 1, 2]).await.unwrap_err();
    assert!(matches!(error, LoadError::Unreadable { .. }));
    assert!(world.memory(0).peek(&world.name(&identity(), 0)).is_none(), "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn the_wrong_file_key_is_a_clean_error() {
    let world = World::new("replicas:2");
    world.fill(&identity(), &content(1)).await;
    let key = FileKey::from_bytes([9; 32]);
    let error = world.store.load(&key, &identity(), SEAL, &world.placement, &All(true)).await.unwrap_err();
    assert!(matches!(error, LoadError::Unreadable { good: 0, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn late_uploads_of_an_abandoned_sealing_replace_nothing() {
    let world = World::new("rs:2+1");
    let (seal, parts) = (SealId(2), [content(2)]);
    let (key, placement) = (&world.key, &world.placement);
    let stored = world.store.store(key, &identity(), seal, placement, &parts, Protection::default()).await;
    assert_eq!(stored.unwrap().missing, NONE);
    // What the process had under way when it was killed arrives now.
    world.fill(&identity(), &content(1)).await;
    let loaded = world.store.load(key, &identity(), seal, placement, &All(true)).await.unwrap();
    assert_eq!(loaded.plaintext, content(2));
    assert!(loaded.bad.is_empty() && world.incidents().is_empty());
    assert!(world.store.delete(key, &identity(), SEAL, placement).await.is_empty());
    assert_eq!(world.store.load(key, &identity(), seal, placement, &All(true)).await.unwrap().bad.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_cloud_is_accused_of_a_version_that_was_superseded() {
    let world = World::new("rs:2+1");
    let (store, key, placement, gone) = (&world.store, &world.key, &world.placement, All(false));
    world.fill(&identity(), &content(1)).await;
    world.poke(&identity(), 0, None);
    world.poke(&identity(), 1, None);
    let error = store.load(key, &identity(), SEAL, placement, &gone).await.unwrap_err();
    assert!(matches!(error, LoadError::Superseded { .. }), "{error}");
    let error = store.repair(key, &identity(), SEAL, placement, &[0], &gone).await.unwrap_err();
    assert!(matches!(error, LoadError::Superseded { .. }), "{error}");
    assert!(store.verify(key, &identity(), SEAL, placement, &gone).await.is_none());
    assert!(world.incidents().is_empty());
    assert!(store.load(key, &identity(), SEAL, placement, &All(true)).await.is_err());
    assert_eq!(world.incidents().len(), 2, "of a current version they are");
}
