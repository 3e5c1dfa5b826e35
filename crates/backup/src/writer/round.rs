use bytes::Bytes;
use cloud::{ObjectName, PutMode};
use environment::Entropy;
use futures::future::join_all;
use ids::Timestamp;

use super::{Kind, Writer};
use crate::{BackupError, BackupKeys, Item, ObjectEntry, Place};

/// Bytes of items in an object, but for a longer item.
const OBJECT: usize = 4 << 20;
/// What an item takes beside keys and values, at most.
const FRAME: usize = 64;

/// A backup on its way to the clouds.
pub(super) struct Round {
    pub kind: Kind,
    pub first: [u8; 32],
    /// Of the whole chain.
    pub objects: Vec<ObjectEntry>,
    /// Clouds that have taken everything so far.
    alive: Vec<Place>,
    content: Vec<u8>,
}

impl Round {
    pub fn begin(writer: &Writer, kind: Kind, places: &[Place]) -> Round {
        let (first, objects) = match (kind, &writer.head) {
            (Kind::Increment, Some(head)) => (head.first, head.objects.clone()),
            _ => (writer.state.parent.map_or([0; 32], |parent| parent.link), Vec::new()),
        };
        let is_whole = |place: &&Place| {
            let stand = writer.stands.get(&place.name);
            let is_whole = kind == Kind::Base || stand.is_some_and(|stand| stand.objects == objects.len());
            is_whole && writer.vetted.contains(&place.name)
        };
        let alive = places.iter().filter(is_whole).cloned().collect();
        Round { kind, first, objects, alive, content: Vec::new() }
    }

    /// Whether `item` goes into the next object.
    pub fn is_full(&self, item: &Item) -> bool {
        let length = match item {
            Item::Row { key, value } => key.len() + value.as_ref().map_or(0, Bytes::len),
            Item::Unsaved(unsaved) => 16 * unsaved.ranges.len(),
            Item::Configuration(text) => text.len(),
            Item::End(_) => 0,
        };
        !self.content.is_empty() && self.content.len() + length + FRAME > OBJECT
    }

    pub fn push(&mut self, item: &Item) {
        item.encode(&mut self.content);
    }

    /// Objects of the chain, if what has been pushed is the last one.
    pub fn next_count(&self) -> u32 {
        self.objects.len() as u32 + 1
    }

    /// The clouds that have taken everything so far.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.alive.iter()
    }

    pub fn alive(&self, name: &str) -> bool {
        self.places().any(|place| place.name == name)
    }

    /// Makes an object of what has been pushed.
    pub fn seal(
        &mut self,
        keys: &BackupKeys,
        branch: &[u8; 16],
        number: (u64, u32),
        time: Timestamp,
        entropy: &dyn Entropy,
    ) -> (ObjectName, Bytes) {
        let sealed = keys.seal_object(branch, number, &self.content, time, entropy);
        self.content.clear();
        let before = self.objects.last().map_or(self.first, |object| object.sum);
        let sum = keys.sum(branch, number, &before, &sealed);
        let (start, number) = number;
        self.objects.push(ObjectEntry { start, number, length: sealed.len() as u32, sum });
        (keys.object_name(branch, start, number), sealed)
    }

    /// Puts an object into all clouds that have taken everything so far.
    ///
    /// # Errors
    /// None of them took it.
    pub async fn put(&mut self, name: &ObjectName, sealed: &Bytes) -> Result<(), BackupError> {
        let puts =
            self.alive.iter().map(|place| place.cloud.put(name, vec![sealed.clone()], PutMode::Overwrite));
        let results = join_all(puts).await;
        let mut cause = "none can be reached".to_owned();
        let mut results = results.into_iter();
        self.alive.retain(|place| match results.next() {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                tracing::debug!(cloud = place.name, %error, "has not taken a part of the backup");
                cause = error.to_string();
                false
            }
            None => false,
        });
        if self.alive.is_empty() { Err(BackupError::NoCloud(cause)) } else { Ok(()) }
    }
}
