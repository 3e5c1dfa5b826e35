use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::contract::{clip, length_of};
use crate::{Cloud, CloudError, ErrorKind, MAX_LIST, MAX_OBJECT, ObjectName, Operation, PutMode};

/// A cloud in memory, for tests, with a back door for a test that plays the cloud's owner.
pub struct Memory {
    cloud: Arc<str>,
    objects: Mutex<BTreeMap<ObjectName, Bytes>>,
}

impl Memory {
    /// An empty cloud called `cloud` in errors.
    pub fn new(cloud: &str) -> Arc<Memory> {
        Arc::new(Memory { cloud: cloud.into(), objects: Mutex::default() })
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<ObjectName> {
        self.objects.lock().keys().cloned().collect()
    }

    /// The bytes of an object.
    pub fn peek(&self, name: &ObjectName) -> Option<Bytes> {
        self.objects.lock().get(name).cloned()
    }

    /// Sets (`Some`) or removes (`None`) an object behind everybody's back; returns what was there.
    pub fn poke(&self, name: &ObjectName, bytes: Option<Bytes>) -> Option<Bytes> {
        match bytes {
            Some(bytes) => self.objects.lock().insert(name.clone(), bytes),
            None => self.objects.lock().remove(name),
        }
    }
}

#[async_trait]
impl Cloud for Memory {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        if length_of(&parts) > MAX_OBJECT {
            return Err(CloudError::too_large(&self.cloud, Operation::Put, name, length_of(&parts)));
        }
        let mut objects = self.objects.lock();
        if mode == PutMode::Create && objects.contains_key(name) {
            let kind = ErrorKind::AlreadyExists;
            return Err(CloudError::new(kind, &self.cloud, Operation::Put, name, "the name is taken"));
        }
        objects.insert(name.clone(), parts.concat().into());
        Ok(())
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        match self.objects.lock().get(name) {
            Some(bytes) => {
                let range = clip(range, bytes.len() as u64);
                Ok(bytes.slice(range.start as usize..range.end as usize))
            }
            None => {
                Err(CloudError::new(ErrorKind::NotFound, &self.cloud, Operation::Get, name, "no such object"))
            }
        }
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        match self.objects.lock().get(name) {
            Some(bytes) => Ok(bytes.len() as u64),
            None => Err(CloudError::new(
                ErrorKind::NotFound,
                &self.cloud,
                Operation::Head,
                name,
                "no such object",
            )),
        }
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        self.objects.lock().remove(name);
        Ok(())
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        let objects = self.objects.lock();
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        let matching =
            objects.range((from, Bound::Unbounded)).filter(|(name, _)| name.as_str().starts_with(prefix));
        Ok(matching
            .take(limit.min(MAX_LIST))
            .map(|(name, bytes)| (name.clone(), bytes.len() as u64))
            .collect())
    }
}
