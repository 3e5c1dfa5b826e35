use async_trait::async_trait;
use bytes::Bytes;

/// What is shown to a scanner: given once, part by part.
#[async_trait]
pub trait Content: Send {
    /// Bytes in all.
    fn size(&self) -> u64;

    /// The next part, not empty and of bounded length; `None` at the end. The error says why it cannot be read.
    async fn next(&mut self) -> Result<Option<Bytes>, String>;
}
