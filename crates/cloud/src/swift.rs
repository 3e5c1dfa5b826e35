//! OpenStack Swift: a container, by its own interface.
//!
//! Signs in by Keystone (version 3) or by the older way that small installations have (version 1), and again when the
//! token has run out. `PutMode::Create` is refused: a Swift keeps copies that take writes independently, and of two
//! creators both may win, whatever they ask for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::contract::length_of;
use crate::driver::Driver;
use crate::http::{self, Failure};
use crate::{CloudError, Credentials, ErrorKind, MAX_OBJECT, ObjectName, Operation, PutMode};

/// The longest listing and the longest catalogue that are taken.
const MAX_ANSWER: u64 = 16 << 20;

/// Where a container is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The container.
    pub container: String,
    /// In front of every name, without slashes at the ends; empty for the whole container.
    pub prefix: String,
    /// Where to sign in; `None` for the environment's or that of the credentials.
    pub auth: Option<String>,
    /// `None` for the environment's, that of the credentials, or the only one.
    pub region: Option<String>,
}

/// What the environment or a file of credentials may tell; the first three are those of version 1.
const KEYS: [&str; 14] = [
    "st_auth",
    "st_user",
    "st_key",
    "os_auth_url",
    "os_username",
    "os_password",
    "os_user_domain_name",
    "os_project_name",
    "os_project_id",
    "os_project_domain_name",
    "os_application_credential_id",
    "os_application_credential_secret",
    "os_region_name",
    "os_identity_api_version",
];

/// The driver.
pub(crate) struct Swift {
    cloud: Arc<str>,
    client: Client,
    container: String,
    prefix: String,
    account: Account,
    signed_in: tokio::sync::Mutex<Option<Token>>,
    /// The container has been there: then what is not found is an object.
    seen: AtomicBool,
}

/// How to sign in.
struct Account {
    auth: String,
    region: Option<String>,
    values: BTreeMap<&'static str, Zeroizing<String>>,
}

#[derive(Clone)]
struct Token {
    /// Of the account's storage.
    url: Arc<str>,
    token: HeaderValue,
}

#[derive(Deserialize)]
struct Listed {
    name: Option<String>,
    bytes: Option<u64>,
}

fn secret(text: &str) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::from_str(text);
    let mut value = value.map_err(|_| Failure::Refused("the credentials are no text".into()))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Account {
    fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.as_str())
    }

    async fn sign_in(&self, client: &Client) -> Result<Token, Failure> {
        match self.value("st_user") {
            Some(user) => self.sign_in_1(client, user).await,
            None => self.sign_in_3(client).await,
        }
    }

    async fn sign_in_1(&self, client: &Client, user: &str) -> Result<Token, Failure> {
        let key = secret(self.value("st_key").unwrap_or_default())?;
        let request = client.get(&self.auth).header("x-auth-user", user).header("x-auth-key", key);
        let answer = http::send(request).await?;
        let header = |name| http::text(answer.headers(), &HeaderName::from_static(name)).map(str::to_owned);
        let (Some(url), Some(token)) = (header("x-storage-url"), header("x-auth-token")) else {
            return Err(Failure::Refused(format!("{} does not sign anybody in", self.auth)));
        };
        Ok(Token { url: url.trim_end_matches('/').into(), token: secret(&token)? })
    }

    /// <https://docs.openstack.org/api-ref/identity/v3/>
    async fn sign_in_3(&self, client: &Client) -> Result<Token, Failure> {
        let value = |name| self.value(name).unwrap_or_default();
        let domain = |name| self.value(name).unwrap_or("Default");
        let question = match self.value("os_application_credential_id") {
            Some(id) => json!({"auth": {"identity": {
                "methods": ["application_credential"],
                "application_credential": {"id": id, "secret": value("os_application_credential_secret")},
            }}}),
            None => {
                let project = match self.value("os_project_id") {
                    Some(id) => json!({"id": id}),
                    None => json!({
                        "name": value("os_project_name"),
                        "domain": {"name": domain("os_project_domain_name")},
                    }),
                };
                let user = json!({
                    "name": value("os_username"),
                    "domain": {"name": domain("os_user_domain_name")},
                    "password": value("os_password"),
                });
                let identity = json!({"methods": ["password"], "password": {"user": user}});
                json!({"auth": {"identity": identity, "scope": {"project": project}}})
            }
        };
        let request = client.post(format!("{}/auth/tokens", self.auth.trim_end_matches('/')));
        let request = request.header("content-type", "application/json").body(question.to_string());
        let answer = http::send(request).await?;
        let token = http::text(answer.headers(), &HeaderName::from_static("x-subject-token")).map(secret);
        let token =
            token.ok_or_else(|| Failure::Refused(format!("{} does not sign anybody in", self.auth)))??;
        let catalogue = http::body(answer, MAX_ANSWER).await?;
        let catalogue: Value = serde_json::from_slice(&catalogue)
            .map_err(|_| Failure::Lost("the catalogue of services is no JSON".into()))?;
        let url = storage_url(&catalogue, self.region.as_deref()).ok_or_else(|| {
            let region = self.region.as_deref().unwrap_or("any region");
            Failure::Refused(format!("the catalogue of services has no object-store in {region}"))
        })?;
        Ok(Token { url: url.trim_end_matches('/').into(), token })
    }
}

/// The public address of the object store in a catalogue.
fn storage_url<'a>(catalogue: &'a Value, region: Option<&str>) -> Option<&'a str> {
    let services = catalogue["token"]["catalog"].as_array()?.iter();
    let endpoints = services.filter(|service| service["type"] == "object-store");
    let endpoints = endpoints.filter_map(|service| service["endpoints"].as_array()).flatten();
    let mut fitting = endpoints.filter(|endpoint| {
        let here =
            region.is_none_or(|region| endpoint["region"] == region || endpoint["region_id"] == region);
        endpoint["interface"] == "public" && here
    });
    fitting.next()?["url"].as_str()
}

impl Swift {
    /// A client for `location`; asks nobody yet. `credentials` hold what the `OS_*` or the `ST_*` variables do, which
    /// are used without them.
    pub fn open(
        cloud: &str,
        location: &Location,
        credentials: Option<&Credentials>,
    ) -> Result<Swift, CloudError> {
        let cloud: Arc<str> = cloud.into();
        let wrong = |cause: &dyn std::fmt::Display| {
            CloudError::new(ErrorKind::Refused, &cloud, Operation::Open, &location.container, cause)
        };
        let values = Credentials::or_environment(credentials, &KEYS).map_err(|cause| wrong(&cause))?;
        let value = |name: &str| values.get(name).map(|value| value.to_string());
        let complete = (values.contains_key("st_user") && values.contains_key("st_key"))
            || (values.contains_key("os_username") && values.contains_key("os_password"))
            || values.contains_key("os_application_credential_secret");
        if !complete {
            return Err(wrong(
                &"there are no credentials: st_user and st_key, os_username and os_password, or os_application_credential_id and os_application_credential_secret, in the file or, in capitals, in the environment",
            ));
        }
        let auth = location.auth.clone().or_else(|| value("st_auth")).or_else(|| value("os_auth_url"));
        let auth =
            auth.ok_or_else(|| wrong(&"nothing tells where to sign in: ?auth=URL, st_auth or os_auth_url"))?;
        let account =
            Account { auth, region: location.region.clone().or_else(|| value("os_region_name")), values };
        let prefix = if location.prefix.is_empty() { String::new() } else { format!("{}/", location.prefix) };
        Ok(Swift {
            client: http::client().map_err(|cause| wrong(&cause))?,
            cloud: cloud.clone(),
            container: location.container.clone(),
            prefix,
            account,
            signed_in: tokio::sync::Mutex::default(),
            seen: AtomicBool::new(false),
        })
    }

    /// A token, a new one instead of `old`.
    async fn token(&self, old: Option<&Token>) -> Result<Token, Failure> {
        let mut signed_in = self.signed_in.lock().await;
        match &*signed_in {
            Some(token) if old.is_none_or(|old| old.token != token.token) => Ok(token.clone()),
            _ => {
                let token = self.account.sign_in(&self.client).await?;
                *signed_in = Some(token.clone());
                Ok(token)
            }
        }
    }

    /// Sends a request for `below` the container, with a new token if the old one has run out.
    async fn send(
        &self,
        method: Method,
        below: &str,
        request: impl Fn(RequestBuilder) -> RequestBuilder + Send,
    ) -> Result<Response, Failure> {
        let mut old = None;
        loop {
            let token = self.token(old.as_ref()).await?;
            let url = format!("{}/{}{below}", token.url, self.container);
            let asked = self.client.request(method.clone(), url).header("x-auth-token", token.token.clone());
            match http::send(request(asked)).await {
                Err(failure) if failure.is(StatusCode::UNAUTHORIZED) && old.is_none() => old = Some(token),
                answer => return answer,
            }
        }
    }

    fn object(&self, name: &ObjectName) -> String {
        format!("/{}{name}", self.prefix)
    }

    /// A missing object in a missing container is not "no such object".
    async fn explain<T>(&self, failure: Failure) -> Result<T, Failure> {
        if failure.is(StatusCode::NOT_FOUND) && !self.seen.load(Ordering::Acquire) {
            match self.send(Method::HEAD, "", |request| request).await {
                Err(missing) if missing.is(StatusCode::NOT_FOUND) => {
                    let container = &self.container;
                    let cause = format!(
                        "there is no container {container} (create the container or correct its name)"
                    );
                    return Err(Failure::Refused(cause));
                }
                found => found.map(|_| self.seen.store(true, Ordering::Release))?,
            }
        }
        Err(failure)
    }
}

#[async_trait]
impl Driver for Swift {
    type Failure = Failure;

    fn error(&self, operation: Operation, object: &str, failure: Failure) -> CloudError {
        failure.into_error(&self.cloud, operation, object)
    }

    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), Failure> {
        if mode == PutMode::Create {
            return Err(Failure::Refused("a Swift cannot create objects atomically".into()));
        }
        if length_of(&parts) > MAX_OBJECT {
            let cause =
                format!("{} bytes are more than the {MAX_OBJECT} that an object may have", length_of(&parts));
            return Err(Failure::Refused(cause));
        }
        let object = self.object(name);
        let put = self.send(Method::PUT, &object, |request| http::upload(request, parts.clone()));
        match put.await {
            Ok(_) => Ok(()),
            Err(failure) => self.explain(failure).await,
        }
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, Failure> {
        if range.as_ref().is_some_and(|range| range.start >= range.end) {
            return self.head(name).await.map(|_| Bytes::new());
        }
        let object = self.object(name);
        let got = self.send(Method::GET, &object, |request| http::ranged(request, range.as_ref())).await;
        match http::part(got, range, self.head(name)).await {
            Err(failure) => self.explain(failure).await,
            got => got,
        }
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, Failure> {
        match self.send(Method::HEAD, &self.object(name), |request| request).await {
            Ok(answer) => http::size(&answer),
            Err(failure) => self.explain(failure).await,
        }
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), Failure> {
        match self.send(Method::DELETE, &self.object(name), |request| request).await {
            Ok(_) => Ok(()),
            Err(failure) => match self.explain(failure).await {
                Err(failure) if failure.is(StatusCode::NOT_FOUND) => Ok(()),
                other => other,
            },
        }
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<(ObjectName, u64)>, Failure> {
        let mut found: Vec<(ObjectName, u64)> = Vec::new();
        let mut marker = if after.is_empty() { String::new() } else { format!("{}{after}", self.prefix) };
        while found.len() < limit {
            let page = (limit - found.len()).to_string();
            let prefix = format!("{}{prefix}", self.prefix);
            let query = url::form_urlencoded::Serializer::new(String::new())
                .extend_pairs([
                    ("format", "json"),
                    ("prefix", &prefix),
                    ("marker", &marker),
                    ("limit", &page),
                ])
                .finish();
            let answer = self.send(Method::GET, &format!("?{query}"), |request| request).await;
            let answer = match answer {
                Ok(answer) => answer,
                Err(failure) => return self.explain(failure).await,
            };
            let listed = http::body(answer, MAX_ANSWER).await?;
            let listed: Vec<Listed> = match listed.is_empty() {
                true => Vec::new(),
                false => serde_json::from_slice(&listed)
                    .map_err(|_| Failure::Lost("the server's listing is no listing".into()))?,
            };
            self.seen.store(true, Ordering::Release);
            let Some(last) = listed.last().and_then(|last| last.name.clone()) else { break };
            if last <= marker {
                return Err(Failure::Lost("the names of a listing go backwards".into()));
            }
            marker = last;
            for object in listed {
                let name = object.name.as_deref().and_then(|name| name.strip_prefix(&self.prefix));
                let name = name.and_then(|name| ObjectName::new(name).ok());
                if let (Some(name), Some(size)) = (name, object.bytes)
                    && name.as_str() > after
                {
                    found.push((name, size));
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_object_store_of_the_region_is_taken_from_the_catalogue() {
        let endpoint = |interface: &str, region: &str, url: &str| json!({"interface": interface, "region": region, "region_id": region, "url": url});
        let catalogue = json!({"token": {"catalog": [
            {"type": "compute", "endpoints": [endpoint("public", "north", "http://compute")]},
            {"type": "object-store", "endpoints": [
                endpoint("internal", "north", "http://inside"),
                endpoint("public", "north", "http://north"),
                endpoint("public", "south", "http://south"),
            ]},
        ]}});
        assert_eq!(storage_url(&catalogue, Some("south")), Some("http://south"));
        assert_eq!(storage_url(&catalogue, None), Some("http://north"));
        assert_eq!(storage_url(&catalogue, Some("west")), None);
        assert_eq!(storage_url(&json!({}), None), None);
    }
}
