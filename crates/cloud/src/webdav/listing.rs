//! What a server tells of the files in a directory (RFC 4918 §14).

use std::time::SystemTime;

use serde::Deserialize;

/// One file or directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its path on the server, without a slash at the end.
    pub path: String,
    pub is_directory: bool,
    pub size: Option<u64>,
    pub modified: Option<SystemTime>,
}

impl Entry {
    /// The last part of its path.
    pub fn file(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Multistatus {
    #[serde(default)]
    response: Vec<Response>,
}

#[derive(Deserialize)]
struct Response {
    href: String,
    #[serde(default)]
    propstat: Vec<Propstat>,
}

#[derive(Deserialize)]
struct Propstat {
    prop: Prop,
}

#[derive(Deserialize)]
struct Prop {
    resourcetype: Option<ResourceType>,
    getcontentlength: Option<String>,
    getlastmodified: Option<String>,
}

#[derive(Deserialize)]
struct ResourceType {
    collection: Option<serde::de::IgnoredAny>,
}

/// The path in an address, or in a path, without escapes and without a slash at the end.
pub(super) fn path_of(href: &str) -> String {
    let path = match href.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
        None => href,
    };
    percent_encoding::percent_decode_str(path.trim().trim_end_matches('/')).decode_utf8_lossy().into_owned()
}

/// Reads a listing.
pub(super) fn entries(xml: &[u8]) -> Option<Vec<Entry>> {
    let listing: Multistatus = quick_xml::de::from_reader(xml).ok()?;
    let entries = listing.response.into_iter().map(|response| {
        let props = || response.propstat.iter().map(|propstat| &propstat.prop);
        let is_directory =
            |prop: &Prop| prop.resourcetype.as_ref().is_some_and(|kind| kind.collection.is_some());
        Entry {
            path: path_of(&response.href),
            is_directory: props().any(is_directory),
            size: props().find_map(|prop| prop.getcontentlength.as_ref()?.trim().parse().ok()),
            modified: props()
                .find_map(|prop| httpdate::parse_http_date(prop.getlastmodified.as_ref()?.trim()).ok()),
        }
    });
    Some(entries.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_addresses_and_escapes_are_understood() {
        let xml = r#"<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">
            <D:response><D:href>http://h:80/dav/a%20b/</D:href><D:propstat><D:prop>
                <D:resourcetype><D:collection/></D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
                <D:propstat><D:prop><D:getcontentlength/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>
            </D:response>
            <D:response><D:href>/dav/a%20b/x%2By</D:href><D:propstat><D:prop><D:resourcetype/>
                <D:getcontentlength>7</D:getcontentlength>
                <D:getlastmodified>Thu, 01 Jan 1970 00:00:09 GMT</D:getlastmodified></D:prop></D:propstat></D:response>
            </D:multistatus>"#;
        let found = entries(xml.as_bytes()).unwrap();
        let directory = Entry { path: "/dav/a b".into(), is_directory: true, size: None, modified: None };
        assert_eq!(found[0], directory);
        assert_eq!((found[1].file(), found[1].size, found[1].is_directory), ("x+y", Some(7), false));
        assert!(found[1].modified.is_some());
        assert_eq!(entries(b"<html>no"), None);
    }
}
