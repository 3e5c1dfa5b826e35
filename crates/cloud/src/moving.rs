use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Cloud, CloudError, ErrorKind, ObjectName, PutMode};

/// A store whose objects are on their way from one cloud to another: new ones go to the second, which is asked first;
/// what it does not have, or does not answer, is looked for in the first. Deleting deletes in both.
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

/// What the two clouds together say: the answer of the first that has one. Missing is only what both do not have.
async fn either<T, F: Future<Output = Result<T, CloudError>>>(
    to: impl Fn() -> F,
    from: impl Future<Output = Result<T, CloudError>>,
) -> Result<T, CloudError> {
    let new = to().await;
    if new.is_ok() {
        return new;
    }
    let old = from.await;
    match (is_missing(&new), is_missing(&old)) {
        (_, _) if old.is_ok() => old,
        (true, true) => to().await, // it may just have arrived
        (true, false) => old,
        (false, _) => new,
    }
}

#[async_trait]
impl Cloud for Moving {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        self.to.put(name, parts, mode).await
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        either(|| self.to.get(name, range.clone()), self.from.get(name, range.clone())).await
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        either(|| self.to.head(name), self.from.head(name)).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        // In this order: a copy that begins after the first deletion finds nothing to copy. Whoever deletes garbage waits for
        // those that began before.
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
    use crate::{Fault, Faulty, Memory, Side, conformance, test_environment};

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

    #[tokio::test]
    async fn a_new_cloud_that_fails_hides_nothing_of_the_old_one() {
        let clock = test_environment().clock;
        let (old, new) = (Memory::new("from"), Memory::new("to"));
        let (from, to) = (Faulty::new(old.clone(), "from", clock.clone()), Faulty::new(new, "to", clock));
        let moving = Moving::new(from.clone(), to.clone());
        let (there, nowhere) = (ObjectName::new("there").unwrap(), ObjectName::new("nowhere").unwrap());
        old.poke(&there, Some("old".into()));
        for kind in [ErrorKind::Transient, ErrorKind::Refused] {
            to.set(Side::Reads, Fault::Fail(kind));
            assert_eq!(moving.get(&there, None).await.unwrap(), "old");
            assert_eq!(moving.head(&there).await.unwrap(), 3);
            // It may be in the one that does not answer.
            assert_eq!(moving.get(&nowhere, None).await.unwrap_err().kind(), kind);
            assert_eq!(moving.head(&nowhere).await.unwrap_err().kind(), kind);
        }
        to.set(Side::Reads, Fault::None);
        from.set(Side::Reads, Fault::Fail(ErrorKind::Transient));
        assert_eq!(moving.get(&nowhere, None).await.unwrap_err().kind(), ErrorKind::Transient);
        assert_eq!(moving.head(&nowhere).await.unwrap_err().kind(), ErrorKind::Transient);
    }
}
