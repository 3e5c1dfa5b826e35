//! Amazon S3 and stores that speak its protocol.
//!
//! Payloads are not hashed for the request signature when the connection is encrypted (TLS protects them on the
//! way, the caller's own authentication for good). `PutMode::Create` is a conditional put (`If-None-Match: *`).
//! Servers that keep objects as files under their names refuse `a/b/c` beside `a/b`.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

use crate::bucket::{Bucket, cannot_open, client_options, no_retries};
use crate::metered::Metered;
use crate::{Cloud, CloudError, Costs, Credentials};

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

/// What a file of credentials may hold.
const KEYS: [(&str, AmazonS3ConfigKey); 3] = [
    ("aws_access_key_id", AmazonS3ConfigKey::AccessKeyId),
    ("aws_secret_access_key", AmazonS3ConfigKey::SecretAccessKey),
    ("aws_session_token", AmazonS3ConfigKey::Token),
];

/// A client for `location`; asks nobody yet; requests are counted in `costs`. With `credentials` nothing is taken from the environment; without, the
/// `AWS_*` variables or the machine's role are used.
pub(crate) fn open(
    cloud: &str,
    location: &Location,
    credentials: Option<&Credentials>,
    costs: &Arc<Costs>,
) -> Result<Arc<dyn Cloud>, CloudError> {
    let cloud: Arc<str> = cloud.into();
    let wrong = |cause: &dyn std::fmt::Display| cannot_open(&cloud, &location.bucket, cause);
    let is_plain = location.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http:"));
    let path_style = location.path_style.unwrap_or(location.endpoint.is_some());
    let mut builder = match credentials {
        None => AmazonS3Builder::from_env(),
        Some(credentials) => {
            let values = credentials.values(&KEYS.map(|(key, _)| key)).map_err(|cause| wrong(&cause))?;
            values.require(&["aws_access_key_id", "aws_secret_access_key"]).map_err(|cause| wrong(&cause))?;
            let values = KEYS.into_iter().filter_map(|(name, key)| Some((key, values.get(name)?)));
            values.fold(AmazonS3Builder::new(), |builder, (key, value)| builder.with_config(key, value))
        }
    };
    builder = builder
        .with_client_options(client_options(is_plain))
        .with_bucket_name(&location.bucket)
        .with_virtual_hosted_style_request(!path_style)
        .with_unsigned_payload(!is_plain)
        .with_http_connector(Metered::new(costs, &location.bucket))
        .with_retry(no_retries());
    if let Some(endpoint) = &location.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(region) = &location.region {
        builder = builder.with_region(region);
    }
    let store = builder.build().map_err(|cause| wrong(&cause))?;
    Ok(Arc::new(Bucket::new(cloud, store, &location.prefix)))
}
