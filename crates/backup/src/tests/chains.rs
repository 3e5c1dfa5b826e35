use proptest::prelude::*;

use super::*;
use crate::Standing;

#[derive(Debug, Clone)]
enum Step {
    Set(u8, Option<u16>),
    BackUp,
    CatchUp,
    Down(usize, bool),
    /// The process dies; what was not backed up is still in the store.
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..20_u8, prop::option::of(0..2000_u16)).prop_map(|(key, value)| Step::Set(key, value)),
        5 => Just(Step::BackUp),
        2 => Just(Step::CatchUp),
        2 => (0..3_usize, any::<bool>()).prop_map(|(cloud, down)| Step::Down(cloud, down)),
        1 => Just(Step::Crash),
    ]
}

/// Every cloud that has a head gives back exactly the state of its backup, alone; and the newest of all is the last one made.
async fn check(world: &World) {
    for at in 0..world.clouds.len() {
        world.down(at, false);
    }
    let survey = world.survey().await;
    for place in world.places() {
        let alone = std::slice::from_ref(&place);
        let survey = Survey::of(&world.keys, alone).await;
        for head in survey.heads() {
            let (rows, mark) = fetched(&world.keys, head, alone).await;
            assert_eq!(mark, Some(head.mark()), "{place:?} has a head without its objects");
            assert_eq!(rows, world.states[&(head.branch, head.mark().backup)]);
        }
    }
    if let Some(((_, last), _)) = world.states.last_key_value() {
        assert_eq!(survey.newest().unwrap().mark().backup, *last);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_head_in_every_cloud_is_good_for_the_state_of_its_instant(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            world.start().await;
            for step in steps {
                match step {
                    Step::Set(key, None) => world.set(&format!("key{key}"), None),
                    Step::Set(key, Some(length)) => {
                        world.set(&format!("key{key}"), Some(&vec![key; length.into()]));
                    }
                    Step::BackUp => match world.back_up().await {
                        Ok(_) | Err(BackupError::NoCloud(_)) => {}
                        Err(error) => panic!("{error}"),
                    },
                    Step::CatchUp => {
                        world.catch_up_and_collect().await;
                        world.hold().await.unwrap();
                    }
                    Step::Down(cloud, down) => world.down(cloud, down),
                    Step::Crash => {
                        // A start that cannot ask all clouds goes on all the same.
                        world.start().await;
                    }
                }
            }
            check(&world).await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_was_down_catches_up_and_old_chains_go_away_everywhere() {
    let mut world = World::new();
    world.start().await;
    world.set("a", Some(b"1"));
    world.down(2, true);
    world.back_up().await.unwrap();
    world.set("b", Some(b"2"));
    world.back_up().await.unwrap();
    world.catch_up_and_collect().await;
    assert_eq!(world.writer.as_ref().unwrap().progress().lacks, ["c"]);
    world.down(2, false);
    world.catch_up_and_collect().await;
    assert!(world.writer.as_ref().unwrap().progress().lacks.is_empty());
    let claim = world.keys.claim_name(0);
    let objects = |world: &World| {
        let count = |names: Vec<cloud::ObjectName>| names.iter().filter(|name| **name != claim).count();
        world.clouds.iter().map(|(_, memory, _)| count(memory.names())).collect::<Vec<_>>()
    };
    assert_eq!(objects(&world), [3, 3, 3]);

    // A restart begins a new chain; the old one goes when that is safe, also from a cloud that was down meanwhile.
    world.down(2, true);
    world.start().await;
    world.back_up().await.unwrap();
    world.catch_up_and_collect().await;
    assert_eq!(objects(&world), [2, 2, 3]);
    world.down(2, false);
    world.start().await;
    world.back_up().await.unwrap();
    world.catch_up_and_collect().await;
    assert_eq!(objects(&world), [2, 2, 2]);
    check(&world).await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_a_cloud_has_lost_are_brought_again() {
    let mut world = World::new();
    world.start().await;
    for key in ["a", "b", "c"] {
        world.set(key, Some(b"1"));
        world.back_up().await.unwrap();
    }
    let memory = world.clouds[1].1.clone();
    let before: Vec<_> = memory.names().into_iter().map(|name| (name.clone(), memory.peek(&name))).collect();
    for (name, stored) in &before {
        let stored = stored.as_ref().unwrap();
        let mut changed = stored.to_vec();
        changed[stored.len() / 2] ^= 1;
        for bad in [None, Some(changed.into()), Some(stored.slice(1..))] {
            memory.poke(name, bad);
            assert_eq!(world.look().await, ["b"], "missing, changed or shortened");
            world.catch_up_and_collect().await;
            assert_eq!(world.look().await, NONE);
        }
    }
    assert_eq!(memory.names().len(), before.len());
    check(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_look_keeps_its_rate_and_is_not_disturbed_by_backups_and_clouds_that_are_away() {
    let mut world = World::new();
    world.start().await;
    world.set("a", Some(&vec![1; 100_000]));
    world.back_up().await.unwrap();
    let memory = world.clouds[2].1.clone();
    let object = memory.names().into_iter().max_by_key(|name| memory.peek(name).unwrap().len()).unwrap();
    let good = memory.peek(&object).unwrap();
    let begun = world.environment.clock.monotonic();
    let look = world.writer.as_ref().unwrap().check().unwrap();
    assert_eq!(look.run(&world.places(), 10_000).await.right, ["a", "b", "c"]);
    let took = (world.environment.clock.monotonic() - begun).as_secs_f64();
    assert!((1.0..1.1).contains(&(took / (3.0 * good.len() as f64 / 10_000.0))), "{took} s");

    memory.poke(&object, None);
    let found = look.run(&world.places(), 0).await;
    assert_eq!((found.lacking.len(), found.unknown.len()), (1, 0));
    // An increment goes on behind what was looked at, and a base does not.
    world.set("b", Some(b"2"));
    world.back_up().await.unwrap();
    assert!(world.writer.as_mut().unwrap().learn(&look, &found));
    assert_eq!(world.writer.as_ref().unwrap().progress().lacks, ["c"]);
    world.catch_up_and_collect().await;
    assert_eq!(memory.peek(&object), Some(good));
    world.writer.as_mut().unwrap().begin_anew();
    world.back_up().await.unwrap();
    assert!(!world.writer.as_mut().unwrap().learn(&look, &found));
    assert_eq!(world.writer.as_ref().unwrap().progress().lacks, NONE);

    // Nothing is known of a cloud that does not answer, or is not asked.
    world.down(0, true);
    let look = world.writer.as_ref().unwrap().check().unwrap();
    let found = look.run(&world.places()[..2], 0).await;
    assert_eq!((found.lacking.len(), found.unknown), (0, vec!["a".to_owned(), "c".to_owned()]));
    check(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_head_that_no_cloud_has_any_more_is_stored_again_although_nothing_has_changed() {
    let mut world = World::new();
    world.start().await;
    for key in ["a", "b"] {
        world.set(key, Some(b"1"));
        world.back_up().await.unwrap();
    }
    let head = world.keys.head_name(world.writer.as_ref().unwrap().state().branch);
    let objects: Vec<_> = world.clouds[0].1.names().into_iter().filter(|name| *name != head).collect();
    // One has neither head nor first object, one lacks the head and another object, one the head.
    for (_, memory, _) in &world.clouds {
        memory.poke(&head, None);
    }
    world.clouds[0].1.poke(&objects[0], None);
    world.clouds[1].1.poke(&objects[1], None);
    assert_eq!(world.look().await, ["a", "b", "c"]);
    world.catch_up_and_collect().await;
    assert_eq!(world.look().await, NONE);
    check(&world).await;
}

#[tokio::test(start_paused = true)]
async fn increments_that_outgrow_their_base_are_followed_by_a_new_one() {
    let mut world = World::new();
    world.start().await;
    let mut bases = 0;
    for round in 0..12_u8 {
        world.set("large", Some(&vec![round; 900 << 10]));
        bases += usize::from(world.writer.as_ref().unwrap().wants_base());
        world.back_up().await.unwrap();
        world.catch_up_and_collect().await;
        assert!(world.clouds[0].1.names().len() <= 8, "bounded");
    }
    assert!((2..=4).contains(&bases), "{bases}");
    check(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_restored_gateway_begins_a_branch_and_overwrites_nothing() {
    let mut world = World::new();
    world.start().await;
    world.set("a", Some(b"1"));
    world.back_up().await.unwrap();
    let old = world.survey().await.newest().unwrap().clone();
    let known = world.survey().await.known();
    *world.kept.0.lock() = Some(State::restored(old.as_parent(), known));
    world.start().await;
    world.set("b", Some(b"2"));
    world.back_up().await.unwrap();
    world.catch_up_and_collect().await;
    let survey = world.survey().await;
    let newest = survey.newest().unwrap();
    assert_eq!((newest.branch, newest.parent), (1, Some(old.as_parent())));
    assert!(survey.heads().any(|head| *head == old), "the old branch is still there");
    assert!(survey.standings(newest).iter().all(|(_, standing)| *standing == Standing::Current));
    check(&world).await;
}

#[tokio::test(start_paused = true)]
async fn what_may_come_late_is_deleted_when_it_cannot_any_longer() {
    let mut world = World::new();
    world.connect();
    tokio::time::advance(LATE).await;
    world.start().await;
    world.set("a", Some(b"1"));
    world.back_up().await.unwrap();
    world.set("b", Some(b"2"));
    world.down(2, true);
    world.back_up().await.unwrap();
    world.down(2, false);
    let has =
        |world: &World, cloud: usize, name: &cloud::ObjectName| world.clouds[cloud].1.names().contains(name);
    let names = world.clouds[0].1.names();
    let late: Vec<_> = names.into_iter().filter(|name| !has(&world, 2, name)).collect();
    let [late] = &late[..] else { panic!("{late:?}") };
    // A restart begins a new chain. An object of the old one was given up at the third cloud.
    world.start().await;
    world.back_up().await.unwrap();
    world.catch_up_and_collect().await;
    assert!(!has(&world, 0, late) && !has(&world, 1, late));
    world.clouds[2].1.poke(late, Some(Bytes::from_static(b"late")));
    world.catch_up_and_collect().await;
    assert_eq!(world.kept.0.lock().as_ref().unwrap().retired[0].places, ["c"]);
    world.start().await;
    world.back_up().await.unwrap();
    tokio::time::advance(LATE).await;
    world.catch_up_and_collect().await;
    assert!(!has(&world, 2, late));
    assert!(world.writer.as_ref().unwrap().state().retired.is_empty());
    check(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_head_is_stored_again_when_an_older_one_may_have_come_late() {
    let mut world = World::new();
    world.connect();
    world.start().await;
    world.set("a", Some(b"1"));
    world.back_up().await.unwrap();
    let name = world.keys.head_name(0);
    let memory = world.clouds[1].1.clone();
    let older = memory.peek(&name);
    world.set("b", Some(b"2"));
    world.back_up().await.unwrap();
    let standings = async |world: &World| {
        let survey = world.survey().await;
        let newest = survey.newest().unwrap();
        survey.standings(newest).into_iter().filter(|(_, standing)| *standing == Standing::Current).count()
    };
    // A base, which needs nothing of the chain before; but the older head does.
    world.start().await;
    world.back_up().await.unwrap();
    memory.poke(&name, older);
    world.catch_up_and_collect().await;
    assert_eq!(standings(&world).await, 2, "it could still come");
    check(&world).await;
    tokio::time::advance(LATE).await;
    world.catch_up_and_collect().await;
    assert_eq!(standings(&world).await, 3);
    assert_eq!(memory.names().len(), 2, "object and head");
    check(&world).await;
}
