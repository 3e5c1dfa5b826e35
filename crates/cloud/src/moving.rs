use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Cloud, CloudError, ErrorKind, ObjectName, PutMode};

/// A store whose objects are on their way from one cloud to another: new ones go to the second, which is asked first;
/// what it does not have is looked for in the first. Deleting deletes in both.
///
/// Somebody else copies the objects and then deletes them in the first cloud, in this order, so that they are always
/// found.
pub struct Moving {
    from: Arc<dyn Cloud>,
    to: Arc<dyn Cloud>,
}

impl Moving {
    /// On the way from `from` to `to`.
    pub fn new(from: Arc<dyn Cloud>, to: Arc<dyn Cloud>) -> Moving {
        Moving { from, to }
    }
}

fn is_missing<T>(result: &Result<T, CloudError>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

#[async_trait]
impl Cloud for Moving {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        self.to.put(name, parts, mode).await
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        let found = self.to.get(name, range.clone()).await;
        if !is_missing(&found) {
            return found;
        }
        let found = self.from.get(name, range.clone()).await;
        match is_missing(&found) {
            true => self.to.get(name, range).await, // it may just have arrived
            false => found,
        }
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        let found = self.to.head(name).await;
        if !is_missing(&found) {
            return found;
        }
        let found = self.from.head(name).await;
        match is_missing(&found) {
            true => self.to.head(name).await,
            false => found,
        }
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        // In this order: an object that is just being copied is not left over.
        self.from.delete(name).await?;
        self.to.delete(name).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        let mut found = self.from.list(prefix, after, limit).await?;
        found.extend(self.to.list(prefix, after, limit).await?);
        found.sort();
        found.dedup_by(|one, other| one.0 == other.0);
        found.truncate(limit);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, conformance};

    #[tokio::test]
    async fn a_store_on_the_move_keeps_the_contract() {
        conformance::run(&Moving::new(Memory::new("from"), Memory::new("to"))).await;
    }

    #[tokio::test]
    async fn objects_are_found_on_either_side_and_new_ones_go_to_the_second() {
        let (from, to) = (Memory::new("from"), Memory::new("to"));
        let moving = Moving::new(from.clone(), to.clone());
        let name = |text: &str| ObjectName::new(text).unwrap();
        let put = |cloud: Arc<Memory>, text: &'static str| async move {
            cloud.put(&name(text), vec![text.into()], PutMode::Overwrite).await.unwrap();
        };
        put(from.clone(), "old").await;
        put(to.clone(), "moved").await;
        moving.put(&name("new"), vec!["new".into()], PutMode::Create).await.unwrap();
        for text in ["old", "moved", "new"] {
            assert_eq!(moving.get(&name(text), None).await.unwrap(), text);
            assert_eq!(moving.head(&name(text)).await.unwrap(), text.len() as u64);
        }
        assert_eq!(moving.list("", None, 10).await.unwrap().len(), 3);
        assert!(from.peek(&name("new")).is_none());
        moving.delete(&name("old")).await.unwrap();
        assert!(from.peek(&name("old")).is_none());
    }
}
