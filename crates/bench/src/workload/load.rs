//! Personalities: the files of one, and its acts.

use anyhow::Result;
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::client::{Client, ensure_folder};
use crate::personality::{Act, LOG, Personality};

impl Client {
    pub(super) async fn act(&self, personality: Personality, act: &Act, content: &Bytes) -> Result<()> {
        let path = self.set_path(personality, act.name());
        if act.name() == LOG {
            let _turn = self.log.lock().await;
            return self.kernel.act(act, &path, content).await;
        }
        self.kernel.act(act, &path, content).await
    }

    /// Where the set is: one for each load, as a run that fails leaves its own behind.
    fn set_folder(&self, personality: Personality) -> String {
        format!("{}/set of {}", self.path, personality.name)
    }

    /// Where a file of the set is.
    fn set_path(&self, personality: Personality, name: &str) -> String {
        format!("{}/{}", self.set_folder(personality), personality.place(name))
    }

    pub(super) async fn make_set(&self, personality: Personality) -> Result<()> {
        let folder = self.set_folder(personality);
        ensure_folder(&self.kernel, &folder).await?;
        for directory in 0..personality.directories() {
            ensure_folder(&self.kernel, &format!("{folder}/{directory}")).await?;
        }
        let content = self.content(personality.largest());
        let make = |(name, size): (String, usize)| {
            let content = content.slice(..size);
            async move { self.kernel.write(&self.set_path(personality, &name), &content).await }
        };
        stream::iter(personality.set().into_iter().map(make)).buffer_unordered(16).try_collect().await
    }

    /// Gives the files that the last round has made the names of those that the first has removed.
    pub(super) async fn turn_back(&self, personality: Personality) -> Result<()> {
        for (from, to) in personality.turns() {
            let (from, to) = (self.set_path(personality, &from), self.set_path(personality, &to));
            self.kernel.rename(&from, &to).await?;
        }
        Ok(())
    }

    pub(super) async fn remove_set(&self, personality: Personality) -> Result<()> {
        self.turn_back(personality).await?;
        for (name, _) in personality.set() {
            self.kernel.remove(&self.set_path(personality, &name)).await?;
        }
        let folder = self.set_folder(personality);
        for directory in 0..personality.directories() {
            self.kernel.remove(&format!("{folder}/{directory}")).await?;
        }
        self.kernel.remove(&folder).await
    }
}
