use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cloud::{
    Connection, ErrorKind, Fault as CloudFault, Faulty, Memory, ObjectName, Options, Side, test_environment,
};
use environment::Environment;
use ids::{BlockIndex, BlockShift, GatewayId, ObjectId, ObjectNumber, Version, VolumeId};
use parking_lot::Mutex;
use seal::{BlockIdentity, FileKey, KeyEpoch};

use super::*;
use crate::{CurrentVersions, LoadError, Placement, SealId, StoreError};

mod choosing;
mod degraded;
mod hedging;
mod late;
mod packs;
mod random;
mod relocating;
mod slowed;
mod tampering;
mod writing;

const SEAL: SealId = SealId(1);
const NONE: [u8; 0] = [];
/// Every kind of scheme, and codes of several shapes.
const SCHEMES: [&str; 10] = [
    "replicas:1",
    "replicas:3",
    "rs:1+1",
    "rs:2+1",
    "rs:4+2",
    "rs:3+0",
    "aont-rs:2+1",
    "aont-rs:4+2",
    "caont-rs:2+1",
    "caont-rs:3+1",
];

/// A sink that remembers.
#[derive(Default)]
struct Remember(Mutex<Vec<Incident>>);

impl IncidentSink for Remember {
    fn report(&self, incident: Incident) {
        self.0.lock().push(incident);
    }
}

/// Every version is current, or none.
struct All(bool);

impl CurrentVersions for All {
    async fn is_current(&self, _id: &BlockIdentity, _seal: SealId) -> bool {
        self.0
    }
}

/// A block store over faulty clouds in memory, and one file.
struct World {
    env: Environment,
    clouds: Vec<Arc<Faulty<Arc<Memory>>>>,
    incidents: Arc<Remember>,
    store: BlockStore,
    placement: Placement,
    key: FileKey,
}

impl World {
    fn new(scheme: &str) -> World {
        World::with(scheme, Limits { late_puts: Duration::ZERO, ..Limits::default() })
    }

    fn with(scheme: &str, limits: Limits) -> World {
        let env = test_environment();
        let scheme: disperse::Scheme = scheme.parse().unwrap();
        let ids: Vec<CloudId> = (0..scheme.total() as u16).map(|number| CloudId(number + 10)).collect();
        let name = |id: &CloudId| format!("cloud{id}");
        let clouds: Vec<_> =
            ids.iter().map(|id| Faulty::new(Memory::new(&name(id)), &name(id), env.clock.clone())).collect();
        let connect = |(id, cloud): (&CloudId, &Arc<Faulty<Arc<Memory>>>)| {
            (*id, Connection::assemble(&env, &name(id), cloud.clone(), &Options::default()))
        };
        let connections: Vec<_> = ids.iter().zip(&clouds).map(connect).collect();
        let incidents = Arc::new(Remember::default());
        let store = BlockStore::new(&env, connections, incidents.clone(), limits);
        let placement = Placement::new(scheme, ids, BlockShift::MIN).unwrap();
        World { env, clouds, incidents, store, placement, key: FileKey::from_bytes([7; 32]) }
    }

    async fn put(&self, id: &BlockIdentity, content: &Bytes) -> Result<Stored, StoreError> {
        let parts = [content.slice(..content.len() / 3), content.slice(content.len() / 3..)];
        self.store.store(&self.key, id, SEAL, &self.placement, &parts, Protection::default()).await
    }

    /// Stores with every fragment in its place.
    async fn fill(&self, id: &BlockIdentity, content: &Bytes) {
        assert_eq!(self.put(id, content).await.unwrap().missing, NONE);
    }

    async fn get(&self, id: &BlockIdentity) -> Result<Loaded, LoadError> {
        self.store.load(&self.key, id, SEAL, &self.placement, &All(true)).await
    }

    async fn repair(&self, id: &BlockIdentity, fragments: &[u8]) -> Result<Repaired, LoadError> {
        self.store.repair(&self.key, id, SEAL, &self.placement, fragments, &All(true)).await
    }

    /// Fragments that are not as they were stored.
    async fn faulty(&self, id: &BlockIdentity) -> Vec<u8> {
        let states = self.store.verify(&self.key, id, SEAL, &self.placement, &All(true)).await.unwrap();
        let numbered = states.iter().zip(0..);
        numbered
            .filter(|(state, _)| !matches!(state, FragmentState::Good { .. }))
            .map(|(_, number)| number)
            .collect()
    }

    fn name(&self, id: &BlockIdentity, fragment: u8) -> ObjectName {
        Target::new(&self.key, id, SEAL, &self.placement).name_of(fragment)
    }

    fn memory(&self, fragment: u8) -> &Memory {
        self.clouds[usize::from(fragment)].inner()
    }

    /// What a cloud holds of a block.
    fn peek(&self, id: &BlockIdentity, fragment: u8) -> Bytes {
        self.memory(fragment).peek(&self.name(id, fragment)).unwrap()
    }

    fn poke(&self, id: &BlockIdentity, fragment: u8, bytes: impl Into<Option<Bytes>>) {
        self.memory(fragment).poke(&self.name(id, fragment), bytes.into());
    }

    /// Makes every read ask this fragment's cloud first: all others are slow.
    async fn prefer(&self, fragment: u8) {
        for (at, cloud) in self.clouds.iter().enumerate() {
            let delay = if at == usize::from(fragment) { 1 } else { 10 };
            cloud.set(Side::Reads, CloudFault::Delay(Duration::from_millis(delay)));
        }
        let id = BlockIdentity { block: BlockIndex(1 << 40), ..identity() };
        self.fill(&id, &content(1)).await;
        for _ in 0..3 {
            assert_eq!(self.faulty(&id).await, NONE);
        }
    }

    fn incidents(&self) -> Vec<Incident> {
        std::mem::take(&mut *self.incidents.0.lock())
    }
}

fn identity() -> BlockIdentity {
    BlockIdentity {
        volume: VolumeId(1),
        object: ObjectId { creator: GatewayId(1), number: ObjectNumber(5) },
        block: BlockIndex(3),
        version: Version(1),
        creator: GatewayId(1),
        epoch: KeyEpoch(0),
    }
}

fn content(seed: u64) -> Bytes {
    (0..40_000u64)
        .map(|i| (i.wrapping_mul(i ^ seed).wrapping_add(seed) >> 3) as u8)
        .collect::<Vec<_>>()
        .into()
}

#[tokio::test(start_paused = true)]
async fn what_was_stored_comes_back_by_every_scheme_and_size() {
    for scheme in SCHEMES {
        let world = World::new(scheme);
        for (version, length) in [0, 1, 4096, 40_000, 65_536].into_iter().enumerate() {
            let id = BlockIdentity { version: Version(version as u64 + 1), ..identity() };
            let content = Bytes::from(vec![version as u8 + 1; length]);
            let stored = world.put(&id, &content).await.unwrap();
            assert_eq!(stored.missing, NONE, "{scheme}");
            let held: usize =
                world.placement.fragments().map(|fragment| world.peek(&id, fragment).len()).sum();
            assert_eq!(stored.bytes, held as u64);
            let loaded = world.get(&id).await.unwrap();
            assert_eq!(loaded.plaintext, content);
            let time = match world.placement.scheme().is_convergent() {
                true => Timestamp::default(),
                false => world.env.clock.wall(),
            };
            assert_eq!(loaded.sealed_at, time);
            assert!(loaded.bad.is_empty() && world.incidents().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_that_are_too_long_and_clouds_that_are_unknown_are_refused() {
    let world = World::new("rs:2+1");
    let error = world.put(&identity(), &Bytes::from(vec![0; 65_537])).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLong { .. }), "{error}");
    let blown_up = Protection { padding: Padding::Bucket(1 << 20), ..Protection::default() };
    let (key, parts) = (&world.key, [content(1)]);
    let error =
        world.store.store(key, &identity(), SEAL, &world.placement, &parts, blown_up).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLong { .. }), "{error}");

    let elsewhere = [10, 11, 99].into_iter().map(CloudId).collect();
    let elsewhere = Placement::new(world.placement.scheme(), elsewhere, BlockShift::MIN).unwrap();
    let stored = world.store.store(key, &identity(), SEAL, &elsewhere, &parts, Protection::default()).await;
    assert!(matches!(stored.unwrap_err(), StoreError::NoSuchCloud { cloud: CloudId(99) }));
    assert!(world.clouds.iter().all(|cloud| cloud.calls().is_empty()), "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_was_taken_out_of_the_configuration_is_read_around() {
    let world = World::new("rs:2+1");
    world.fill(&identity(), &content(1)).await;
    world.store.clouds.set(CloudId(10), None);
    assert_eq!(world.get(&identity()).await.unwrap().plaintext, content(1));
    assert!(world.incidents().is_empty());
}

#[tokio::test(start_paused = true)]
async fn deleted_blocks_leave_nothing_behind_and_failures_are_named() {
    let world = World::new("rs:2+1");
    world.fill(&identity(), &content(1)).await;
    world.clouds[1].set(Side::Writes, CloudFault::Fail(ErrorKind::Refused));
    let failed = world.store.delete(&world.key, &identity(), SEAL, &world.placement).await;
    assert_eq!(failed.iter().map(|fault| fault.fragment).collect::<Vec<_>>(), [1]);
    world.clouds[1].set(Side::Writes, CloudFault::None);
    assert!(world.store.delete(&world.key, &identity(), SEAL, &world.placement).await.is_empty());
    assert!(world.clouds.iter().all(|cloud| cloud.inner().names().is_empty()));
    let error = world.get(&identity()).await.unwrap_err();
    assert!(!error.is_temporary() && error.to_string().contains("missing"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn bytes_in_flight_are_bounded_over_all_calls() {
    // Two blocks of 64 KiB in replicas:1 fit into the three quarters that writes may have, the third waits.
    let world = World::with("replicas:1", Limits { bytes_in_flight: 190 << 10, ..Limits::default() });
    world.clouds[0].set(Side::Writes, CloudFault::Delay(Duration::from_secs(1)));
    let full = Bytes::from(vec![1; 65_536]);
    let ids: Vec<_> = (1..=6).map(|n| BlockIdentity { version: Version(n), ..identity() }).collect();
    let results = futures::future::join_all(ids.iter().map(|id| world.put(id, &full))).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(world.env.clock.monotonic().as_secs(), 3);
}
