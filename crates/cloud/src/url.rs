use std::fmt;
use std::path::PathBuf;

use url::Url;

use crate::s3;

/// Where a cloud is.
///
/// * `dir:///path` or `file:///path`: a directory of this machine;
/// * `s3://bucket/prefix?endpoint=URL&region=NAME&path_style=BOOL`: an S3 bucket; all but the bucket is optional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudUrl {
    /// A directory.
    Dir(PathBuf),
    /// A bucket.
    S3(s3::Location),
}

/// The text is no [`CloudUrl`].
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is no address of a cloud: {reason}")]
pub struct InvalidUrl {
    text: String,
    reason: String,
}

impl CloudUrl {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<CloudUrl, InvalidUrl> {
        parse(text).map_err(|reason| InvalidUrl { text: text.to_owned(), reason })
    }
}

fn parse(text: &str) -> Result<CloudUrl, String> {
    let url = Url::parse(text).map_err(|error| format!("{error}; expected dir:///PATH or s3://BUCKET"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "credentials do not belong into an address; use the configuration or the environment".into()
        );
    }
    match url.scheme() {
        "dir" | "file" => parse_dir(text, &url),
        "s3" => parse_s3(&url),
        other => Err(format!("{other}: is not known; expected dir: or s3:")),
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

fn parse_s3(url: &Url) -> Result<CloudUrl, String> {
    let bucket =
        url.host_str().filter(|host| !host.is_empty()).ok_or("the bucket is missing: s3://BUCKET")?;
    let prefix = url.path().trim_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !prefix.chars().all(plain)
        || prefix.split('/').any(|part| part == ".." || part == ".")
        || prefix.contains("//")
    {
        return Err("the prefix may hold letters, digits, '-', '_', '.' and single '/'".into());
    }
    let mut location = s3::Location {
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        endpoint: None,
        region: None,
        path_style: None,
    };
    for (key, value) in url.query_pairs() {
        match &*key {
            "endpoint" => location.endpoint = Some(parse_endpoint(&value)?),
            "region" => location.region = Some(value.into_owned()),
            "path_style" => {
                location.path_style =
                    Some(value.parse().map_err(|_| "path_style is true or false".to_owned())?);
            }
            other => {
                return Err(format!(
                    "parameter {other} is not known; there are endpoint, region and path_style"
                ));
            }
        }
    }
    Ok(CloudUrl::S3(location))
}

fn parse_endpoint(text: &str) -> Result<String, String> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err(format!("endpoint {text:?} is no http: or https: address")),
    }
}

impl fmt::Display for CloudUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloudUrl::Dir(path) => match Url::from_file_path(path) {
                Ok(url) => write!(f, "dir://{}", url.path()),
                Err(()) => write!(f, "dir://{}", path.display()),
            },
            CloudUrl::S3(location) => {
                write!(f, "s3://{}/{}", location.bucket, location.prefix)?;
                let mut query = url::form_urlencoded::Serializer::new(String::new());
                query.extend_pairs(location.endpoint.iter().map(|endpoint| ("endpoint", endpoint)));
                query.extend_pairs(location.region.iter().map(|region| ("region", region)));
                query.extend_pairs(location.path_style.map(|style| ("path_style", style.to_string())));
                let query = query.finish();
                if query.is_empty() { Ok(()) } else { write!(f, "?{query}") }
            }
        }
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
        for text in ["dir:///a/b%20c", "s3://bucket/", full] {
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
            ("s3:///x", "bucket"),
            ("s3://b?regoin=x", "regoin"),
            ("s3://b/a//b", "prefix"),
            ("s3://b?endpoint=ftp://x", "endpoint"),
            ("s3://key:secret@b", "credentials"),
            ("gopher://x", "gopher"),
        ] {
            let text = CloudUrl::parse(bad).unwrap_err().to_string();
            assert!(text.contains(reason), "{text}");
        }
    }
}
