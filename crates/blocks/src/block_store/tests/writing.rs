use futures::poll;

use super::*;

#[tokio::test(start_paused = true)]
async fn who_waits_for_writes_waits_for_all_that_began_before_and_for_no_others() {
    let store = World::new("rs:2+1").store;
    store.writes_ended().await;
    let first = store.writing();
    let mut one = Box::pin(store.writes_ended());
    assert!(poll!(&mut one).is_pending());
    let second = store.writing();
    let mut two = Box::pin(store.writes_ended());
    assert!(poll!(&mut two).is_pending());
    let third = store.writing();
    drop(second);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(poll!(&mut one).is_pending() && poll!(&mut two).is_pending());
    drop(first);
    tokio::join!(one, two);
    drop(third);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_repaired_or_moved_of_a_version_that_became_garbage() {
    let world = World::new("rs:2+1");
    world.fill(&identity(), &content(1)).await;
    let name = world.name(&identity(), 1);
    world.memory(1).poke(&name, None);
    let World { store, key, placement, .. } = &world;
    let repaired = store.repair(key, &identity(), SEAL, placement, &[1], &All(false)).await;
    assert!(matches!(repaired, Err(LoadError::Superseded { .. })), "{repaired:?}");
    assert!(world.memory(1).peek(&name).is_none());
    let new = Memory::new("new");
    let to = Connection::assemble(&world.env, "new", new.clone(), &Options::default());
    let from = store.clouds.get(&CloudId(10));
    let relocation = Relocation { fragment: 0, from, to: &to, delete: true };
    let moved = store.relocate(key, &identity(), SEAL, placement, relocation, &All(false)).await;
    assert!(matches!(moved, Relocated::Moved { bytes: 0 }), "{moved:?}");
    assert!(new.names().is_empty() && world.memory(0).peek(&world.name(&identity(), 0)).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_fragment_whose_cloud_is_gone_is_to_be_rebuilt() {
    let world = World::new("rs:2+1");
    world.fill(&identity(), &content(1)).await;
    let World { store, key, placement, .. } = &world;
    let new = Memory::new("new");
    let to = Connection::assemble(&world.env, "new", new.clone(), &Options::default());
    for delete in [false, true] {
        let relocation = Relocation { fragment: 0, from: None, to: &to, delete };
        let moved = store.relocate(key, &identity(), SEAL, placement, relocation, &All(true)).await;
        assert!(matches!(moved, Relocated::Lost(FragmentFault::NoSuchCloud)), "{moved:?}");
        new.poke(&world.name(&identity(), 0), world.memory(0).peek(&world.name(&identity(), 0)));
        let moved = store.relocate(key, &identity(), SEAL, placement, relocation, &All(true)).await;
        assert!(matches!(moved, Relocated::Moved { bytes: 0 }), "{moved:?}");
        new.poke(&world.name(&identity(), 0), None);
    }
}
