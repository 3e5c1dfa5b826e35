use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Cloud, CloudError, ErrorKind, ObjectName, Operation, PutMode};

/// Refuses everything that would change the store.
pub struct ReadOnly {
    inner: Arc<dyn Cloud>,
    cloud: Arc<str>,
}

impl ReadOnly {
    /// Only reads `inner`.
    pub fn new(inner: Arc<dyn Cloud>, cloud: &Arc<str>) -> ReadOnly {
        ReadOnly { inner, cloud: cloud.clone() }
    }

    fn refused(&self, operation: Operation, name: &ObjectName) -> CloudError {
        let cause = "the configuration says that this cloud is only read (read_only)";
        CloudError::new(ErrorKind::Refused, &self.cloud, operation, name, cause)
    }
}

#[async_trait]
impl Cloud for ReadOnly {
    async fn put(&self, name: &ObjectName, _: Vec<Bytes>, _: PutMode) -> Result<(), CloudError> {
        Err(self.refused(Operation::Put, name))
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        self.inner.get(name, range).await
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        self.inner.head(name).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        Err(self.refused(Operation::Delete, name))
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        self.inner.list(prefix, after, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    #[tokio::test]
    async fn nothing_is_written_or_deleted_and_everything_is_read() {
        let memory = Memory::new("m");
        let name = ObjectName::new("name").unwrap();
        memory.poke(&name, Some("there".into()));
        let cloud = ReadOnly::new(memory.clone(), &"m".into());
        for refused in [
            cloud.put(&name, vec!["new".into()], PutMode::Overwrite).await,
            cloud.put(&ObjectName::new("other").unwrap(), vec![], PutMode::Create).await,
            cloud.delete(&name).await,
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused);
        }
        assert_eq!(cloud.get(&name, None).await.unwrap(), "there");
        assert_eq!(cloud.head(&name).await.unwrap(), 5);
        assert_eq!(cloud.list("", None, 9).await.unwrap(), [(name, 5)]);
    }
}
