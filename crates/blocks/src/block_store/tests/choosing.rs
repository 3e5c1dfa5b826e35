//! Which clouds are read from: by speed, in proportion when one is not enough, and by price.

use std::ops::Range;

use cloud::{Cloud, Prices, PutMode, Rates};
use tokio::sync::Semaphore;

use super::*;
use crate::Preference;

/// A store that serves so many requests at a time, each for so long; all others wait in it.
struct Served {
    memory: Arc<Memory>,
    env: Environment,
    places: Semaphore,
    each: Mutex<Duration>,
    served: Mutex<u64>,
}

#[async_trait::async_trait]
impl Cloud for Served {
    async fn put(
        &self,
        name: &ObjectName,
        parts: Vec<Bytes>,
        mode: PutMode,
    ) -> Result<(), cloud::CloudError> {
        self.memory.put(name, parts, mode).await
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, cloud::CloudError> {
        let place = self.places.acquire().await.unwrap();
        let each = *self.each.lock();
        self.env.clock.sleep(each).await;
        drop(place);
        *self.served.lock() += 1;
        self.memory.get(name, range).await
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, cloud::CloudError> {
        self.memory.head(name).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), cloud::CloudError> {
        self.memory.delete(name).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, cloud::CloudError> {
        self.memory.list(prefix, after, limit).await
    }
}

/// A block store over clouds that serve, and one block in it.
struct Choice {
    env: Environment,
    clouds: Vec<Arc<Served>>,
    store: BlockStore,
    placement: Placement,
}

const KEY: [u8; 32] = [7; 32];

/// How one cloud serves: places, milliseconds of each request, and what surrounds it.
type Kind = (usize, u64, Options);

async fn served(scheme: &str, kinds: &[Kind], preference: Preference) -> Choice {
    let env = test_environment();
    let ids: Vec<CloudId> = (1..=kinds.len() as u16).map(CloudId).collect();
    let cloud = |(places, millis, _): &Kind| {
        Arc::new(Served {
            memory: Memory::new("m"),
            env: env.clone(),
            places: Semaphore::new(*places),
            each: Mutex::new(Duration::from_millis(*millis)),
            served: Mutex::default(),
        })
    };
    let clouds: Vec<_> = kinds.iter().map(cloud).collect();
    let connections = ids.iter().zip(&clouds).zip(kinds).map(|((id, cloud), (_, _, options))| {
        (*id, Connection::assemble(&env, &format!("cloud{id}"), cloud.clone(), options))
    });
    let connections: Vec<_> = connections.collect();
    let limits = Limits { preference, ..Limits::default() };
    let store = BlockStore::new(&env, connections, Arc::new(Remember::default()), limits);
    let placement = Placement::new(scheme.parse().unwrap(), ids, BlockShift::MIN).unwrap();
    let key = FileKey::from_bytes(KEY);
    let (id, parts, protection) = (identity(), [content(1)], Protection::default());
    let stored = store.store(&key, &id, SEAL, &placement, &parts, protection).await.unwrap();
    assert_eq!(stored.missing, NONE);
    Choice { env, clouds, store, placement }
}

impl Choice {
    async fn get(&self) -> Duration {
        let begun = self.env.clock.monotonic();
        let key = FileKey::from_bytes(KEY);
        let loaded = self.store.load(&key, &identity(), SEAL, &self.placement, &All(true)).await;
        assert_eq!(loaded.unwrap().plaintext, content(1));
        self.env.clock.monotonic() - begun
    }

    /// Measures every cloud once.
    async fn measure(&self) {
        let key = FileKey::from_bytes(KEY);
        for _ in 0..3 {
            self.store.verify(&key, &identity(), SEAL, &self.placement, &All(true)).await.unwrap();
        }
    }

    /// `readers` that read one block after the other, `reads` in all: how long that takes, and what each cloud served.
    async fn load(&self, readers: u64, reads: u64) -> (Duration, Vec<u64>) {
        let (begun, before) = (self.env.clock.monotonic(), self.served());
        let reader = |_| async move {
            for _ in 0..reads / readers {
                self.get().await;
            }
        };
        futures::future::join_all((0..readers).map(reader)).await;
        let served = self.served().iter().zip(before).map(|(after, before)| after - before).collect();
        (self.env.clock.monotonic() - begun, served)
    }

    fn served(&self) -> Vec<u64> {
        self.clouds.iter().map(|cloud| *cloud.served.lock()).collect()
    }
}

fn patient() -> Options {
    Options { concurrent: 1000, ..Options::default() }
}

fn priced(get: f64, egress_gb: f64) -> Options {
    Options { prices: Some(Prices { get, egress_gb, ..Prices::default() }), ..patient() }
}

/// Shares of three clouds that serve 400, 200 and 100 requests a second: within a fifth of proportional.
fn assert_proportional(served: &[u64]) {
    let all: u64 = served.iter().sum();
    for (count, speed) in served.iter().zip([4.0, 2.0, 1.0]) {
        let share = *count as f64 / all as f64;
        let fair = speed / 7.0;
        assert!(share > 0.8 * fair && share < 1.25 * fair, "{served:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reads_that_one_cloud_cannot_serve_spread_in_proportion_to_speed() {
    // K60. The queues are in the clouds: only the times of the answers tell of them.
    let kinds = [(4, 10, patient()), (4, 20, patient()), (4, 40, patient())];
    let world = served("replicas:3", &kinds, Preference::Speed).await;
    world.measure().await;
    world.load(48, 4800).await;
    let (took, served) = world.load(48, 4800).await;
    assert_proportional(&served);
    let rate = 4800.0 / took.as_secs_f64();
    assert!(rate > 0.85 * 700.0, "{rate} reads a second of the 700 that all clouds can serve");
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_cloud_in_the_gateway_counts_as_well() {
    // The same speeds, but the gateway asks no more of a cloud at a time than it can serve.
    let narrow = || Options { concurrent: 4, ..patient() };
    let kinds = [(1000, 10, narrow()), (1000, 20, narrow()), (1000, 40, narrow())];
    let world = served("replicas:3", &kinds, Preference::Speed).await;
    world.measure().await;
    let (took, served) = world.load(48, 4800).await;
    assert_proportional(&served);
    let rate = 4800.0 / took.as_secs_f64();
    assert!(rate > 0.85 * 700.0, "{rate} reads a second of the 700 that all clouds can serve");
}

#[tokio::test(start_paused = true)]
async fn a_cloud_whose_rate_is_used_up_is_not_waited_for() {
    // 40,000 bytes a read: the fast cloud is allowed ten a second.
    let rates = Rates { download: Some(400_000), ..Rates::default() };
    let kinds = [(1000, 10, Options { rates, ..patient() }), (1000, 30, patient())];
    let world = served("replicas:2", &kinds, Preference::Speed).await;
    world.measure().await;
    let (took, served) = world.load(2, 200).await;
    assert!(took < Duration::from_secs(5), "{took:?} {served:?}");
    assert!(served[0] > 10 && served[1] > 100, "{served:?}");
}

#[tokio::test(start_paused = true)]
async fn few_reads_all_go_to_the_fastest() {
    let kinds = [(100, 10, patient()), (100, 20, patient()), (100, 40, patient())];
    let world = served("replicas:3", &kinds, Preference::Speed).await;
    world.measure().await;
    let (_, served) = world.load(2, 200).await;
    assert_eq!(served, [200, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_slowed_by_a_second_is_avoided_within_the_period_of_ranking() {
    let kinds = [20, 50, 100, 100].map(|millis| (1000, millis, patient()));
    let world = served("rs:3+1", &kinds, Preference::Speed).await;
    world.measure().await;
    let usual = world.get().await;
    assert_eq!(usual, Duration::from_millis(100));
    *world.clouds[0].each.lock() = Duration::from_millis(1020);
    let slowed = world.env.clock.monotonic();
    // Reads one after the other. Nobody waits for the second, and soon nobody asks.
    let mut late = Vec::new();
    for _ in 0..600 {
        let took = world.get().await;
        assert!(took <= Duration::from_millis(320), "{took:?}");
        if took > usual {
            late.push(world.env.clock.monotonic() - slowed);
        }
        world.env.clock.sleep(Duration::from_millis(100)).await;
    }
    // Two minutes have passed; it is looked at again now and then, and used again soon after it has recovered.
    assert!(late.len() <= 6, "{late:?}");
    assert!(late.iter().filter(|at| **at < Duration::from_secs(60)).count() <= 4, "{late:?}");
    *world.clouds[0].each.lock() = Duration::from_millis(20);
    for _ in 0..180 {
        world.get().await;
        world.env.clock.sleep(Duration::from_secs(1)).await;
    }
    let (_, served) = world.load(1, 20).await;
    assert_eq!(served[0], 20, "{served:?}");
}

#[tokio::test(start_paused = true)]
async fn of_clouds_that_keep_the_bound_the_cheapest_are_read_from() {
    let kinds = [
        (1000, 10, priced(0.0, 90.0)),
        (1000, 80, priced(0.0, 10.0)),
        (1000, 150, priced(0.0, 20.0)),
        (1000, 900, priced(0.0, 0.0)),
    ];
    let shares = async |bound| {
        let bound = Duration::from_millis(bound);
        let world = served("rs:2+2", &kinds, Preference::Cost { bound }).await;
        world.measure().await;
        let (took, served) = world.load(1, 10).await;
        assert!(took <= 10 * bound, "{took:?} {served:?}");
        served
    };
    assert_eq!(shares(2000).await, [0, 10, 0, 10], "the cheapest two");
    assert_eq!(shares(300).await, [0, 10, 10, 0], "the cheapest one is too slow");
    assert_eq!(shares(100).await, [10, 10, 0, 0]);
    assert_eq!(shares(90).await[..2], [10, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_bound_that_no_cloud_keeps_means_the_fastest() {
    let kinds = [(1000, 20, priced(1.0, 90.0)), (1000, 30, priced(0.0, 0.0)), (1000, 10, priced(1.0, 1.0))];
    let preference = Preference::Cost { bound: Duration::from_millis(5) };
    let world = served("replicas:3", &kinds, preference).await;
    world.measure().await;
    let (_, served) = world.load(1, 10).await;
    assert_eq!(served, [0, 0, 10]);
}

#[tokio::test(start_paused = true)]
async fn the_price_of_requests_counts_and_not_only_that_of_bytes() {
    let kinds = [(1000, 10, priced(0.001, 0.0)), (1000, 20, priced(0.0, 10.0))];
    let preference = Preference::Cost { bound: Duration::from_secs(1) };
    let world = served("replicas:2", &kinds, preference).await;
    world.measure().await;
    // A request for 1 / 1,000, or 64 KiB for 10 / 10^9 a byte.
    let (_, served) = world.load(1, 10).await;
    assert_eq!(served, [0, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_cheap_cloud_that_hangs_is_helped_by_a_dear_one_within_the_bound() {
    let kinds = [(1000, 20, priced(0.0, 0.0)), (1000, 30, priced(1.0, 1.0))];
    let bound = Duration::from_millis(500);
    let world = served("replicas:2", &kinds, Preference::Cost { bound }).await;
    world.measure().await;
    *world.clouds[0].each.lock() = Duration::from_secs(3600);
    let took = world.get().await;
    assert!(took > Duration::from_millis(400) && took <= bound, "{took:?}");
    // Which makes it one that does not keep the bound.
    let took = world.get().await;
    assert_eq!(took, Duration::from_millis(30));
}
