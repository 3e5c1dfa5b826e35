//! Amazon S3 and stores that speak its protocol.
//!
//! Payloads are not hashed for the request signature when the connection is encrypted (TLS protects them on the
//! way, the caller's own authentication for good). `PutMode::Create` is a conditional put (`If-None-Match: *`).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, ObjectStore, ObjectStoreExt, PutOptions, PutPayload, RetryConfig,
};
use zeroize::Zeroizing;

use crate::contract::length_of;
use crate::{Cloud, CloudError, ErrorKind, MAX_LIST, MAX_OBJECT, ObjectName, Operation, PutMode};

/// Where a bucket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The bucket.
    pub bucket: String,
    /// In front of every name, without slashes at the ends; empty for the whole bucket.
    pub prefix: String,
    /// `http:` or `https:` address of the service; `None` for Amazon's own.
    pub endpoint: Option<String>,
    /// `None` for the environment's, else `us-east-1`.
    pub region: Option<String>,
    /// Whether the bucket is in the path and not in the host name; by default exactly with an endpoint.
    pub path_style: Option<bool>,
}

/// An access key.
#[derive(Clone)]
pub struct Credentials {
    /// The public part.
    pub access_key: String,
    /// The secret part.
    pub secret_key: Zeroizing<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({}, ...)", self.access_key)
    }
}

/// The driver.
pub struct S3 {
    cloud: Arc<str>,
    store: AmazonS3,
    prefix: String,
}

impl S3 {
    /// A client for `location`; asks nobody yet. Without `credentials` the `AWS_*` variables or the machine's role
    /// are used.
    pub fn open(
        cloud: &str,
        location: &Location,
        credentials: Option<&Credentials>,
    ) -> Result<S3, CloudError> {
        let cloud: Arc<str> = cloud.into();
        let is_plain = location.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http:"));
        let path_style = location.path_style.unwrap_or(location.endpoint.is_some());
        let client = ClientOptions::new()
            .with_allow_http(is_plain)
            .with_connect_timeout(Duration::from_secs(5))
            // The wrapper `Timeouts` decides; this one only has to be out of its way.
            .with_timeout(Duration::from_secs(3600))
            .with_pool_idle_timeout(Duration::from_secs(60));
        let mut builder = AmazonS3Builder::from_env()
            .with_client_options(client)
            .with_bucket_name(&location.bucket)
            .with_virtual_hosted_style_request(!path_style)
            .with_unsigned_payload(!is_plain)
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() });
        if let Some(endpoint) = &location.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &location.region {
            builder = builder.with_region(region);
        }
        if let Some(Credentials { access_key, secret_key }) = credentials {
            builder = builder.with_access_key_id(access_key).with_secret_access_key(secret_key.as_str());
        }
        let store = builder.build().map_err(|error| {
            CloudError::new(ErrorKind::Refused, &cloud, Operation::Open, &location.bucket, error)
        })?;
        let prefix = if location.prefix.is_empty() { String::new() } else { format!("{}/", location.prefix) };
        Ok(S3 { cloud, store, prefix })
    }

    fn path_of(&self, operation: Operation, name: &str) -> Result<Path, CloudError> {
        Path::parse(format!("{}{name}", self.prefix))
            .map_err(|error| CloudError::new(ErrorKind::Refused, &self.cloud, operation, name, error))
    }

    fn error(&self, operation: Operation, object: &str, error: &object_store::Error) -> CloudError {
        let (kind, advice) = classify(error);
        CloudError::new(kind, &self.cloud, operation, object, format!("{error}{advice}"))
    }

    async fn try_get(&self, path: &Path, range: Option<Range<u64>>) -> object_store::Result<Bytes> {
        let options = GetOptions { range: range.map(Into::into), ..GetOptions::default() };
        let result = self.store.get_opts(path, options).await?;
        let length = result.range.end.saturating_sub(result.range.start);
        let too_large = |length: u64| object_store::Error::NotSupported {
            source: format!("{length} bytes are more than the {MAX_OBJECT} that an object may have").into(),
        };
        if length > MAX_OBJECT {
            return Err(too_large(length));
        }
        let mut parts = result.into_stream();
        let Some(first) = parts.try_next().await? else { return Ok(Bytes::new()) };
        if first.len() as u64 == length {
            return Ok(first);
        }
        let mut whole = BytesMut::with_capacity(length as usize);
        whole.extend_from_slice(&first);
        while let Some(part) = parts.try_next().await? {
            if (whole.len() + part.len()) as u64 > length {
                return Err(too_large((whole.len() + part.len()) as u64));
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    }
}

/// The library reports most of what a server says as text only.
fn classify(error: &object_store::Error) -> (ErrorKind, &'static str) {
    use object_store::Error as E;
    let text = error.to_string();
    let says = |part: &str| text.contains(part);
    match error {
        _ if says("NoSuchBucket") => (ErrorKind::Refused, " (create the bucket or correct its name)"),
        E::NotFound { .. } => (ErrorKind::NotFound, ""),
        E::AlreadyExists { .. } | E::Precondition { .. } => (ErrorKind::AlreadyExists, ""),
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
            (ErrorKind::Refused, " (check the access key, its policy and the clock of this machine)")
        }
        E::NotSupported { .. } | E::NotImplemented { .. } | E::InvalidPath { .. } => (ErrorKind::Refused, ""),
        E::UnknownConfigurationKey { .. } => (ErrorKind::Refused, ""),
        _ if says("redirect") => (ErrorKind::Refused, " (check the region)"),
        _ if says("status code: 408") || says("status code: 429") || says("status code: 409") => {
            (ErrorKind::Transient, "")
        }
        _ if says("status code: 4") => (ErrorKind::Refused, ""),
        _ => (ErrorKind::Transient, ""),
    }
}

#[async_trait]
impl Cloud for S3 {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        let path = self.path_of(Operation::Put, name.as_str())?;
        if length_of(&parts) > MAX_OBJECT {
            return Err(CloudError::too_large(&self.cloud, Operation::Put, name, length_of(&parts)));
        }
        let mode = match mode {
            PutMode::Create => object_store::PutMode::Create,
            PutMode::Overwrite => object_store::PutMode::Overwrite,
        };
        let payload: PutPayload = parts.into_iter().collect();
        let result = self.store.put_opts(&path, payload, PutOptions { mode, ..PutOptions::default() }).await;
        result.map(|_| ()).map_err(|error| self.error(Operation::Put, name.as_str(), &error))
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        let path = self.path_of(Operation::Get, name.as_str())?;
        if range.as_ref().is_some_and(|range| range.start >= range.end) {
            return self.head(name).await.map(|_| Bytes::new());
        }
        match self.try_get(&path, range.clone()).await {
            Ok(bytes) => Ok(bytes),
            Err(error) => {
                let error = self.error(Operation::Get, name.as_str(), &error);
                // S3 refuses a range that begins at or behind the end; the contract has it empty.
                match range {
                    Some(range)
                        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) =>
                    {
                        match self.head(name).await {
                            Ok(size) if range.start >= size => Ok(Bytes::new()),
                            _ => Err(error),
                        }
                    }
                    _ => Err(error),
                }
            }
        }
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        let path = self.path_of(Operation::Head, name.as_str())?;
        let meta = self.store.head(&path).await;
        meta.map(|meta| meta.size).map_err(|error| self.error(Operation::Head, name.as_str(), &error))
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        let path = self.path_of(Operation::Delete, name.as_str())?;
        match self.store.delete(&path).await {
            Ok(()) => Ok(()),
            Err(error) => match self.error(Operation::Delete, name.as_str(), &error) {
                error if error.kind() == ErrorKind::NotFound => Ok(()),
                error => Err(error),
            },
        }
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        let limit = limit.min(MAX_LIST);
        let whole = self.path_of(Operation::List, "")?;
        let whole = (!whole.as_ref().is_empty()).then_some(&whole);
        let after = after.map_or("", ObjectName::as_str);
        let from = if after >= prefix { after.to_owned() } else { just_before(prefix) };
        let mut found = Vec::new();
        if limit == 0 {
            return Ok(found);
        }
        let mut names = if from.is_empty() {
            self.store.list(whole)
        } else {
            self.store.list_with_offset(whole, &self.path_of(Operation::List, &from)?)
        };
        while let Some(meta) = names.next().await {
            let meta = meta.map_err(|error| self.error(Operation::List, prefix, &error))?;
            let Some(name) = meta.location.as_ref().strip_prefix(&self.prefix) else { continue };
            if !name.starts_with(prefix) && name > prefix {
                break; // sorted: nothing with the prefix follows
            }
            match ObjectName::new(name) {
                Ok(name) if name.as_str().starts_with(prefix) && name.as_str() > after => {
                    found.push((name, meta.size))
                }
                _ => continue,
            }
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }
}

/// A text that sorts before every name with `prefix` and after every other name that sorts before those: offsets
/// of a listing are exclusive. `}` sorts after all characters of names.
fn just_before(prefix: &str) -> String {
    match prefix.as_bytes().split_last() {
        Some((last, rest)) => format!("{}{}}}", String::from_utf8_lossy(rest), (last - 1) as char),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_prefix_lies_between_its_names_and_all_before() {
        let offset = just_before("ab");
        assert!(offset.as_str() < "ab" && "aazz" < offset.as_str());
        assert_eq!(just_before(""), "");
    }

    #[test]
    fn secrets_are_not_printed() {
        let credentials =
            Credentials { access_key: "key".into(), secret_key: Zeroizing::new("hidden".into()) };
        assert!(!format!("{credentials:?}").contains("hidden"));
    }
}
