use cloud::Direction;

use super::*;

#[tokio::test(start_paused = true)]
async fn one_cloud_that_refuses_writes_leaves_a_debt_that_repair_pays() {
    for scheme in ["replicas:2", "rs:2+1", "rs:3+2", "aont-rs:2+1", "caont-rs:3+2"] {
        let world = World::new(scheme);
        world.clouds[1].set(Side::Writes, CloudFault::Fail(ErrorKind::Refused));
        for version in 1..=20 {
            let id = BlockIdentity { version: Version(version), ..identity() };
            assert_eq!(world.put(&id, &content(version)).await.unwrap().missing, [1], "{scheme}");
        }
        assert_eq!(world.env.clock.monotonic(), Duration::ZERO, "a refusal costs no waiting");
        let calls = world.clouds[1].calls().len();
        assert!(calls < 10, "a sick cloud is left alone, and not asked {calls} times");

        world.clouds[1].set(Side::Writes, CloudFault::None);
        for version in 1..=20 {
            let id = BlockIdentity { version: Version(version), ..identity() };
            assert_eq!(world.repair(&id, &[1]).await.unwrap().repaired, [1]);
            assert_eq!(world.faulty(&id).await, NONE);
        }
        assert!(!world.store.clouds.get(&CloudId(11)).unwrap().health().is_sick(Direction::Write));
        let id = BlockIdentity { version: Version(21), ..identity() };
        assert_eq!(world.put(&id, &content(21)).await.unwrap().missing, NONE, "well again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sick_cloud_is_probed_by_later_writes_without_any_repair() {
    let world = World::new("rs:2+1");
    world.clouds[0].set(Side::Writes, CloudFault::Fail(ErrorKind::Refused));
    for version in 1..=6 {
        let id = BlockIdentity { version: Version(version), ..identity() };
        assert_eq!(world.put(&id, &content(1)).await.unwrap().missing, [0]);
    }
    world.clouds[0].set(Side::Writes, CloudFault::None);
    world.env.clock.sleep(Duration::from_secs(120)).await;
    let id = BlockIdentity { version: Version(7), ..identity() };
    assert_eq!(world.put(&id, &content(1)).await.unwrap().missing, NONE);
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_for_stragglers_a_bounded_time() {
    // With a spare fragment stored, the wait for the rest is short; without one, longer.
    for (scheme, seconds) in [("rs:2+2", 2), ("rs:2+1", 4)] {
        let world = World::new(scheme);
        world.clouds[0].set(Side::Writes, CloudFault::Hang);
        let stored = world.put(&identity(), &content(1)).await.unwrap();
        assert_eq!(stored.missing, [0]);
        assert_eq!(world.env.clock.monotonic().as_secs(), seconds, "{scheme}");
        world.clouds[0].set(Side::Writes, CloudFault::None);
        assert_eq!(world.repair(&identity(), &[0]).await.unwrap().repaired, [0]);
    }
    let world = World::new("rs:2+1");
    world.clouds[2].set(Side::Writes, CloudFault::Delay(Duration::from_millis(1500)));
    assert_eq!(world.put(&identity(), &content(1)).await.unwrap().missing, NONE, "slow is not missing");
}

#[tokio::test(start_paused = true)]
async fn a_fragment_that_is_late_is_put_once_more() {
    let world = World::new("rs:2+1");
    let plaintext = content(1);
    let known = BlockIdentity { version: Version(9), ..identity() };
    assert_eq!(world.put(&known, &plaintext).await.unwrap().missing, NONE);
    world.clouds[0].set(Side::Writes, CloudFault::Hang);
    let id = identity();
    let passes = async {
        world.env.clock.sleep(Duration::from_secs(1)).await;
        world.clouds[0].set(Side::Writes, CloudFault::None);
    };
    let (stored, ()) = futures::join!(world.put(&id, &plaintext), passes);
    assert_eq!(stored.unwrap().missing, NONE);
    assert_eq!(world.env.clock.monotonic().as_secs(), 2);
    assert_eq!(world.faulty(&id).await, NONE);
}

/// Half of the patience is then what nineteen of twenty puts take, and a little of it has passed when the alarm comes.
#[tokio::test(start_paused = true)]
async fn a_fragment_that_is_late_in_a_slow_cloud_is_put_once_more_as_well() {
    let world = World::new("rs:2+1");
    let plaintext = content(1);
    world.clouds[0].set(Side::Writes, CloudFault::Delay(Duration::from_secs(3)));
    for version in 9..30 {
        let known = BlockIdentity { version: Version(version), ..identity() };
        assert_eq!(world.put(&known, &plaintext).await.unwrap().missing, NONE);
    }
    let health = world.store.clouds.get(&CloudId(10)).unwrap().health();
    let size = world.placement.usual_fragment();
    let usual = health.p95(Direction::Write, size).unwrap();
    assert!(usual > Limits::default().straggler, "{usual:?}");

    world.clouds[0].set(Side::Writes, CloudFault::Hang);
    // Timers go off at whole milliseconds.
    tokio::time::advance(Duration::from_micros(300)).await;
    let id = identity();
    let passes = async {
        world.env.clock.sleep(Duration::from_secs(1)).await;
        world.clouds[0].set(Side::Writes, CloudFault::Delay(Duration::from_secs(2)));
    };
    let (stored, ()) = futures::join!(world.put(&id, &plaintext), passes);
    assert_eq!(stored.unwrap().missing, NONE);
    assert_eq!(world.faulty(&id).await, NONE);
}

#[tokio::test(start_paused = true)]
async fn what_is_late_because_of_others_in_the_line_is_not_put_twice() {
    let mut world = World::new("rs:2+1");
    let options = Options { concurrent: 2, ..Options::default() };
    let connect = |(number, cloud): (u16, &Arc<Faulty<Arc<Memory>>>)| {
        let id = CloudId(10 + number);
        (id, Connection::assemble(&world.env, &format!("cloud{id}"), cloud.clone(), &options))
    };
    let connections: Vec<_> = (0..).zip(&world.clouds).map(connect).collect();
    world.store = BlockStore::new(&world.env, connections, world.incidents.clone(), Limits::default());
    world.clouds[2].set(Side::Writes, CloudFault::Delay(Duration::from_secs(1)));
    let plaintext = content(1);
    let ids: Vec<_> =
        (0..=4).map(|version| BlockIdentity { version: Version(version), ..identity() }).collect();
    assert_eq!(world.put(&ids[0], &plaintext).await.unwrap().missing, NONE);
    let stored = futures::future::join_all(ids[1..].iter().map(|id| world.put(id, &plaintext))).await;
    assert!(stored.iter().all(|stored| stored.as_ref().unwrap().missing == NONE));
    assert_eq!(world.clouds[2].calls().len(), 5);
}

/// Sixteen run at a time and take a second each: the last ones are not even sent when the shorter wait is over.
#[tokio::test(start_paused = true)]
async fn what_waits_for_its_turn_has_the_longest_wait() {
    let world = World::new("rs:2+1");
    world.clouds[0].set(Side::Writes, CloudFault::Delay(Duration::from_secs(1)));
    let plaintext = content(1);
    let ids: Vec<_> =
        (1..=140).map(|version| BlockIdentity { version: Version(version), ..identity() }).collect();
    let stored = futures::future::join_all(ids.iter().map(|id| world.put(id, &plaintext))).await;
    assert!(stored.iter().all(|stored| stored.as_ref().unwrap().missing == NONE));
    assert_eq!(world.clouds[0].calls().len(), 140, "none is put twice");
    assert_eq!(world.env.clock.monotonic().as_secs(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_stops_is_left() {
    for (after, until) in [(0, 4), (3500, 6)] {
        let world = World::new("rs:2+1");
        world.clouds[0].set(Side::Writes, CloudFault::Delay(Duration::from_secs(1)));
        let plaintext = content(1);
        let ids: Vec<_> =
            (1..=100).map(|version| BlockIdentity { version: Version(version), ..identity() }).collect();
        let hangs = async {
            if after > 0 {
                world.env.clock.sleep(Duration::from_millis(after)).await;
            }
            world.clouds[0].set(Side::Writes, CloudFault::Hang);
        };
        let writes = futures::future::join_all(ids.iter().map(|id| world.put(id, &plaintext)));
        let ((), stored) = futures::join!(hangs, writes);
        assert!(stored.iter().any(|stored| stored.as_ref().unwrap().missing == [0]));
        assert_eq!(world.env.clock.monotonic().as_secs(), until);
        let health = world.store.clouds.get(&CloudId(10)).unwrap().health();
        assert_eq!(health.is_sick(Direction::Write), after == 0, "only if it has answered none of them");
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_it_was_given_up_counts_as_long_as_others_are_waited_for() {
    let world = World::new("rs:2+2");
    world.clouds[1].set(Side::Writes, CloudFault::Delay(Duration::from_secs(1)));
    let plaintext = content(1);
    let ids: Vec<_> =
        (1..=140).map(|version| BlockIdentity { version: Version(version), ..identity() }).collect();
    let writes = futures::future::join_all(ids[1..].iter().map(|id| world.put(id, &plaintext)));
    let last = async {
        world.env.clock.sleep(Duration::from_millis(100)).await;
        world.clouds[0].set(Side::Writes, CloudFault::Delay(Duration::from_secs(5)));
        world.put(&ids[0], &plaintext).await
    };
    let (_, last) = futures::join!(writes, last);
    assert_eq!(last.unwrap().missing, NONE);
    assert_eq!(world.env.clock.monotonic().as_secs(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_put_without_an_answer_is_left_though_others_have_theirs() {
    let world = World::new("rs:2+1");
    let plaintext = content(1);
    let id_of = |version| BlockIdentity { version: Version(version), ..identity() };
    assert_eq!(world.put(&id_of(1), &plaintext).await.unwrap().missing, NONE);
    world.clouds[0].set(Side::Writes, CloudFault::Hang);
    let others = async {
        for (version, hangs_after) in [(3, 1500), (4, 1000)] {
            world.env.clock.sleep(Duration::from_millis(500)).await;
            world.clouds[0].set(Side::Writes, CloudFault::None);
            assert_eq!(world.put(&id_of(version), &plaintext).await.unwrap().missing, NONE);
            world.clouds[0].set(Side::Writes, CloudFault::Hang);
            world.env.clock.sleep(Duration::from_millis(hangs_after)).await;
        }
    };
    let (id, started) = (id_of(2), world.env.clock.monotonic());
    let put = async {
        let stored = world.put(&id, &plaintext).await;
        (stored, world.env.clock.monotonic() - started)
    };
    let ((stored, took), ()) = futures::join!(put, others);
    assert_eq!(stored.unwrap().missing, [0]);
    assert_eq!(took.as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_hangs_is_sick_after_some_writes_and_left_alone() {
    let world = World::new("rs:2+1");
    let put = async |version| {
        let id = BlockIdentity { version: Version(version), ..identity() };
        world.put(&id, &content(1)).await.unwrap().missing
    };
    for version in 10..80 {
        assert_eq!(put(version).await, NONE);
    }
    world.clouds[0].set(Side::Writes, CloudFault::Hang);
    let stored = futures::future::join_all((1..=5).map(&put)).await;
    assert_eq!(stored, [[0]; 5]);
    assert_eq!(world.env.clock.monotonic().as_secs(), 4);
    assert!(world.store.clouds.get(&CloudId(10)).unwrap().health().is_sick(Direction::Write));
    assert_eq!(put(6).await, [0]);
    assert_eq!(world.env.clock.monotonic().as_secs(), 4, "nobody waits for it");
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_the_gateway_itself_slows_down_is_not_sick_and_not_waited_for_longer() {
    // None gets through; one in two seconds.
    for (upload, least) in [(100, 8), (10_000, 5)] {
        let mut world = World::new("rs:2+1");
        let slowly = cloud::Rates { upload: Some(upload), ..cloud::Rates::default() };
        let connect = |(number, cloud): (u16, &Arc<Faulty<Arc<Memory>>>)| {
            let id = CloudId(10 + number);
            let rates = if number == 0 { slowly } else { cloud::Rates::default() };
            let options = Options { rates, ..Options::default() };
            (id, Connection::assemble(&world.env, &format!("cloud{id}"), cloud.clone(), &options))
        };
        let connections: Vec<_> = (0..).zip(&world.clouds).map(connect).collect();
        world.store = BlockStore::new(&world.env, connections, world.incidents.clone(), Limits::default());
        let plaintext = content(1);
        let ids: Vec<_> =
            (1..=8).map(|version| BlockIdentity { version: Version(version), ..identity() }).collect();
        let stored = futures::future::join_all(ids.iter().map(|id| world.put(id, &plaintext))).await;
        let degraded = stored.iter().filter(|stored| stored.as_ref().unwrap().missing == [0]).count();
        assert!(degraded >= least && (degraded == 8) == (least == 8), "{degraded}");
        assert_eq!(world.env.clock.monotonic().as_secs(), 4, "{upload}");
        assert!(!world.store.clouds.get(&CloudId(10)).unwrap().health().is_sick(Direction::Write));
    }
}

/// Sixteen run at a time and take a second each.
#[tokio::test(start_paused = true)]
async fn a_cloud_that_answers_others_is_not_sick_because_some_were_given_up() {
    let world = World::new("rs:2+1");
    world.clouds[0].set(Side::Writes, CloudFault::Delay(Duration::from_secs(1)));
    let plaintext = content(1);
    let ids: Vec<_> =
        (1..=300).map(|version| BlockIdentity { version: Version(version), ..identity() }).collect();
    let stored = futures::future::join_all(ids.iter().map(|id| world.put(id, &plaintext))).await;
    let degraded = stored.iter().filter(|stored| stored.as_ref().unwrap().missing == [0]).count();
    assert!(degraded > 20, "{degraded}");
    assert!(!world.store.clouds.get(&CloudId(10)).unwrap().health().is_sick(Direction::Write));
}

#[tokio::test(start_paused = true)]
async fn too_few_clouds_fail_the_write_and_a_later_one_succeeds() {
    let world = World::new("rs:2+1");
    for cloud in &world.clouds[1..] {
        cloud.set(Side::Writes, CloudFault::Fail(ErrorKind::Transient));
    }
    let error = world.put(&identity(), &content(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::TooFewStored { stored: 1, needed: 2, .. }), "{error}");
    assert!(error.to_string().contains("cloud 12"), "{error}");
    for cloud in &world.clouds {
        cloud.set(Side::Writes, CloudFault::None);
    }
    assert_eq!(world.put(&identity(), &content(1)).await.unwrap().missing, NONE);
    assert_eq!(world.get(&identity()).await.unwrap().plaintext, content(1));
}

#[tokio::test(start_paused = true)]
async fn a_configured_least_spare_is_kept() {
    let world = World::with("rs:2+1", Limits { least_spare: 1, ..Limits::default() });
    world.clouds[0].set(Side::Writes, CloudFault::Fail(ErrorKind::Refused));
    let error = world.put(&identity(), &content(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::TooFewStored { stored: 2, needed: 3, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_can_wait_is_stored_whole_or_not_at_all() {
    for scheme in SCHEMES {
        let world = World::new(scheme);
        let last = world.clouds.last().unwrap();
        let put = async |version| {
            let id = BlockIdentity { version: Version(version), ..identity() };
            let (parts, protection) = ([content(version)], Protection::default());
            world.store.store_whole(&world.key, &id, SEAL, &world.placement, &parts, protection).await
        };
        last.set(Side::Writes, CloudFault::Fail(ErrorKind::Refused));
        let total = world.placement.scheme().total();
        for version in 1..=5 {
            let error = put(version).await.unwrap_err();
            let StoreError::TooFewStored { stored, needed, .. } = error else { panic!("{error}") };
            assert_eq!((stored, needed), (total - 1, total), "{scheme}");
        }
        let calls = || world.clouds.iter().map(|cloud| cloud.calls().len()).sum::<usize>();
        let before = calls();
        let error = put(6).await.unwrap_err();
        assert!(error.to_string().contains("not asked"), "{error}");
        assert_eq!(calls(), before, "the others are not asked for what would be in vain");

        last.set(Side::Writes, CloudFault::Delay(Duration::from_secs(5)));
        world.env.clock.sleep(Duration::from_secs(120)).await;
        assert_eq!(put(7).await.unwrap().missing, NONE, "there is no hurry");
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_wait_spends_no_probe_while_another_cloud_is_sick_as_well() {
    let world = World::new("rs:2+2");
    let put = async |version| {
        let id = BlockIdentity { version: Version(version), ..identity() };
        let _stored = world.put(&id, &content(version)).await.unwrap();
    };
    for (cloud, first) in [(0, 1), (1, 11)] {
        world.clouds[cloud].set(Side::Writes, CloudFault::Fail(ErrorKind::Refused));
        for version in first..first + 5 {
            put(version).await;
        }
        // The first one's probe is due, the second one's is not.
        world.env.clock.sleep(Duration::from_millis(1500)).await;
    }
    let health = |id| world.store.clouds.get(&CloudId(id)).unwrap().health().clone();
    let admitted = || [10, 11].map(|id| health(id).would_admit(Direction::Write));
    assert_eq!(admitted(), [true, false]);
    let (parts, protection) = ([content(1)], Protection::default());
    let id = BlockIdentity { version: Version(20), ..identity() };
    let whole = world.store.store_whole(&world.key, &id, SEAL, &world.placement, &parts, protection).await;
    assert!(matches!(whole.unwrap_err(), StoreError::TooFewStored { stored: 0, .. }));
    assert_eq!(admitted(), [true, false]);
}

#[tokio::test(start_paused = true)]
async fn sick_clouds_are_tried_when_the_well_ones_do_not_suffice() {
    let world = World::new("replicas:2");
    world.clouds[0].set(Side::Writes, CloudFault::Fail(ErrorKind::Refused));
    for version in 1..=6 {
        let id = BlockIdentity { version: Version(version), ..identity() };
        assert_eq!(world.put(&id, &content(1)).await.unwrap().missing, [0]);
    }
    world.clouds[0].set(Side::Writes, CloudFault::None);
    world.clouds[1].set(Side::Writes, CloudFault::Fail(ErrorKind::Refused));
    let id = BlockIdentity { version: Version(7), ..identity() };
    assert_eq!(world.put(&id, &content(1)).await.unwrap().missing, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_put_does_no_harm() {
    let world = World::new("rs:2+1");
    world.clouds[0].set(Side::Writes, CloudFault::FailAfter(ErrorKind::Transient));
    assert_eq!(world.put(&identity(), &content(1)).await.unwrap().missing, [0]);
    assert_eq!(world.faulty(&identity()).await, NONE, "it arrived after all");
}
