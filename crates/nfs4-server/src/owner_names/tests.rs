use std::sync::atomic::AtomicUsize;

use ids::Timestamp;
use tokio::task::yield_now;

use super::*;

/// A clock that moves when it is told to.
struct HandClock(watch::Sender<Duration>);

#[async_trait]
impl Clock for HandClock {
    fn wall(&self) -> Timestamp {
        Timestamp::default()
    }

    fn monotonic(&self) -> Duration {
        *self.0.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.monotonic() + duration;
        self.0.subscribe().wait_for(|now| *now >= until).await.unwrap();
    }
}

/// Knows anna (1000), the group staff (50) and a few odd ones; answers while its gate is open.
struct Office {
    asked: AtomicUsize,
    open: watch::Sender<bool>,
    fails: AtomicBool,
}

impl Office {
    async fn enter(&self) -> Result<(), NameServiceError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
        match self.fails.load(Ordering::SeqCst) {
            true => Err(NameServiceError("out of office".into())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl NameService for Office {
    async fn name(&self, kind: IdKind, id: u32) -> Result<Option<String>, NameServiceError> {
        self.enter().await?;
        Ok(match (kind, id) {
            (IdKind::User, 1000) => Some("anna".into()),
            (IdKind::Group, 50) => Some("staff".into()),
            (IdKind::User, 1) => Some("12".into()),
            (IdKind::User, 2) => Some("a@b".into()),
            (IdKind::User, 3) => Some("line\nbreak".into()),
            (IdKind::User, 10_000..) => Some(format!("user{id}")),
            _ => None,
        })
    }

    async fn id(&self, kind: IdKind, name: &str) -> Result<Option<u32>, NameServiceError> {
        self.enter().await?;
        Ok(match (kind, name) {
            (IdKind::User, "anna") => Some(1000),
            (IdKind::Group, "staff") => Some(50),
            (IdKind::User, "nobody-at-all") => Some(u32::MAX),
            _ => None,
        })
    }
}

struct World {
    clock: Arc<HandClock>,
    office: Arc<Office>,
    owners: Owners,
}

impl World {
    fn new() -> World {
        let clock = Arc::new(HandClock(watch::Sender::new(Duration::from_secs(5))));
        let (open, fails) = (watch::Sender::new(true), AtomicBool::new(false));
        let office = Arc::new(Office { asked: AtomicUsize::new(0), open, fails });
        let names = OwnerNames::default();
        let mapping = NameMapping { service: office.clone(), domain: "example.org".into() };
        names.replace(Some(mapping), clock.clone());
        World { owners: names.current(), clock, office }
    }

    fn asked(&self) -> usize {
        self.office.asked.load(Ordering::SeqCst)
    }

    async fn pass(&self, time: Duration) {
        self.clock.0.send_modify(|now| *now += time);
        // Everybody who waited for that has seen it.
        for _ in 0..100 {
            yield_now().await;
        }
    }

    async fn name(&self, kind: IdKind, id: u32) -> Utf8String {
        self.owners.find_names(HashSet::from([(kind, id)])).await;
        self.owners.name(kind, id)
    }

    async fn id(&self, kind: IdKind, name: &str) -> Result<u32, NfsStatus> {
        self.owners.find_ids(vec![(kind, name.into())]).await;
        self.owners.id(kind, &name.into())
    }
}

#[tokio::test]
async fn names_and_numbers_stand_for_each_other() {
    let world = World::new();
    assert_eq!(world.name(IdKind::User, 1000).await, "anna@example.org".into());
    assert_eq!(world.name(IdKind::Group, 50).await, "staff@example.org".into());
    assert_eq!(world.name(IdKind::Group, 1000).await, "1000".into(), "a user, not a group");
    assert_eq!(world.id(IdKind::User, "anna@example.org").await, Ok(1000));
    assert_eq!(world.id(IdKind::User, "anna@Example.ORG").await, Ok(1000));
    assert_eq!(world.id(IdKind::Group, "staff@example.org").await, Ok(50));
    assert_eq!(world.id(IdKind::User, "1000").await, Ok(1000), "numbers are taken as well");
    let asked = world.asked();
    let nobody = [
        "anna",
        "anna@",
        "anna@example.com",
        "@example.org",
        "staff@example.org",
        "12@example.org",
        "-x@example.org",
        "a@b@example.org",
        "4294967295",
        "nobody-at-all@example.org",
        "",
        "OWNER@",
    ];
    for name in nobody {
        assert_eq!(world.id(IdKind::User, name).await, Err(NfsStatus::BadOwner), "{name}");
    }
    assert_eq!(world.asked() - asked, 2, "what cannot be a name is not asked for");
    for odd in [1, 2, 3] {
        assert_eq!(world.name(IdKind::User, odd).await, odd.to_string().into());
    }
    let numbers = Owners::NUMBERS;
    assert_eq!(numbers.name(IdKind::User, 1000), "1000".into());
    assert_eq!(numbers.id(IdKind::User, &"anna@example.org".into()), Err(NfsStatus::BadOwner));
}

#[tokio::test]
async fn nothing_is_asked_twice_before_its_time() {
    let world = World::new();
    for _ in 0..3 {
        world.name(IdKind::User, 1000).await;
        world.id(IdKind::User, "berta@example.org").await.unwrap_err();
    }
    assert_eq!(world.asked(), 2);
    world.pass(UNKNOWN).await;
    world.id(IdKind::User, "berta@example.org").await.unwrap_err();
    assert_eq!(world.asked(), 3);
    world.pass(KNOWN).await;
    world.name(IdKind::User, 1000).await;
    yield_now().await;
    assert_eq!(world.asked(), 4);
}

#[tokio::test]
async fn a_name_service_that_stalls_keeps_a_request_waiting_once_and_then_nobody() {
    let world = World::new();
    world.office.open.send_replace(false);
    let (name, ()) = tokio::join!(world.name(IdKind::User, 1000), world.pass(PATIENCE));
    assert_eq!(name, "1000".into());
    // Were anything waited for, this would not come back: the clock stands still.
    assert_eq!(world.name(IdKind::Group, 50).await, "50".into());
    assert_eq!(world.id(IdKind::User, "anna@example.org").await, Err(NfsStatus::Delay));
    world.office.open.send_replace(true);
    world.pass(Duration::ZERO).await;
    assert_eq!(world.owners.name(IdKind::User, 1000), "anna@example.org".into(), "found out meanwhile");
    assert_eq!(world.owners.name(IdKind::Group, 50), "staff@example.org".into());
    assert_eq!(world.id(IdKind::User, "anna@example.org").await, Ok(1000));
    assert!(world.owners.0.unwrap().open.lock().is_empty());
}

#[tokio::test]
async fn who_was_called_something_keeps_his_name_while_the_name_service_fails() {
    let world = World::new();
    world.name(IdKind::User, 1000).await;
    world.office.fails.store(true, Ordering::SeqCst);
    world.pass(KNOWN).await;
    assert_eq!(world.name(IdKind::User, 1000).await, "anna@example.org".into());
    assert_eq!(world.name(IdKind::Group, 50).await, "50".into());
    assert_eq!(
        world.id(IdKind::User, "anna@example.org").await,
        Err(NfsStatus::Delay),
        "not that he is unknown"
    );
    world.pass(Duration::ZERO).await;
    let asked = world.asked();
    assert_eq!(world.id(IdKind::User, "anna@example.org").await, Err(NfsStatus::Delay));
    assert_eq!(world.asked(), asked, "not again at once");
    world.office.fails.store(false, Ordering::SeqCst);
    world.pass(RETRY).await;
    world.id(IdKind::User, "anna@example.org").await.unwrap_err();
    world.pass(Duration::ZERO).await;
    assert_eq!(world.id(IdKind::User, "anna@example.org").await, Ok(1000));
}

#[tokio::test]
async fn an_answer_that_never_comes_is_given_up() {
    let world = World::new();
    world.office.open.send_replace(false);
    tokio::join!(world.name(IdKind::User, 1000), world.pass(PATIENCE));
    world.pass(LOOKUP_LIMIT).await;
    assert!(world.owners.0.unwrap().open.lock().is_empty());
}

#[tokio::test]
async fn questions_have_a_bound_and_clients_cannot_fill_it_with_names() {
    let world = World::new();
    world.office.open.send_replace(false);
    let names = (0..2 * OPEN_QUESTIONS).map(|number| (IdKind::User, format!("u{number}@example.org").into()));
    tokio::join!(world.owners.find_ids(names.collect()), world.pass(PATIENCE));
    let open = || world.owners.0.as_ref().unwrap().open.lock().len();
    assert_eq!((open(), world.asked()), (OPEN_QUESTIONS / 2, TURNS_OF_NAMES));
    world.owners.find_names((20_000..30_000).map(|id| (IdKind::User, id)).collect()).await;
    world.pass(Duration::ZERO).await;
    assert_eq!((open(), world.asked()), (OPEN_QUESTIONS, TURNS), "numbers need not wait for all the names");
    assert_eq!(world.owners.id(IdKind::User, &"u2000@example.org".into()), Err(NfsStatus::Delay));
    world.office.open.send_replace(true);
    while open() > 0 {
        yield_now().await;
    }
    assert!(world.owners.0.unwrap().known.len() <= KEPT);
}
