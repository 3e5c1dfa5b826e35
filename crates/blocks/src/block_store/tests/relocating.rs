//! Fragments that change their cloud.

use cloud::Operation;

use super::*;

type Store = Arc<Faulty<Arc<Memory>>>;

/// A world with one cloud for fragment 0 and an empty one beside it that the fragment is to go to.
struct Move {
    world: World,
    new: Store,
    from: Connection,
    to: Connection,
}

impl Move {
    async fn new() -> Move {
        let world = World::new("rs:2+1");
        world.fill(&identity(), &content(1)).await;
        Move::of(world)
    }

    fn of(world: World) -> Move {
        let new = Faulty::new(Memory::new("new"), "new", world.env.clock.clone());
        let to = Connection::assemble(&world.env, "new", new.clone(), &Options::default());
        let from = world.store.clouds.get(&CloudId(10)).unwrap().clone();
        Move { world, new, from, to }
    }

    async fn relocate_to(&self, to: &Connection, delete: bool) -> Relocated {
        let World { store, key, placement, .. } = &self.world;
        let relocation = Relocation { fragment: 0, from: Some(&self.from), to, delete };
        store.relocate(key, &identity(), SEAL, placement, relocation, &All(true)).await
    }

    async fn relocate(&self) -> Relocated {
        self.relocate_to(&self.to, true).await
    }

    fn name(&self) -> ObjectName {
        self.world.name(&identity(), 0)
    }

    fn old(&self) -> Option<Bytes> {
        self.world.memory(0).peek(&self.name())
    }

    fn moved(&self) -> Option<Bytes> {
        self.new.inner().peek(&self.name())
    }
}

fn other(bytes: &Bytes) -> Bytes {
    bytes.iter().map(|byte| byte ^ 1).collect::<Vec<_>>().into()
}

#[tokio::test(start_paused = true)]
async fn a_fragment_is_proved_put_and_only_then_deleted() {
    let it = Move::new().await;
    let fragment = it.old().unwrap();
    it.new.set(Side::Writes, CloudFault::Fail(ErrorKind::Refused));
    assert!(matches!(it.relocate().await, Relocated::Failed(_)));
    assert_eq!(it.old(), Some(fragment.clone()));
    it.new.set(Side::Writes, CloudFault::None);
    let bytes = fragment.len() as u64;
    assert!(matches!(it.relocate().await, Relocated::Moved { bytes: moved } if moved == bytes));
    assert_eq!((it.old(), it.moved()), (None, Some(fragment)));
    let gets = |cloud: &Store| cloud.calls().iter().filter(|(what, _)| *what == Operation::Get).count();
    assert!(matches!(it.relocate().await, Relocated::Moved { bytes: 0 }));
    assert_eq!(gets(&it.new), 0, "what was moved is not fetched by every pass");
}

#[tokio::test(start_paused = true)]
async fn what_may_come_into_the_old_cloud_late_is_moved_when_it_cannot_any_more() {
    let limits = Limits::default();
    let (late, world) = (limits.late_puts, World::with("rs:2+1", limits));
    world.fill(&BlockIdentity { version: Version(9), ..identity() }, &content(1)).await;
    world.clouds[0].set(Side::Writes, CloudFault::Hang);
    let (id, plaintext) = (identity(), content(1));
    let passes = async {
        world.env.clock.sleep(Duration::from_secs(1)).await;
        world.clouds[0].set(Side::Writes, CloudFault::None);
    };
    // Its second request is answered; the first one is on its way.
    let (stored, ()) = futures::join!(world.put(&id, &plaintext), passes);
    assert_eq!(stored.unwrap().missing, NONE);
    let it = Move::of(world);
    let fragment = it.old().unwrap();
    assert!(matches!(it.relocate().await, Relocated::Late { bytes } if bytes == fragment.len() as u64));
    assert!(matches!(it.relocate().await, Relocated::Late { bytes: 0 }));
    assert_eq!((it.old(), it.moved()), (Some(fragment.clone()), Some(fragment.clone())));
    it.world.env.clock.sleep(late).await;
    assert!(matches!(it.relocate().await, Relocated::Moved { .. }));
    assert_eq!((it.old(), it.moved()), (None, Some(fragment)));
}

#[tokio::test(start_paused = true)]
async fn a_bad_copy_in_the_new_cloud_does_not_cost_the_good_one() {
    let it = Move::new().await;
    let fragment = it.old().unwrap();
    it.new.inner().poke(&it.name(), Some(other(&fragment)));
    assert!(matches!(it.relocate().await, Relocated::Moved { bytes } if bytes == fragment.len() as u64));
    assert_eq!((it.old(), it.moved()), (None, Some(fragment)));
    let incidents = it.world.incidents();
    let [incident] = &incidents[..] else { panic!("one incident: {incidents:?}") };
    assert_eq!(&*incident.cloud, "new");
}

#[tokio::test(start_paused = true)]
async fn a_good_copy_in_the_new_cloud_is_not_made_again() {
    let it = Move::new().await;
    let fragment = it.old().unwrap();
    it.new.inner().poke(&it.name(), Some(fragment.clone()));
    it.new.set(Side::Reads, CloudFault::Corrupt(Arc::new(|_, bytes| other(&bytes))));
    it.new.set(Side::Writes, CloudFault::Fail(ErrorKind::Refused));
    assert!(matches!(it.relocate().await, Relocated::Failed(_)), "it cannot be proved");
    assert_eq!(it.old(), Some(fragment.clone()));
    it.new.set(Side::Reads, CloudFault::None);
    assert!(matches!(it.relocate().await, Relocated::Moved { bytes: 0 }));
    assert_eq!((it.old(), it.moved()), (None, Some(fragment)));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_while_the_two_may_be_one() {
    let it = Move::new().await;
    let fragment = it.old();
    let same = it.from.clone();
    assert!(matches!(it.relocate_to(&same, false).await, Relocated::Moved { bytes: 0 }));
    assert_eq!(it.old(), fragment);
    assert!(matches!(it.relocate_to(&it.to, false).await, Relocated::Moved { .. }));
    assert_eq!((it.old(), it.moved()), (fragment.clone(), fragment));
}

#[tokio::test(start_paused = true)]
async fn a_fragment_that_the_old_cloud_changed_is_lost_and_the_old_cloud_accused() {
    let it = Move::new().await;
    let bad = other(&it.old().unwrap());
    it.world.poke(&identity(), 0, bad);
    assert!(matches!(it.relocate().await, Relocated::Lost(FragmentFault::Bad(_))));
    let incidents = it.world.incidents();
    let [incident] = &incidents[..] else { panic!("one incident: {incidents:?}") };
    assert_eq!((&*incident.cloud, incident.outcome), ("cloud10", Outcome::FoundByCheck));
    it.world.poke(&identity(), 0, None);
    assert!(matches!(it.relocate().await, Relocated::Lost(FragmentFault::Missing)));
    assert!(it.world.incidents().is_empty(), "a lost cloud is drained without a word for each fragment");
}

#[tokio::test(start_paused = true)]
async fn a_bad_fragment_on_the_move_accuses_both_clouds_and_makes_neither_sick() {
    let it = Move::new().await;
    it.world.store.clouds.set(CloudId(10), Some(Connection::moving(&it.from, &it.to)));
    let bad = other(&it.old().unwrap());
    it.world.poke(&identity(), 0, bad);
    for _ in 0..50 {
        assert_eq!(it.world.faulty(&identity()).await, [0]);
    }
    assert!(it.world.incidents().iter().all(|incident| &*incident.cloud == "new or cloud10"));
    let health = it.to.health().snapshot();
    assert!(!health.read.sick && health.read.error_rate == 0.0, "{health:?}");
    it.to.head(&it.name()).await.unwrap_err();
}
