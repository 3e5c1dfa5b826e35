use cloud::{Direction, Operation};

use super::*;

fn gets(world: &World) -> Vec<usize> {
    let of = |cloud: &Arc<Faulty<Arc<Memory>>>| {
        cloud.calls().iter().filter(|(operation, _)| *operation == Operation::Get).count()
    };
    world.clouds.iter().map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn a_hanging_cloud_costs_a_read_no_more_than_the_hedge() {
    for hanging in 0..4 {
        let world = World::new("rs:2+2");
        world.fill(&identity(), &content(1)).await;
        world.prefer(hanging).await;
        world.clouds[usize::from(hanging)].set(Side::Reads, CloudFault::Hang);
        let begun = world.env.clock.monotonic();
        let loaded = world.get(&identity()).await.unwrap();
        let took = world.env.clock.monotonic() - begun;
        assert_eq!(loaded.plaintext, content(1));
        // The hedge is at least 20 ms; the others answer in 10 ms.
        assert!(took <= Duration::from_millis(31), "{took:?}");
        assert!(loaded.bad.is_empty() && world.incidents().is_empty(), "slow is not bad");
    }
}

#[tokio::test(start_paused = true)]
async fn all_spare_clouds_hanging_cost_one_hedge_and_not_several() {
    let world = World::new("rs:3+3");
    world.fill(&identity(), &content(1)).await;
    for cloud in &world.clouds[3..] {
        cloud.set(Side::Reads, CloudFault::Delay(Duration::from_millis(1)));
    }
    for cloud in &world.clouds[..3] {
        cloud.set(Side::Reads, CloudFault::Hang);
    }
    let begun = world.env.clock.monotonic();
    assert_eq!(world.get(&identity()).await.unwrap().plaintext, content(1));
    let took = world.env.clock.monotonic() - begun;
    // Nothing is known of these clouds: the first hedge is 200 ms.
    assert_eq!(took.as_millis(), 201);
}

#[tokio::test(start_paused = true)]
async fn the_losers_of_a_hedge_are_cancelled_and_rank_lower_afterwards() {
    let world = World::new("replicas:2");
    world.fill(&identity(), &content(1)).await;
    world.prefer(0).await;
    world.clouds[0].set(Side::Reads, CloudFault::Hang);
    world.get(&identity()).await.unwrap();
    let health = world.store.clouds.get(&CloudId(10)).unwrap().health().snapshot();
    let (name, counts) = &health.operations[1];
    assert_eq!((*name, counts.cancelled, health.read.in_flight), ("get", 1, 0));
    // From now on the other cloud is asked first, and no hedge is needed.
    let before = gets(&world);
    for _ in 0..10 {
        world.get(&identity()).await.unwrap();
    }
    assert_eq!(gets(&world)[0], before[0]);
}

#[tokio::test(start_paused = true)]
async fn healthy_reads_ask_no_more_clouds_than_needed_and_prefer_the_fast() {
    let world = World::new("rs:2+1");
    world.fill(&identity(), &content(1)).await;
    world.prefer(2).await;
    world.clouds[0].set(Side::Reads, CloudFault::Delay(Duration::from_secs(1)));
    // The slow cloud is met at most once (K35).
    world.get(&identity()).await.unwrap();
    let before = gets(&world);
    for _ in 0..20 {
        world.get(&identity()).await.unwrap();
    }
    let during: Vec<_> = gets(&world).iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(during, [0, 20, 20]);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_read_frees_everything_it_held() {
    let world = World::new("rs:2+1");
    world.fill(&identity(), &content(1)).await;
    for cloud in &world.clouds {
        cloud.set(Side::Reads, CloudFault::Hang);
    }
    let given_up = tokio::time::timeout(Duration::from_secs(5), world.get(&identity())).await;
    assert!(given_up.is_err());
    for (_, health) in world.store.health() {
        assert_eq!(health.read.in_flight, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn clouds_out_of_reach_are_a_temporary_error() {
    let world = World::new("rs:2+1");
    world.fill(&identity(), &content(1)).await;
    for cloud in &world.clouds[1..] {
        cloud.set(Side::Reads, CloudFault::Fail(ErrorKind::Transient));
    }
    let error = world.get(&identity()).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    assert!(world.incidents().is_empty(), "out of reach is no tampering");
}

#[tokio::test(start_paused = true)]
async fn many_reads_go_on_at_once_and_spread_over_the_clouds() {
    // K36: sixteen blocks take far less than sixteen times one; K60: the slower cloud takes a share.
    let world = World::new("replicas:2");
    let ids: Vec<_> = (1..=64).map(|n| BlockIdentity { version: Version(n), ..identity() }).collect();
    for id in &ids {
        world.fill(id, &content(1)).await;
    }
    for (cloud, millis) in world.clouds.iter().zip([10, 15]) {
        cloud.set(Side::Reads, CloudFault::Delay(Duration::from_millis(millis)));
    }
    futures::future::join_all(ids[..4].iter().map(|id| world.faulty(id))).await;
    let (before, begun) = (gets(&world), world.env.clock.monotonic());
    futures::future::join_all(ids.iter().map(|id| world.get(id)))
        .await
        .into_iter()
        .for_each(|read| drop(read.unwrap()));
    let took = world.env.clock.monotonic() - begun;
    assert!(took < Duration::from_millis(60), "{took:?}");
    let shares: Vec<_> = gets(&world).iter().zip(before).map(|(after, before)| after - before).collect();
    assert!(shares[0] > shares[1] && shares[1] >= 10, "{shares:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sick_cloud_is_avoided_without_a_wait_and_used_again_when_it_has_recovered() {
    let world = World::new("replicas:2");
    world.fill(&identity(), &content(1)).await;
    world.prefer(0).await;
    world.clouds[0].set(Side::Reads, CloudFault::Hang);
    let health = world.store.clouds.get(&CloudId(10)).unwrap().health().clone();
    // Checks, unlike reads, wait for the time-outs.
    let id = identity();
    futures::future::join_all((0..5).map(|_| world.faulty(&id))).await;
    assert!(health.is_sick(Direction::Read));
    for _ in 0..100 {
        let begun = world.env.clock.monotonic();
        world.get(&identity()).await.unwrap();
        assert_eq!(world.env.clock.monotonic() - begun, Duration::from_millis(10));
        world.env.clock.sleep(Duration::from_secs(1)).await;
    }
    world.clouds[0].set(Side::Reads, CloudFault::None);
    for _ in 0..2 {
        // The probe that was hanging ends; the next one succeeds.
        world.env.clock.sleep(Duration::from_secs(300)).await;
        world.get(&identity()).await.unwrap();
    }
    world.env.clock.sleep(Duration::from_millis(1)).await;
    assert!(!health.is_sick(Direction::Read));
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_fails_is_replaced_at_once_and_asked_again_only_when_no_other_is_left() {
    let world = World::new("rs:2+1");
    world.fill(&identity(), &content(1)).await;
    world.prefer(0).await;
    world.clouds[0].set(Side::Reads, CloudFault::Fail(ErrorKind::Transient));
    let (begun, before) = (world.env.clock.monotonic(), gets(&world));
    world.get(&identity()).await.unwrap();
    assert_eq!((world.env.clock.monotonic() - begun).as_millis(), 10, "the time of the others");
    assert_eq!(gets(&world)[0] - before[0], 1);
    // Now it is needed: it has recovered by the time that it is asked again.
    world.clouds[1].set(Side::Reads, CloudFault::Hang);
    let clouds = world.clouds.clone();
    let clock = world.env.clock.clone();
    let recovers = async {
        clock.sleep(Duration::from_millis(300)).await;
        clouds[0].set(Side::Reads, CloudFault::None);
    };
    let (id, begun) = (identity(), world.env.clock.monotonic());
    let (loaded, ()) = futures::join!(world.get(&id), recovers);
    assert_eq!(loaded.unwrap().plaintext, content(1));
    let took = world.env.clock.monotonic() - begun;
    assert!(took < Duration::from_secs(5), "{took:?}: not after the time-out of the one that hangs");
}

#[tokio::test(start_paused = true)]
async fn where_no_other_cloud_is_left_a_late_one_is_asked_once_more() {
    let world = World::new("rs:2+1");
    let id = identity();
    world.fill(&id, &content(1)).await;
    world.clouds[0].set(Side::Reads, CloudFault::Fail(ErrorKind::Transient));
    futures::future::join_all((0..5).map(|_| world.faulty(&id))).await;
    assert!(world.store.clouds.get(&CloudId(10)).unwrap().health().is_sick(Direction::Read));
    world.clouds[1].set(Side::Reads, CloudFault::Hang);
    let (begun, before) = (world.env.clock.monotonic(), gets(&world));
    let clock = world.env.clock.clone();
    // Only the request that is on the way gets lost.
    let passes = async {
        clock.sleep(Duration::from_millis(1)).await;
        world.clouds[1].set(Side::Reads, CloudFault::None);
    };
    let (loaded, ()) = futures::join!(world.get(&id), passes);
    assert_eq!(loaded.unwrap().plaintext, content(1));
    let took = world.env.clock.monotonic() - begun;
    assert!(took <= Duration::from_millis(50), "{took:?}");
    assert_eq!(gets(&world)[1] - before[1], 2);
}

/// Cloud 0 fails so, cloud 1 answers four times out of five within 100 ms, and nineteen times out of twenty within 400 ms.
async fn world_with_a_bad_spare(kind: ErrorKind) -> World {
    let world = World::new("rs:2+1");
    world.fill(&identity(), &content(1)).await;
    world.clouds[0].set(Side::Reads, CloudFault::Fail(kind));
    for read in 0..40 {
        let millis = [50, 50, 50, 50, 50, 50, 100, 100, 200, 400][read % 10];
        world.clouds[1].set(Side::Reads, CloudFault::Delay(Duration::from_millis(millis)));
        assert_eq!(world.faulty(&identity()).await, [0]);
    }
    world.clouds[1].set(Side::Reads, CloudFault::Hang);
    world
}

/// How long a read takes, in milliseconds, whose first request to cloud 1 gets lost, and how many requests each cloud gets for it.
async fn read_with_a_loss(world: &World) -> (u128, Vec<usize>) {
    let (id, before, clock) = (identity(), gets(world), world.env.clock.clone());
    let begun = clock.monotonic();
    let passes = async {
        clock.sleep(Duration::from_millis(1)).await;
        world.clouds[1].set(Side::Reads, CloudFault::None);
    };
    let (loaded, ()) = futures::join!(world.get(&id), passes);
    assert_eq!(loaded.unwrap().plaintext, content(1));
    let asked = gets(world).iter().zip(before).map(|(after, before)| after - before).collect();
    ((clock.monotonic() - begun).as_millis(), asked)
}

#[tokio::test(start_paused = true)]
async fn where_the_others_are_sick_a_late_one_is_asked_again_before_the_usual_hedge() {
    let world = world_with_a_bad_spare(ErrorKind::Transient).await;
    assert!(world.store.clouds.get(&CloudId(10)).unwrap().health().is_sick(Direction::Read));
    let (took, asked) = read_with_a_loss(&world).await;
    assert!((90..=150).contains(&took), "{took}");
    assert_eq!(asked, [0, 2, 1]);
}

/// As after an outage, when what was written meanwhile is not repaired yet.
#[tokio::test(start_paused = true)]
async fn where_the_others_have_nothing_a_late_one_is_asked_again_before_the_usual_hedge() {
    let world = world_with_a_bad_spare(ErrorKind::NotFound).await;
    assert!(!world.store.clouds.get(&CloudId(10)).unwrap().health().is_sick(Direction::Read));
    let (took, asked) = read_with_a_loss(&world).await;
    assert!((90..=150).contains(&took), "{took}");
    assert_eq!(asked, [1, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_sick_cloud_is_asked_after_the_usual_hedge_when_a_second_request_does_not_help() {
    let world = world_with_a_bad_spare(ErrorKind::Transient).await;
    let (id, before, clock) = (identity(), gets(&world), world.env.clock.clone());
    let begun = clock.monotonic();
    let heals = async {
        clock.sleep(Duration::from_millis(200)).await;
        world.clouds[0].set(Side::Reads, CloudFault::None);
    };
    let (loaded, ()) = futures::join!(world.get(&id), heals);
    assert_eq!(loaded.unwrap().plaintext, content(1));
    let took = (clock.monotonic() - begun).as_millis();
    assert!((350..=450).contains(&took), "{took}");
    let asked: Vec<_> = gets(&world).iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(asked, [1, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn what_stands_in_for_what_is_late_and_missing_is_not_late_itself() {
    let world = World::new("rs:2+2");
    world.fill(&identity(), &content(1)).await;
    for (cloud, millis) in world.clouds.iter().zip([1, 5, 10, 30]) {
        cloud.set(Side::Reads, CloudFault::Delay(Duration::from_millis(millis)));
    }
    for _ in 0..8 {
        world.get(&identity()).await.unwrap();
    }
    world.clouds[0].set(Side::Reads, CloudFault::Hang);
    world.clouds[2].set(Side::Reads, CloudFault::Fail(ErrorKind::NotFound));
    let before = gets(&world);
    let bad = world.get(&identity()).await.unwrap().bad;
    assert_eq!(bad.iter().map(|fault| fault.fragment).collect::<Vec<_>>(), [2]);
    let asked: Vec<_> = gets(&world).iter().zip(before).map(|(after, before)| after - before).collect();
    // The one that is late, for the second time at last, and nobody else.
    assert_eq!(asked, [2, 1, 1, 1]);
}
