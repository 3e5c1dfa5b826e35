//! Objects in the clouds that no metadata refers to: what a restored dump does not know, or another gateway's.

use std::collections::{HashMap, HashSet};

use cloud::{Connection, ErrorKind, MAX_LIST, ObjectName};
use futures::stream::{StreamExt, iter};
use serde::Serialize;
use upkeep::{BlockVersion, GarbageRow};
use volume::{Volume, VolumeError};

use crate::node::Node;

/// Objects that are held against the metadata in one pass over it.
pub(crate) const AT_ONCE: usize = 200_000;
/// Blocks of the metadata read at a time.
const BLOCKS: usize = 1024;
/// Rows read at a time that may have thousands of versions.
const ROWS: usize = 64;
/// Orphans that are named.
const NAMED: usize = 1000;
/// Objects asked for at the same time.
const PARALLEL: usize = 16;
/// What names of fragments are made of, and how long they are.
const LETTERS: &str = "234567abcdefghijklmnopqrstuvwxyz";
const NAME_LENGTH: usize = 40;

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct OrphansFound {
    /// Objects with names of fragments.
    pub objects: u64,
    /// Those that nothing refers to.
    pub orphans: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The first thousand of them.
    pub names: Vec<Orphan>,
    /// Clouds that could not be listed.
    pub unreachable: Vec<String>,
}

/// An object that nothing refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Orphan {
    /// Where it is.
    pub cloud: String,
    /// What it is called there.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
}

/// Objects by cloud and name, with their bytes.
type Listed = HashMap<(usize, ObjectName), u64>;

impl Node {
    /// Looks for objects that no metadata refers to. Lists the clouds in parts of about `at_once` objects, with one pass over the
    /// metadata for each; `progress` is told how many objects have been looked at.
    ///
    /// What comes and goes meanwhile is no orphan: each part is listed before the metadata is read, and that in the order in which
    /// versions move through it.
    pub async fn find_orphans(
        &self,
        at_once: usize,
        progress: impl Fn(u64) + Send,
    ) -> Result<OrphansFound, String> {
        let clouds: Vec<Connection> = self.clouds.connections();
        let mut found = OrphansFound::default();
        let mut parts = vec![String::new()];
        let backups: HashSet<ObjectName> = self.backup_names().await.into_iter().collect();
        while let Some(prefix) = parts.pop() {
            let Some(mut listed) = list(&clouds, &prefix, at_once, &mut found.unreachable).await else {
                parts.extend(LETTERS.chars().map(|letter| format!("{prefix}{letter}")));
                continue;
            };
            listed.retain(|(_, name), _| !backups.contains(name));
            found.objects += listed.len() as u64;
            for volume in self.volumes.list().into_iter().chain(self.volumes.doomed()) {
                let known = self.forget_known(&volume, &clouds, &prefix, &mut listed).await;
                known.map_err(|cause| format!("volume {:?}: {cause}", volume.name()))?;
            }
            found.count(&clouds, listed).await;
            progress(found.objects);
        }
        found.unreachable.sort();
        found.unreachable.dedup();
        Ok(found)
    }

    /// Takes out of a list what a volume refers to.
    async fn forget_known(
        &self,
        volume: &Volume,
        clouds: &[Connection],
        prefix: &str,
        listed: &mut Listed,
    ) -> Result<(), VolumeError> {
        let mut forget = |version: &BlockVersion| {
            for (number, name) in version.fragments().filter(|(_, name)| name.starts_with(prefix)) {
                let Ok(name) = ObjectName::new(&name) else { continue };
                for place in self.clouds.places_of(number) {
                    if let Some(at) = clouds.iter().position(|cloud| **cloud.name() == *place) {
                        listed.remove(&(at, name.clone()));
                    }
                }
            }
        };
        let mut after = None;
        loop {
            let rows = volume.unsettled(after.as_ref(), ROWS).await?;
            let Some(last) = rows.last() else { break };
            after = Some(last.row.clone());
            rows.into_iter().flat_map(GarbageRow::into_versions).for_each(|version| forget(&version));
        }
        let mut after = None;
        loop {
            let rows = volume.unsettled_packs(after.as_ref(), ROWS).await?;
            let Some(last) = rows.last() else { break };
            after = Some(last.row.clone());
            rows.into_iter().flat_map(GarbageRow::into_versions).for_each(|version| forget(&version));
        }
        let mut after = None;
        loop {
            let versions = volume.named_blocks(after, BLOCKS).await?;
            let Some(last) = versions.last() else { break };
            after = Some(last.identity);
            versions.iter().for_each(&mut forget);
        }
        let mut after = None;
        loop {
            let rows = volume.all_garbage(after.as_ref(), ROWS).await?;
            let Some(last) = rows.last() else { break };
            after = Some(last.row.clone());
            rows.into_iter().flat_map(GarbageRow::into_versions).for_each(|version| forget(&version));
        }
        Ok(())
    }
}

impl OrphansFound {
    /// What is left of a list and still there.
    async fn count(&mut self, clouds: &[Connection], left: Listed) {
        let mut there = iter(left)
            .map(|((at, name), bytes)| async move {
                match clouds[at].head(&name).await {
                    Err(error) if error.kind() == ErrorKind::NotFound => None,
                    _ => Some((at, name, bytes)),
                }
            })
            .buffer_unordered(PARALLEL);
        while let Some(found) = there.next().await {
            let Some((at, name, bytes)) = found else { continue };
            self.orphans += 1;
            self.bytes += bytes;
            if self.names.len() < NAMED {
                let (cloud, name) = (clouds[at].name().to_string(), name.to_string());
                self.names.push(Orphan { cloud, name, bytes });
            }
        }
    }
}

/// Whether it may be a fragment; everything else belongs to somebody else.
fn is_fragment(name: &ObjectName) -> bool {
    name.as_str().len() == NAME_LENGTH && name.as_str().chars().all(|c| LETTERS.contains(c))
}

/// All fragments that begin with `prefix`; `None` when these are too many for one list.
async fn list(
    clouds: &[Connection],
    prefix: &str,
    at_once: usize,
    unreachable: &mut Vec<String>,
) -> Option<Listed> {
    let mut listed = Listed::new();
    for (at, cloud) in clouds.iter().enumerate() {
        let mut after: Option<ObjectName> = None;
        loop {
            let page = match cloud.list(prefix, after.as_ref(), MAX_LIST).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(cloud = %cloud.name(), %error, "cannot be looked at for orphans");
                    unreachable.push(cloud.name().to_string());
                    break;
                }
            };
            let last = page.last().map(|(name, _)| name.clone());
            let whole = page.len() < MAX_LIST;
            let fragments = page.into_iter().filter(|(name, _)| is_fragment(name));
            listed.extend(fragments.map(|(name, bytes)| ((at, name), bytes)));
            if listed.len() > at_once && prefix.len() < NAME_LENGTH {
                return None;
            }
            after = last;
            if whole {
                break;
            }
        }
    }
    Some(listed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;
    use cloud::PutMode;

    use super::*;
    use crate::test_node;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn objects_that_nothing_refers_to_are_found_in_parts_of_any_size() {
        let folder = tempfile::tempdir().unwrap();
        let node = test_node::open(folder.path(), &["a", "b", "c"]).await;
        let mut expected = BTreeSet::new();
        for number in 0..60_usize {
            let cloud = ["a", "b", "c"][number % 3];
            let letter = |at: usize| LETTERS.as_bytes()[(number * at + at) % 32] as char;
            let name: String = (0..NAME_LENGTH).map(letter).collect();
            expected.insert((cloud.to_owned(), name));
        }
        for (cloud, name) in expected.iter().chain(&[
            ("a".into(), "probe-0123".into()), // of others
            ("b".into(), "x".repeat(39)),
            ("b".into(), format!("{}1", "x".repeat(39))),
        ]) {
            let (_, connection) = node.clouds.get(cloud).unwrap();
            let content = vec![Bytes::from_static(b"12345")];
            connection.put(&ObjectName::new(name).unwrap(), content, PutMode::Create).await.unwrap();
        }
        for at_once in [2, 7, AT_ONCE] {
            let found = node.find_orphans(at_once, |_| {}).await.unwrap();
            assert_eq!((found.objects, found.orphans, found.bytes), (60, 60, 300), "{at_once}");
            let names: BTreeSet<_> = found.names.into_iter().map(|at| (at.cloud, at.name)).collect();
            assert!(names == expected && found.unreachable.is_empty());
        }
        std::fs::remove_dir_all(folder.path().join("clouds/b")).unwrap();
        let found = node.find_orphans(AT_ONCE, |_| {}).await.unwrap();
        assert_eq!((found.orphans, found.unreachable), (40, vec!["b".to_owned()]));
        node.stop.cancel();
    }
}
