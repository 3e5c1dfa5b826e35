//! Where files are: URLs, and paths of this machine.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use vector_client::{Client, Target};

use crate::outcome::Failure;

const SCHEME: &[u8] = b"nfs://";
const PORT: u16 = 2049;

/// A server by its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// `nfs://HOST[:PORT]/PATH` (RFC 2224), `%XX` for any byte of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub server: Server,
    pub path: Vec<u8>,
}

impl Url {
    /// Nothing if it is the path of a local file.
    pub fn of(argument: &OsStr) -> Result<Option<Url>, Failure> {
        let Some(rest) = argument.as_bytes().strip_prefix(SCHEME) else { return Ok(None) };
        let wrong = |what: &str| {
            let url = argument.to_string_lossy();
            Failure::usage(format!("{url}: {what}; write nfs://HOST[:PORT]/PATH"))
        };
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = std::str::from_utf8(authority).map_err(|_| wrong("no host name"))?;
        let (host, port) = match authority.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err(wrong("no host"));
        }
        let port = port.map_or(Ok(PORT), str::parse).map_err(|_| wrong("no port"))?;
        let server = Server { host: host.to_owned(), port };
        let path = decoded(path).ok_or_else(|| wrong("% is followed by two hexadecimal digits"))?;
        Ok(Some(Url { server, path }))
    }
}

fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    Some(bytes)
}

/// An argument: the file it names, and how to speak of it.
#[derive(Clone)]
pub struct Place {
    pub client: Client,
    pub target: Target,
    /// As it was written.
    pub shown: Vec<u8>,
    pub is_local: bool,
}

impl Place {
    /// What has this name in it.
    pub fn join(&self, name: &[u8]) -> Place {
        Place { target: self.target.join(name), shown: joined(&self.shown, name), ..self.clone() }
    }

    /// How to speak of something below it.
    pub fn show(&self, below: &Target) -> Vec<u8> {
        match self.within(below) {
            [] => self.shown.clone(),
            rest => joined(&self.shown, rest),
        }
    }

    /// The name within it of something below it, from a slash on.
    pub fn name_within(&self, below: &Target) -> Vec<u8> {
        [b"/", self.within(below)].concat()
    }

    fn within<'a>(&self, below: &'a Target) -> &'a [u8] {
        let rest = below.path().strip_prefix(&self.target.path()[..]).unwrap_or_default();
        let start = rest.iter().position(|byte| *byte != b'/').unwrap_or(rest.len());
        &rest[start..]
    }

    /// How to speak of a directory on its way: as much of it as was written.
    pub fn written_part(&self, above: &Target) -> Vec<u8> {
        let rest = self.target.path().len() - above.path().len().min(self.target.path().len());
        self.shown[..self.shown.len().saturating_sub(rest)].to_vec()
    }

    /// Its last name: as it was written, without slashes at the end.
    pub fn name(&self) -> &[u8] {
        let path = trimmed(if self.is_local { &self.shown } else { self.target.path() });
        path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// Whether it was written as a directory has to be.
    pub fn ends_in_slash(&self) -> bool {
        self.shown.ends_with(b"/")
    }
}

/// Without slashes at the end.
pub fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

/// A path with a further name.
pub fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.ends_with(b"/") || path.is_empty() { b"" } else { b"/" };
    [path, slash, name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, u16, String)> {
        let url = Url::of(OsStr::new(text)).ok()??;
        Some((url.server.host, url.server.port, String::from_utf8(url.path).unwrap()))
    }

    #[test]
    fn urls_have_a_host_a_port_and_a_path() {
        for (text, host, port, path) in [
            ("nfs://host/a/b", "host", 2049, "/a/b"),
            ("nfs://host:1234/a%20b%25", "host", 1234, "/a b%"),
            ("nfs://[::1]:99/", "::1", 99, "/"),
            ("nfs://[::1]", "::1", 2049, ""),
            ("nfs://10.0.0.1", "10.0.0.1", 2049, ""),
        ] {
            assert_eq!(parsed(text), Some((host.into(), port, path.into())), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_and_a_path_is_none() {
        for text in ["nfs:///a", "nfs://host:x/a", "nfs://host/%2", "nfs://host/%zz", "nfs://host/%+1"] {
            assert!(Url::of(OsStr::new(text)).is_err(), "{text}");
        }
        for text in ["a", "/nfs://a", "http://a/b", ""] {
            assert_eq!(Url::of(OsStr::new(text)).ok().flatten(), None, "{text}");
        }
    }
}
