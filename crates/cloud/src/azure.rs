//! Azure Blob Storage.
//!
//! Objects are block blobs that one request writes. `PutMode::Create` is a conditional put (`If-None-Match: *`).

use std::sync::Arc;

use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

use crate::bucket::{Bucket, cannot_open, client_options, no_retries};
use crate::metered::Metered;
use crate::{Cloud, CloudError, Costs, Credentials};

/// Where a container is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The storage account.
    pub account: String,
    /// The container.
    pub container: String,
    /// In front of every name, without slashes at the ends; empty for the whole container.
    pub prefix: String,
    /// `http:` or `https:` address of the account's blobs; `None` for `https://ACCOUNT.blob.core.windows.net`.
    pub endpoint: Option<String>,
}

/// What a file of credentials may hold: a key of the account, a shared access signature, or a service principal.
const KEYS: [(&str, AzureConfigKey); 5] = [
    ("azure_storage_account_key", AzureConfigKey::AccessKey),
    ("azure_storage_sas_token", AzureConfigKey::SasKey),
    ("azure_client_id", AzureConfigKey::ClientId),
    ("azure_client_secret", AzureConfigKey::ClientSecret),
    ("azure_tenant_id", AzureConfigKey::AuthorityId),
];

/// A client for `location`; asks nobody yet; requests are counted in `costs`. With `credentials` nothing is taken from the environment; without, the
/// `AZURE_*` variables, a workload's identity or the machine's are used.
pub(crate) fn open(
    cloud: &str,
    location: &Location,
    credentials: Option<&Credentials>,
    costs: &Arc<Costs>,
) -> Result<Arc<dyn Cloud>, CloudError> {
    let cloud: Arc<str> = cloud.into();
    let wrong = |cause: &dyn std::fmt::Display| cannot_open(&cloud, &location.container, cause);
    let is_plain = location.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http:"));
    let mut builder = match credentials {
        None => MicrosoftAzureBuilder::from_env(),
        Some(credentials) => {
            let values = credentials.values(&KEYS.map(|(key, _)| key)).map_err(|cause| wrong(&cause))?;
            let complete = values.has("azure_storage_account_key")
                || values.has("azure_storage_sas_token")
                || ["azure_client_id", "azure_client_secret", "azure_tenant_id"].map(|key| values.has(key))
                    == [true; 3];
            if !complete {
                return Err(wrong(&values.lacking(
                    "azure_storage_account_key, azure_storage_sas_token, or azure_client_id, azure_client_secret and azure_tenant_id",
                )));
            }
            let values = KEYS.into_iter().filter_map(|(name, key)| Some((key, values.get(name)?)));
            values.fold(MicrosoftAzureBuilder::new(), |builder, (key, value)| builder.with_config(key, value))
        }
    };
    builder = builder
        .with_client_options(client_options(is_plain))
        .with_account(&location.account)
        .with_container_name(&location.container)
        .with_http_connector(Metered::new(costs, &location.container))
        .with_retry(no_retries());
    if let Some(endpoint) = &location.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    let store = builder.build().map_err(|cause| wrong(&cause))?;
    Ok(Arc::new(Bucket::new(cloud, store, &location.prefix).that_hides_prefix()))
}
