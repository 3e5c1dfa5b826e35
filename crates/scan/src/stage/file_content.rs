use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use ids::ObjectId;
use volume::ScanTarget;

use super::Stage;
use crate::Content;

/// Bytes read at once.
const CHUNK: u64 = 256 << 10;

/// The content of a file as it is now, dirty data and all.
pub(super) struct FileContent<'a> {
    pub stage: &'a Stage,
    pub object: ObjectId,
    pub target: ScanTarget,
    pub at: u64,
    pub parts: VecDeque<Bytes>,
}

#[async_trait]
impl Content for FileContent<'_> {
    fn size(&self) -> u64 {
        self.target.size
    }

    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        self.parts.retain(|part| !part.is_empty());
        if self.parts.is_empty() && self.at < self.target.size {
            let read = self.stage.volume.read_for_scan(self.object, &self.target, self.at, CHUNK).await;
            self.parts = read.map_err(|error| error.to_string())?.into();
            self.parts.retain(|part| !part.is_empty());
            let length: u64 = self.parts.iter().map(|part| part.len() as u64).sum();
            if length == 0 {
                return Err("less was read than there should be".into());
            }
            self.at += length;
            self.stage.shared.counters.bytes.fetch_add(length, Ordering::Relaxed);
        }
        Ok(self.parts.pop_front())
    }
}
