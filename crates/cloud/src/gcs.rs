//! Google Cloud Storage, by its XML interface.
//!
//! `PutMode::Create` is a conditional put (`x-goog-if-generation-match: 0`).

use std::sync::Arc;

use object_store::StaticCredentialProvider;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};

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
    /// `http:` or `https:` address of the service; `None` for Google's own.
    pub endpoint: Option<String>,
}

/// A client for `location`; asks nobody yet; requests are counted in `costs`. `credentials` are the JSON file of a service account, or
/// `google_bearer_token = TOKEN`; without them the `GOOGLE_*` variables, the application default credentials or the
/// machine's role are used.
pub(crate) fn open(
    cloud: &str,
    location: &Location,
    credentials: Option<&Credentials>,
    costs: &Arc<Costs>,
) -> Result<Arc<dyn Cloud>, CloudError> {
    let cloud: Arc<str> = cloud.into();
    let wrong = |cause: &dyn std::fmt::Display| cannot_open(&cloud, &location.bucket, cause);
    let is_plain = location.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http:"));
    let builder = match credentials {
        None => GoogleCloudStorageBuilder::from_env(),
        Some(credentials) if credentials.is_json() => {
            GoogleCloudStorageBuilder::new().with_service_account_key(credentials.text())
        }
        Some(credentials) => {
            let values = credentials.values(&["google_bearer_token"]).map_err(|cause| wrong(&cause))?;
            values.require(&["google_bearer_token"]).map_err(|cause| wrong(&cause))?;
            let bearer = values.get("google_bearer_token").unwrap_or_default().to_owned();
            let credential = StaticCredentialProvider::new(GcpCredential { bearer });
            GoogleCloudStorageBuilder::new().with_credentials(Arc::new(credential))
        }
    };
    let mut builder = builder
        .with_client_options(client_options(is_plain))
        .with_bucket_name(&location.bucket)
        .with_http_connector(Metered::new(costs, &location.bucket))
        .with_retry(no_retries());
    if let Some(endpoint) = &location.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    let store = builder.build().map_err(|cause| {
        // The library's errors about a key may quote it.
        match credentials {
            Some(credentials) => {
                wrong(&format_args!("{} is no service account's key", credentials.path().display()))
            }
            None => wrong(&cause),
        }
    })?;
    Ok(Arc::new(Bucket::new(cloud, store, &location.prefix)))
}
