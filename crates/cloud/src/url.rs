use std::fmt;
use std::path::PathBuf;

use url::Url;

use crate::{azure, gcs, s3, sftp, swift, webdav};

/// Where a cloud is.
///
/// * `dir:///path` or `file:///path`: a directory of this machine;
/// * `s3://bucket/prefix?endpoint=URL&region=NAME&path_style=BOOL`: an S3 bucket; all but the bucket is optional;
/// * `azure://account/container/prefix?endpoint=URL`: a container of Azure Blob Storage;
/// * `gcs://bucket/prefix?endpoint=URL`: a bucket of Google Cloud Storage;
/// * `sftp://user@host:port/path?ssh_config=FILE`: a directory of another machine by SFTP; `/~/path` lies in the user's
///   home; user, port and file are optional;
/// * `webdavs://host:port/path`, without encryption `webdav://host:port/path`: a directory on a WebDAV server;
/// * `swift://container/prefix?auth=URL&region=NAME`: a container of OpenStack Swift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudUrl {
    /// A directory.
    Dir(PathBuf),
    /// A bucket of S3.
    S3(s3::Location),
    /// A container of Azure.
    Azure(azure::Location),
    /// A bucket of Google.
    Gcs(gcs::Location),
    /// A directory of another machine.
    Sftp(sftp::Location),
    /// A directory on a WebDAV server.
    Webdav(webdav::Location),
    /// A container of Swift.
    Swift(swift::Location),
}

/// The schemes of addresses, for messages.
const SCHEMES: &str = "dir:///PATH, s3://BUCKET, azure://ACCOUNT/CONTAINER, gcs://BUCKET, sftp://HOST/PATH, webdavs://HOST/PATH or swift://CONTAINER";

/// The text is no [`CloudUrl`].
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is no address of a cloud: {reason}")]
pub struct InvalidUrl {
    text: String,
    reason: String,
}

impl CloudUrl {
    /// How many operations run at a time unless something else is asked for: an object store serves very many; one disk, or one
    /// machine, does not become faster by more.
    pub fn usual_concurrency(&self) -> usize {
        match self {
            CloudUrl::S3(_) | CloudUrl::Azure(_) | CloudUrl::Gcs(_) | CloudUrl::Swift(_) => 64,
            CloudUrl::Dir(_) => 32,
            CloudUrl::Sftp(_) | CloudUrl::Webdav(_) => 16,
        }
    }

    /// Reads an address.
    pub fn parse(text: &str) -> Result<CloudUrl, InvalidUrl> {
        parse(text).map_err(|reason| InvalidUrl { text: without_secrets(text), reason })
    }
}

/// What somebody may have put in front of the host does not go into messages.
fn without_secrets(text: &str) -> String {
    match text.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?.1))) {
        Some((scheme, rest)) => format!("{scheme}://...@{rest}"),
        None => text.to_owned(),
    }
}

fn parse(text: &str) -> Result<CloudUrl, String> {
    let url = Url::parse(text).map_err(|error| format!("{error}; expected {SCHEMES}"))?;
    let may_name_user = url.scheme() == "sftp";
    if (!url.username().is_empty() && !may_name_user) || url.password().is_some() {
        return Err(
            "credentials do not belong into an address; use `credentials`, a file, or the environment".into(),
        );
    }
    match url.scheme() {
        "dir" | "file" => parse_dir(text, &url),
        "s3" => parse_s3(&url).map(CloudUrl::S3),
        "azure" => parse_azure(&url).map(CloudUrl::Azure),
        "gcs" => parse_gcs(&url).map(CloudUrl::Gcs),
        "sftp" => parse_sftp(&url).map(CloudUrl::Sftp),
        "webdav" | "webdavs" => parse_webdav(&url).map(CloudUrl::Webdav),
        "swift" => parse_swift(&url).map(CloudUrl::Swift),
        other => Err(format!("{other}: is not known; expected {SCHEMES}")),
    }
}

fn parse_dir(text: &str, url: &Url) -> Result<CloudUrl, String> {
    let wrong = || "expected dir:///PATH with an absolute path".to_owned();
    if url.query().is_some() || url.fragment().is_some() {
        return Err("a directory takes no parameters".into());
    }
    let path = text.split_once(':').map(|(_, path)| path).ok_or_else(wrong)?;
    let file = Url::parse(&format!("file:{path}")).map_err(|_| wrong())?;
    if !path.starts_with("///") {
        return Err(wrong());
    }
    file.to_file_path().map(CloudUrl::Dir).map_err(|()| wrong())
}

fn host(url: &Url, expected: &str) -> Result<String, String> {
    let host = url.host_str().filter(|host| !host.is_empty()).map(str::to_owned);
    host.ok_or_else(|| format!("it names no place: {expected}"))
}

/// A path in front of names, without the slashes at its ends.
fn prefix(path: &str) -> Result<String, String> {
    let prefix = path.trim_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let dots = prefix.split('/').any(|part| part == ".." || part == ".");
    if prefix.chars().all(plain) && !dots && !prefix.contains("//") {
        return Ok(prefix.to_owned());
    }
    Err("the prefix may hold letters, digits, '-', '_', '.' and single '/'".into())
}

/// Reads the parameters by `take`, which says whether it knows one.
fn parameters(
    url: &Url,
    known: &str,
    mut take: impl FnMut(&str, &str) -> Result<bool, String>,
) -> Result<(), String> {
    if url.fragment().is_some() {
        return Err("an address has no part behind '#'".into());
    }
    for (key, value) in url.query_pairs() {
        if !take(&key, &value)? {
            return Err(format!("parameter {key} is not known; there are {known}"));
        }
    }
    Ok(())
}

fn parse_s3(url: &Url) -> Result<s3::Location, String> {
    let mut location = s3::Location {
        bucket: host(url, "s3://BUCKET")?,
        prefix: prefix(url.path())?,
        endpoint: None,
        region: None,
        path_style: None,
    };
    parameters(url, "endpoint, region and path_style", |key, value| {
        match key {
            "endpoint" => location.endpoint = Some(parse_endpoint(value)?),
            "region" => location.region = Some(value.to_owned()),
            "path_style" => {
                let style = value.parse().map_err(|_| "path_style is true or false".to_owned())?;
                location.path_style = Some(style);
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(location)
}

fn parse_azure(url: &Url) -> Result<azure::Location, String> {
    let account = host(url, "azure://ACCOUNT/CONTAINER")?;
    let path = url.path().trim_start_matches('/');
    let (container, rest) = path.split_once('/').unwrap_or((path, ""));
    if container.is_empty() {
        return Err("the container is missing: azure://ACCOUNT/CONTAINER".into());
    }
    let mut endpoint = None;
    only_endpoint(url, &mut endpoint)?;
    Ok(azure::Location { account, container: prefix(container)?, prefix: prefix(rest)?, endpoint })
}

fn parse_gcs(url: &Url) -> Result<gcs::Location, String> {
    let mut endpoint = None;
    only_endpoint(url, &mut endpoint)?;
    Ok(gcs::Location { bucket: host(url, "gcs://BUCKET")?, prefix: prefix(url.path())?, endpoint })
}

fn parse_sftp(url: &Url) -> Result<sftp::Location, String> {
    // All of them become arguments of a program.
    let plain = |text: &str| {
        !text.starts_with('-') && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:[]".contains(c))
    };
    let host = host(url, "sftp://HOST/PATH")?;
    if !plain(&host) || !plain(url.username()) {
        return Err("host and user may hold letters, digits, '-', '_' and '.'".into());
    }
    let path = decoded(url.path())?;
    let path = match path.strip_prefix("/~/") {
        Some(path) => path.to_owned(),
        None => path,
    };
    if path.trim_matches('/').is_empty() || path.starts_with('-') {
        return Err("the directory is missing: sftp://HOST/PATH, or sftp://HOST/~/PATH below the home".into());
    }
    let mut ssh_config = None;
    parameters(url, "ssh_config", |key, value| {
        if key == "ssh_config" {
            if !value.starts_with('/') {
                return Err("ssh_config is the absolute path of a file".into());
            }
            ssh_config = Some(PathBuf::from(value));
        }
        Ok(key == "ssh_config")
    })?;
    let user = Some(url.username().to_owned()).filter(|user| !user.is_empty());
    let host = host.trim_matches(['[', ']']).to_owned();
    Ok(sftp::Location {
        user,
        host,
        port: url.port(),
        path: path.trim_end_matches('/').to_owned(),
        ssh_config,
    })
}

fn parse_webdav(url: &Url) -> Result<webdav::Location, String> {
    let host = host(url, "webdavs://HOST/PATH")?;
    let authority = url.port().map_or(host.clone(), |port| format!("{host}:{port}"));
    parameters(url, "none", |_, _| Ok(false))?;
    decoded(url.path())?;
    let path = match url.path() {
        "" => "/",
        path => path,
    };
    Ok(webdav::Location { encrypted: url.scheme() == "webdavs", authority, path: path.to_owned() })
}

fn parse_swift(url: &Url) -> Result<swift::Location, String> {
    let container = host(url, "swift://CONTAINER")?;
    let mut location = swift::Location { container, prefix: prefix(url.path())?, auth: None, region: None };
    parameters(url, "auth and region", |key, value| {
        match key {
            "auth" => location.auth = Some(parse_endpoint(value)?),
            "region" => location.region = Some(value.to_owned()),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(location)
}

/// A path without the escapes of addresses.
fn decoded(path: &str) -> Result<String, String> {
    let text = percent_encoding::percent_decode_str(path).decode_utf8();
    match text {
        Ok(text) if !text.chars().any(char::is_control) => Ok(text.into_owned()),
        _ => Err("the path is no text".into()),
    }
}

/// Characters that would end a path in an address.
const IN_PATHS: &percent_encoding::AsciiSet =
    &percent_encoding::CONTROLS.add(b' ').add(b'?').add(b'#').add(b'%').add(b'"').add(b'<').add(b'>');

fn only_endpoint(url: &Url, endpoint: &mut Option<String>) -> Result<(), String> {
    parameters(url, "endpoint", |key, value| {
        if key == "endpoint" {
            *endpoint = Some(parse_endpoint(value)?);
        }
        Ok(key == "endpoint")
    })
}

fn parse_endpoint(text: &str) -> Result<String, String> {
    let wrong = || format!("{:?} is no http: or https: address", without_secrets(text));
    let url = Url::parse(text).map_err(|_| wrong())?;
    let fits = matches!(url.scheme(), "http" | "https") && url.has_host();
    let bare = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if fits && bare { Ok(text.trim_end_matches('/').to_owned()) } else { Err(wrong()) }
}

impl fmt::Display for CloudUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        match self {
            CloudUrl::Dir(path) => match Url::from_file_path(path) {
                Ok(url) => write!(f, "dir://{}", url.path())?,
                Err(()) => write!(f, "dir://{}", path.display())?,
            },
            CloudUrl::S3(location) => {
                write!(f, "s3://{}/{}", location.bucket, location.prefix)?;
                query.extend_pairs(location.endpoint.iter().map(|endpoint| ("endpoint", endpoint)));
                query.extend_pairs(location.region.iter().map(|region| ("region", region)));
                query.extend_pairs(location.path_style.map(|style| ("path_style", style.to_string())));
            }
            CloudUrl::Azure(location) => {
                write!(f, "azure://{}/{}/{}", location.account, location.container, location.prefix)?;
                query.extend_pairs(location.endpoint.iter().map(|endpoint| ("endpoint", endpoint)));
            }
            CloudUrl::Gcs(location) => {
                write!(f, "gcs://{}/{}", location.bucket, location.prefix)?;
                query.extend_pairs(location.endpoint.iter().map(|endpoint| ("endpoint", endpoint)));
            }
            CloudUrl::Sftp(location) => {
                f.write_str("sftp://")?;
                location.user.iter().try_for_each(|user| write!(f, "{user}@"))?;
                match location.host.contains(':') {
                    true => write!(f, "[{}]", location.host)?,
                    false => f.write_str(&location.host)?,
                }
                location.port.iter().try_for_each(|port| write!(f, ":{port}"))?;
                let below_home = if location.path.starts_with('/') { "" } else { "/~/" };
                let path = percent_encoding::utf8_percent_encode(&location.path, IN_PATHS);
                write!(f, "{below_home}{path}")?;
                query.extend_pairs(
                    location.ssh_config.iter().map(|file| ("ssh_config", file.to_string_lossy())),
                );
            }
            CloudUrl::Webdav(location) => {
                let scheme = if location.encrypted { "webdavs" } else { "webdav" };
                write!(f, "{scheme}://{}{}", location.authority, location.path)?;
            }
            CloudUrl::Swift(location) => {
                write!(f, "swift://{}/{}", location.container, location.prefix)?;
                query.extend_pairs(location.auth.iter().map(|auth| ("auth", auth)));
                query.extend_pairs(location.region.iter().map(|region| ("region", region)));
            }
        }
        let query = query.finish();
        if query.is_empty() { Ok(()) } else { write!(f, "?{query}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        assert_eq!(CloudUrl::parse("dir:///a/b%20c").unwrap(), CloudUrl::Dir("/a/b c".into()));
        assert_eq!(CloudUrl::parse("file:///a").unwrap(), CloudUrl::Dir("/a".into()));
        let full =
            "s3://bucket/some/where?endpoint=http%3A%2F%2F127.0.0.1%3A9000&region=eu-1&path_style=false";
        let CloudUrl::S3(location) = CloudUrl::parse(full).unwrap() else { panic!("not S3") };
        assert_eq!(location.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!((location.bucket.as_str(), location.prefix.as_str()), ("bucket", "some/where"));
        assert_eq!(location.path_style, Some(false));
        let azure = "azure://account/container/some/where?endpoint=http%3A%2F%2F127.0.0.1%3A10000%2Faccount";
        let sftp = "sftp://me@[::1]:2022/srv/a%20b?ssh_config=%2Fetc%2Fkurma%2Fssh_config";
        let webdav = "webdav://127.0.0.1:8080/some%20where";
        let swift = "swift://container/some/where?auth=http%3A%2F%2F127.0.0.1%2Fv3&region=north";
        for text in [
            "dir:///a/b%20c",
            "s3://bucket/",
            full,
            azure,
            "gcs://bucket/some/where",
            sftp,
            "sftp://h/~/a",
            webdav,
            swift,
        ] {
            assert_eq!(CloudUrl::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn wrong_addresses_are_refused_with_a_reason() {
        for (bad, reason) in [
            ("", "expected dir:///"),
            ("dir://host/a", "absolute path"),
            ("dir:a", "absolute path"),
            ("dir:///a?x=1", "no parameters"),
            ("s3:///x", "s3://BUCKET"),
            ("azure://account", "container is missing"),
            ("azure://account/c?region=x", "there are endpoint"),
            ("azure://account/c#x", "'#'"),
            ("gcs://b?endpoint=http://key:secret@x", "http: or https:"),
            ("s3://b?regoin=x", "regoin"),
            ("s3://b/a//b", "prefix"),
            ("s3://b?endpoint=ftp://x", "endpoint"),
            ("s3://key:secret@b", "credentials"),
            ("sftp://me:secret@h/x", "credentials"),
            ("sftp://h", "directory is missing"),
            ("sftp://-oProxyCommand=x/y", "letters"),
            ("sftp://h/x?ssh_config=y", "absolute"),
            ("webdavs://me:secret@h/x", "credentials"),
            ("webdavs://h/x?y=z", "not known"),
            ("swift://c?auth=x", "http: or https:"),
            ("gopher://x", "gopher"),
        ] {
            let text = CloudUrl::parse(bad).unwrap_err().to_string();
            assert!(text.contains(reason) && !text.contains("secret"), "{text}");
        }
    }
}
