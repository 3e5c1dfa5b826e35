//! What the drivers through the crate `object_store` have in common: S3, Azure and Google differ in how a client is
//! made and in nothing else.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, ObjectStore, ObjectStoreExt, PutOptions, PutPayload, RetryConfig,
};

use crate::contract::length_of;
use crate::error::shortened;
use crate::{Cloud, CloudError, ErrorKind, MAX_LIST, MAX_OBJECT, ObjectName, Operation, PutMode};

/// The most names that one request of a listing asks for: no service gives more.
const PAGE: usize = 1000;

/// A bucket or container, and a prefix in it.
pub(crate) struct Bucket<S> {
    cloud: Arc<str>,
    store: S,
    prefix: String,
    /// The library leaves the object out of a listing whose name is the prefix itself.
    hides_prefix: bool,
}

/// Settings of the HTTP client: `plain` allows a connection that is not encrypted.
pub(crate) fn client_options(plain: bool) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(plain)
        .with_connect_timeout(Duration::from_secs(5))
        // The wrapper `Timeouts` decides; this one only has to be out of its way.
        .with_timeout(Duration::from_secs(3600))
        .with_pool_idle_timeout(Duration::from_secs(60))
}

/// Drivers do not retry.
pub(crate) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// A client could not be made.
pub(crate) fn cannot_open(cloud: &Arc<str>, place: &str, cause: impl fmt::Display) -> CloudError {
    CloudError::new(ErrorKind::Refused, cloud, Operation::Open, place, cause)
}

impl<S: ObjectStore + PaginatedListStore> Bucket<S> {
    /// What lies under `prefix`, which has no slashes at its ends.
    pub(crate) fn new(cloud: Arc<str>, store: S, prefix: &str) -> Bucket<S> {
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Bucket { cloud, store, prefix, hides_prefix: false }
    }

    /// For a library that leaves the object out of a listing whose name is the prefix itself.
    pub(crate) fn that_hides_prefix(self) -> Bucket<S> {
        Bucket { hides_prefix: true, ..self }
    }

    /// The object that a listing of `prefix` lacks.
    async fn hidden(&self, prefix: &str, after: &str) -> Result<Option<(ObjectName, u64)>, CloudError> {
        let Ok(name) = ObjectName::new(prefix) else { return Ok(None) };
        if !self.hides_prefix || after >= prefix {
            return Ok(None);
        }
        match self.head(&name).await {
            Ok(size) => Ok(Some((name, size))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn path_of(&self, operation: Operation, name: &str) -> Result<Path, CloudError> {
        Path::parse(format!("{}{name}", self.prefix))
            .map_err(|error| CloudError::new(ErrorKind::Refused, &self.cloud, operation, name, error))
    }

    fn error(&self, operation: Operation, object: &str, error: &object_store::Error) -> CloudError {
        let (kind, advice) = classify(error);
        let cause = format!("{}{advice}", shortened(&error.to_string()));
        CloudError::new(kind, &self.cloud, operation, object, cause)
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

const CREDENTIALS: &str = " (check the credentials, what they permit, and the clock of this machine)";

/// The library reports most of what a server says as text only.
fn classify(error: &object_store::Error) -> (ErrorKind, &'static str) {
    use object_store::Error as E;
    let text = error.to_string();
    let says = |part: &str| text.contains(part);
    match error {
        _ if says("NoSuchBucket") => (ErrorKind::Refused, " (create the bucket or correct its name)"),
        _ if says("ContainerNotFound") => (ErrorKind::Refused, " (create the container or correct its name)"),
        E::NotFound { .. } => (ErrorKind::NotFound, ""),
        E::AlreadyExists { .. } | E::Precondition { .. } => (ErrorKind::AlreadyExists, ""),
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => (ErrorKind::Refused, CREDENTIALS),
        E::NotSupported { .. } | E::NotImplemented { .. } | E::InvalidPath { .. } => (ErrorKind::Refused, ""),
        E::UnknownConfigurationKey { .. } => (ErrorKind::Refused, ""),
        _ if says("status code: 401") || says("status code: 403") => (ErrorKind::Refused, CREDENTIALS),
        _ if says("redirect") => (ErrorKind::Refused, " (check the region)"),
        _ if says("status code: 408") || says("status code: 429") || says("status code: 409") => {
            (ErrorKind::Transient, "")
        }
        _ if says("status code: 4") => (ErrorKind::Refused, ""),
        _ => (ErrorKind::Transient, ""),
    }
}

#[async_trait]
impl<S: ObjectStore + PaginatedListStore> Cloud for Bucket<S> {
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
                // The services refuse a range that begins at or behind the end; the contract has it empty.
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
        let after = after.map_or("", ObjectName::as_str);
        let whole = format!("{}{prefix}", self.prefix);
        let whole = (!whole.is_empty()).then_some(whole.as_str());
        // An offset before the prefix says nothing, and not every service takes one.
        let offset = (after > prefix).then(|| format!("{}{after}", self.prefix));
        let mut found: Vec<(ObjectName, u64)> = self.hidden(prefix, after).await?.into_iter().collect();
        let mut page_token = None;
        while found.len() < limit {
            let options = PaginatedListOptions {
                offset: offset.clone(),
                max_keys: Some((limit - found.len()).min(PAGE)),
                page_token: page_token.take(),
                ..PaginatedListOptions::default()
            };
            let page = self.store.list_paginated(whole, options).await;
            let page = page.map_err(|error| self.error(Operation::List, prefix, &error))?;
            for meta in page.result.objects {
                let Some(name) = meta.location.as_ref().strip_prefix(&self.prefix) else { continue };
                match ObjectName::new(name) {
                    Ok(name) if name.as_str().starts_with(prefix) && name.as_str() > after => {
                        found.push((name, meta.size))
                    }
                    _ => continue,
                }
            }
            page_token = page.page_token;
            if page_token.is_none() {
                break;
            }
        }
        if !found.is_sorted() {
            let cause = "the names come in no order (is this a directory bucket?)";
            return Err(CloudError::new(ErrorKind::Refused, &self.cloud, Operation::List, prefix, cause));
        }
        found.truncate(limit);
        Ok(found)
    }
}
