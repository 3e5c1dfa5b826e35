//! Volumes that are found on other servers (RFC 8881 §11, RFC 7530 §8).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use async_trait::async_trait;
use file_system::{Caller, FileId, FileSystem, FsError, FsResult, Mode, OpenReference, Transaction};
use ids::VolumeId;
use nfs4::{
    Component, FsLocation, FsLocations, FsLocationsInfo, FsLocationsItem, FsLocationsServer, Utf8String,
};

/// A volume on another server, written as `host:/path`; an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// A name, or an address without brackets.
    host: String,
    path: Vec<String>,
}

/// The text names no volume of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the address of a volume; write it as host:/path, with an IPv6 address in brackets")]
pub struct LocationError(String);

impl Location {
    fn root_path(&self) -> Vec<Component> {
        self.path.iter().map(|name| Component::from(name.as_str())).collect()
    }

    fn server(&self) -> Utf8String {
        self.host.as_str().into()
    }
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Location, LocationError> {
        let parts = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:/").filter(|(host, _)| host.parse::<IpAddr>().is_ok()),
            None => text.split_once(":/").filter(|(host, _)| {
                let usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
                (1..=255).contains(&host.len()) && host.bytes().all(usual)
            }),
        };
        let (host, path) = parts.ok_or_else(|| LocationError(text.to_owned()))?;
        let names = path.split('/').filter(|name| !name.is_empty());
        if names.clone().any(|name| file_system::Name::new(name.to_owned()).is_err()) {
            return Err(LocationError(text.to_owned()));
        }
        Ok(Location { host: host.to_owned(), path: names.map(str::to_owned).collect() })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:/{}", self.host, self.path.join("/")),
            false => write!(out, "{}:/{}", self.host, self.path.join("/")),
        }
    }
}

/// The attribute `fs_locations` of a volume that is called `name` here. Without locations it is here alone.
pub(crate) fn fs_locations(name: &str, locations: &[Location]) -> FsLocations {
    let location = |at: &Location| FsLocation { servers: vec![at.server()], root_path: at.root_path() };
    FsLocations { fs_root: vec![name.into()], locations: locations.iter().map(location).collect() }
}

/// For how many seconds a client may rely on `fs_locations_info`.
const VALID_FOR: i32 = 3600;

/// What is said of each replica, one byte each (RFC 8881 §11.17.1): it may be written (`FSLI4GF_WRITABLE`), shares no class
/// with another one, and is as good as the others.
const REPLICA: [u8; 12] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The attribute `fs_locations_info`, which says the same.
pub(crate) fn fs_locations_info(name: &str, locations: &[Location]) -> FsLocationsInfo {
    let item = |at: &Location| FsLocationsItem {
        entries: vec![FsLocationsServer {
            currency: -1,
            info: bytes::Bytes::from_static(&REPLICA),
            server: at.server(),
        }],
        root_path: at.root_path(),
    };
    FsLocationsInfo {
        flags: 0,
        valid_for: VALID_FOR,
        fs_root: vec![name.into()],
        items: locations.iter().map(item).collect(),
    }
}

/// Stands where a volume would be that is on another server.
pub(crate) struct Absent(VolumeId);

impl Absent {
    /// The same at every start.
    pub fn new(name: &str) -> Absent {
        let mut number = [0; 16];
        number.copy_from_slice(&blake3::hash(name.as_bytes()).as_bytes()[..16]);
        Absent(VolumeId(u128::from_be_bytes(number)))
    }
}

#[async_trait]
impl FileSystem for Absent {
    fn volume(&self) -> VolumeId {
        self.0
    }

    async fn begin(&self, _: &Caller, _: Mode) -> FsResult<Box<dyn Transaction>> {
        Err(FsError::Stale)
    }

    fn reference(&self, _: FileId) -> OpenReference {
        OpenReference::new(())
    }

    async fn sync(&self, _: FileId) -> FsResult<()> {
        Err(FsError::Stale)
    }

    fn write_verifier(&self) -> [u8; 8] {
        [0; 8]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_volumes_are_read_as_they_are_written() {
        for (text, host, path) in [
            ("box.example.org:/export/home", "box.example.org", "export/home"),
            ("10.0.0.7:/", "10.0.0.7", ""),
            ("[fd00::7]:/home", "fd00::7", "home"),
            ("box:/a//b/", "box", "a/b"),
        ] {
            let location: Location = text.parse().unwrap();
            assert_eq!((&*location.host, location.path.join("/")), (host, path.to_owned()));
            assert_eq!(location.to_string().parse(), Ok(location));
        }
        let wrong = [
            "",
            "box",
            ":/a",
            "box:a",
            "fd00::7:/a",
            "[box]:/a",
            "[fd00::7:/a",
            "box:/../a",
            "a b:/c",
            "box/x:/a",
        ];
        for text in wrong {
            assert_eq!(text.parse::<Location>(), Err(LocationError(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn clients_are_told_name_here_and_server_and_path_there() {
        let locations = ["a:/x/y".parse().unwrap(), "[fd00::7]:/".parse().unwrap()];
        let said = fs_locations("home", &locations);
        assert_eq!(said.fs_root, ["home".into()]);
        assert_eq!(said.locations[0].servers, ["a".into()]);
        assert_eq!(said.locations[0].root_path, ["x".into(), "y".into()]);
        assert_eq!(said.locations[1].servers, ["fd00::7".into()], "without brackets");
        assert!(said.locations[1].root_path.is_empty());
        let info = fs_locations_info("home", &locations);
        assert_eq!(info.fs_root, said.fs_root);
        assert_eq!(info.items[0].root_path, said.locations[0].root_path);
        assert_eq!(info.items[1].entries[0].server, said.locations[1].servers[0]);
    }
}
