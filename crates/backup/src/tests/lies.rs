use super::*;
use crate::Standing;

/// A world with four backups in all clouds, and what the cloud `c` had after each.
async fn world() -> (World, Vec<Vec<(cloud::ObjectName, Bytes)>>) {
    let mut world = World::new();
    world.start().await;
    let mut past = Vec::new();
    for round in 0..4 {
        world.set(&format!("key{round}"), Some(b"value"));
        world.back_up().await.unwrap();
        world.catch_up_and_collect().await;
        let memory = &world.clouds[2].1;
        past.push(
            memory.names().into_iter().map(|name| (name.clone(), memory.peek(&name).unwrap())).collect(),
        );
    }
    (world, past)
}

async fn standing(world: &World, chosen: &Head) -> Vec<Standing> {
    let standings = world.survey().await.standings(chosen);
    standings.into_iter().map(|(_, standing)| standing).collect()
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_gives_back_an_old_backup_is_named() {
    let (world, past) = world().await;
    let memory = world.clouds[2].1.clone();
    for (number, old) in past.iter().enumerate() {
        memory.names().iter().for_each(|name| drop(memory.poke(name, None)));
        old.iter().for_each(|(name, bytes)| drop(memory.poke(name, Some(bytes.clone()))));
        let survey = world.survey().await;
        let newest = survey.newest().unwrap();
        assert_eq!(newest.mark().backup, 4);
        let (rows, _) = fetched(&world.keys, newest, &world.places()).await;
        assert_eq!(rows, world.rows);
        let found = standing(&world, newest).await;
        assert_eq!(found[..2], [Standing::Current, Standing::Current]);
        match &found[2] {
            Standing::Behind(mark) => assert_eq!(mark.backup, number as u64 + 1),
            other => assert_eq!((other, number), (&Standing::Current, 3)),
        }
    }
    world.down(2, true);
    let newest = world.survey().await.newest().unwrap().clone();
    assert!(matches!(standing(&world, &newest).await[2], Standing::Unreachable(_)));
    world.down(2, false);
    memory.names().iter().for_each(|name| drop(memory.poke(name, None)));
    assert_eq!(standing(&world, &newest).await[2], Standing::Empty);
}

#[tokio::test(start_paused = true)]
async fn changed_cut_swapped_and_missing_objects_come_from_another_cloud() {
    let (world, _) = world().await;
    let newest = world.survey().await.newest().unwrap().clone();
    // The liar is asked first.
    let mut places = world.places();
    places.rotate_left(2);
    let memory = world.clouds[2].1.clone();
    let names: Vec<_> =
        newest.objects.iter().map(|at| world.keys.object_name(&newest.id, at.start, at.number)).collect();
    let good: Vec<Bytes> = names.iter().map(|name| memory.peek(name).unwrap()).collect();
    let mut changed = good[1].to_vec();
    changed[200] ^= 1;
    let lies: [Option<Bytes>; 4] =
        [None, Some(changed.into()), Some(good[1].slice(..good[1].len() - 1)), Some(good[2].clone())];
    for lie in lies {
        memory.poke(&names[1], lie);
        let (rows, mark) = fetched(&world.keys, &newest, &places).await;
        assert_eq!((&rows, mark), (&world.rows, Some(newest.mark())));
        let mut fetch = Fetch::of(&world.keys, &newest, &places);
        while fetch.next().await.unwrap().is_some() {}
        let found: Vec<_> = fetch.findings.iter().map(|finding| (&*finding.place, finding.object)).collect();
        assert_eq!(found, [("c", 1)]);
        // Alone it is good for what comes before.
        let (rows, mark) = fetched(&world.keys, &newest, &places[..1]).await;
        assert_eq!(mark.map(|mark| mark.backup), Some(1));
        assert_eq!(rows, world.states[&(0, 1)]);
    }
    memory.poke(&world.keys.head_name(0), Some(good[0].clone()));
    assert!(matches!(standing(&world, &newest).await[2], Standing::Bad(_)));
}

#[tokio::test(start_paused = true)]
async fn two_gateways_that_went_on_from_one_backup_are_told_apart() {
    let (mut world, past) = world().await;
    // One of them never learnt of the other: a copy of its disk, started without the clouds a and b.
    let first = world.survey().await.newest().unwrap().clone();
    let mut other = World::new();
    other.keys = world.keys.clone();
    *other.kept.0.lock() = Some(State { numbers: Vec::new(), ..world.kept.0.lock().clone().unwrap() });
    let memory = other.clouds[2].1.clone();
    past[1].iter().for_each(|(name, bytes)| drop(memory.poke(name, Some(bytes.clone()))));
    other.start().await;
    other.set("other", Some(b"value"));
    other.back_up().await.unwrap();
    let head = other.survey().await.newest().unwrap().clone();
    assert_eq!(head.id, first.id, "it thinks that it is the only one");
    let own = &world.clouds[2].1;
    for name in memory.names() {
        own.poke(&name, memory.peek(&name));
    }
    world.set("more", Some(b"value"));
    let found = standing(&world, &first).await;
    assert!(matches!(found[2], Standing::Forked(0, _)), "{found:?}");
}
