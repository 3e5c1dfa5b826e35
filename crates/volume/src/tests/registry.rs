use std::sync::Arc;
use std::time::Duration;

use file_system::FileSystem;
use file_system::conformance::scene::*;
use seal::KeyFile;

use super::node::{GC_DELAY, Node, SHIFT, Site, policy};
use crate::{NewVolume, Tier, Volume, VolumeError};

fn another(text: &str) -> NewVolume {
    NewVolume::new(text, policy("replicas:1", &[3], SHIFT))
}

fn fs(volume: &Volume) -> Arc<dyn FileSystem> {
    Arc::new(volume.clone())
}

#[tokio::test]
async fn volumes_are_trees_of_their_own() {
    let node = Node::new().await;
    let other = node.volumes.create(NewVolume { mode: 0o777, uid: 7, ..another("other") }).await.unwrap();
    let (one, two) = (node.fs(), fs(&other));
    let mut tx = begin(&two).await;
    let root = tx.root();
    let attributes = tx.attributes(root).await.unwrap();
    assert_eq!((attributes.mode, attributes.uid), (0o777, 7));
    let file = make_file(&mut tx, root, "a", b"other").await.file;
    commit(tx).await;
    let mut tx = begin(&one).await;
    let root = tx.root();
    assert!(names(&mut tx, root).await.is_empty());
    assert!(tx.attributes(file).await.is_err());
    node.volumes.set_tier("other", Tier::Memory).await.unwrap();
    let id = other.volume();
    drop((tx, one, two, other));
    let node = node.restart().await;
    let other = node.volumes.get("other").unwrap();
    assert_eq!((other.volume(), other.tier(), other.name()), (id, Tier::Memory, "other".to_owned()));
    assert_eq!(read_all(&mut begin(&fs(&other)).await, file).await, b"other");
    assert_eq!(node.volumes.by_id(id).unwrap().name(), "other");
    assert_eq!(node.volumes.list().len(), 2);
}

#[tokio::test]
async fn bad_and_taken_names_are_refused() {
    let node = Node::new().await;
    for bad in ["", ".hidden", "a/b", "a b", &"x".repeat(65)] {
        let made = node.volumes.create(another(bad)).await;
        assert!(matches!(made, Err(VolumeError::BadVolumeName(_))), "{bad}");
    }
    let made = node.volumes.create(another("home")).await;
    assert!(matches!(made, Err(VolumeError::VolumeExists(_))));
    assert!(matches!(node.volumes.delete("none", true).await, Err(VolumeError::NoVolume(_))));
}

#[tokio::test]
async fn a_volume_with_files_is_deleted_by_force_only_and_leaves_the_clouds() {
    let node = Node::new().await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "d", 0o755).await;
    make_file(&mut tx, directory, "a", b"data").await;
    commit(tx).await;
    node.write_back().await;
    assert!(matches!(node.volumes.delete("home", false).await, Err(VolumeError::VolumeNotEmpty(_))));
    let mut open = begin(&node.fs()).await;
    make_file(&mut open, root, "late", b"").await;
    node.volumes.delete("home", true).await.unwrap();
    assert!(open.commit(file_system::CommitMode::Durable).await.is_err());
    assert!(node.volumes.get("home").is_none());
    assert_eq!(node.volumes.bury().await.unwrap(), 1, "its garbage is not yet collected");
    node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
    let _ = node.upkeep.garbage.once().await.unwrap();
    assert_eq!(node.stored(), [0, 0, 0, 0]);
    assert_eq!(node.volumes.bury().await.unwrap(), 0);
    let keys = node.volume.inner.keys;
    for (start, end) in keys.everything() {
        let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
        let scan = meta::Scan { start: &start, end: &end, guard: None, limit: 9 };
        assert!(tx.scan(scan).await.unwrap().is_empty());
    }
    node.volumes.create(another("home")).await.unwrap();
}

#[tokio::test]
async fn a_deleted_volume_is_still_deleted_after_a_restart() {
    let node = Node::new().await;
    node.volumes.create(another("other")).await.unwrap();
    node.volumes.delete("other", false).await.unwrap();
    let node = node.restart().await;
    assert!(node.volumes.get("other").is_none());
    assert_eq!(node.volumes.doomed().len(), 1);
    assert_eq!(node.volumes.bury().await.unwrap(), 0);
}

#[tokio::test]
async fn the_keys_of_another_gateway_open_nothing() {
    let node = Node::new().await;
    let Site { folder, clock, clouds, .. } = Site::new(node.site.clock.clone());
    drop((folder, clouds));
    let stranger = KeyFile::generate(ids::GatewayId(1), &*node.env.entropy);
    let options = |key_file: &KeyFile| crate::VolumesOptions {
        environment: node.env.clone(),
        keys: Arc::new(key_file.gateway_keys()),
        store: Arc::new(node.store.clone()),
        cache: node.cache.clone(),
        blocks: node.volume.inner.node.blocks.clone(),
        gc_delay: GC_DELAY,
        capacity: 1,
    };
    drop(clock);
    let opened = crate::Volumes::open(options(&stranger)).await;
    assert!(matches!(opened, Err(VolumeError::Key { .. })));
    let other = KeyFile::generate(ids::GatewayId(2), &*node.env.entropy);
    let opened = crate::Volumes::open(options(&other)).await;
    assert!(matches!(opened, Err(VolumeError::OtherGateway { .. })));
}

#[tokio::test]
async fn stores_of_other_schemas_are_refused_with_what_to_do() {
    let node = Node::new().await;
    for (schema, text) in [(1, "run the version that made it"), (7, "run the newer version")] {
        let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
        let header = crate::row::StoreHeader { schema, gateway: ids::GatewayId(1) };
        tx.put(crate::keys::store(), header.encode());
        let _ = tx.commit(meta::Priority::Upkeep).await.unwrap();
        let options = crate::VolumesOptions {
            environment: node.env.clone(),
            keys: Arc::new(node.site.key_file.gateway_keys()),
            store: Arc::new(node.store.clone()),
            cache: node.cache.clone(),
            blocks: node.volume.inner.node.blocks.clone(),
            gc_delay: GC_DELAY,
            capacity: 1,
        };
        let Err(refused) = crate::Volumes::open(options).await else { panic!("schema {schema} opened") };
        assert!(refused.to_string().contains(text), "{refused}");
    }
}

#[tokio::test]
async fn stores_of_schemas_that_are_understood_become_one_of_this_version() {
    let mut node = Node::new().await;
    for schema in [2, 3, 4, 5] {
        let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
        let header = crate::row::StoreHeader { schema, gateway: ids::GatewayId(1) };
        tx.put(crate::keys::store(), header.encode());
        let _ = tx.commit(meta::Priority::Upkeep).await.unwrap();
        node = node.restart().await;
        let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
        let row = tx.get(&crate::keys::store()).await.unwrap().unwrap();
        assert_eq!(crate::row::StoreHeader::decode(&row).unwrap().schema, 6);
        node.check().await;
    }
}

#[tokio::test]
async fn at_the_tier_cloud_a_commit_waits_for_the_clouds() {
    let node = Node::new().await;
    node.volumes.set_tier("home", Tier::Cloud).await.unwrap();
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    make_file(&mut tx, root, "a", b"to the clouds").await;
    let write_back = async {
        while node.stored() != [1, 1, 1, 0] {
            tokio::task::yield_now().await;
            let _ = node.upkeep.write_back.once().await;
        }
    };
    let (done, ()) = tokio::join!(tx.commit(file_system::CommitMode::Durable), write_back);
    done.unwrap();
    assert_eq!(node.stored(), [1, 1, 1, 0]);
}
