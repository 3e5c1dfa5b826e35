//! The volumes of a server and the directory above them.

use std::net::IpAddr;
use std::sync::Arc;

use file_system::attribute_rules::next_change;
use file_system::{Caller, FileSystem, Name};
use ids::{Timestamp, VolumeId};
use parking_lot::RwLock;

use crate::location::Absent;
use crate::{ExportSecurity, Flavor, Location, Network, ServerError};

/// Whose requests are taken for the anonymous user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// Those that name no user (AUTH_NONE).
    #[default]
    None,
    /// Also those of user 0; and group 0, wherever it is named, becomes the anonymous group.
    Root,
    /// Everybody's.
    All,
}

/// How a volume is offered. The default offers it for reading and writing; it is seen from everywhere, and AUTH_SYS is
/// believed from this machine only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// Whose requests are taken for the anonymous user's.
    pub squash: Squash,
    /// The anonymous user.
    pub anonymous_uid: u32,
    /// The anonymous user's only group.
    pub anonymous_gid: u32,
    /// Whether everything that would change the volume is `NFS4ERR_ROFS`.
    pub read_only: bool,
    /// Whether clients can see and set access control lists. Those that are set count in any case. Where they are offered,
    /// programs such as `ls -l` ask for the list of every file.
    pub acls: bool,
    /// Whether names that are not UTF-8 are refused (`NFS4ERR_INVAL`). Otherwise names are bytes.
    pub utf8: bool,
    /// Where the volume is if it is not here. Then everything that is asked of it is `NFS4ERR_MOVED`, and clients look
    /// there (RFC 8881 §11).
    pub referral: Vec<Location>,
    /// Where clients may come from. For all others the volume does not exist: it is not in the pseudo root, and
    /// its handles are stale. With no network at all nobody sees it.
    pub networks: Vec<Network>,
    /// What a request has to show; others get `NFS4ERR_WRONGSEC`.
    pub security: ExportSecurity,
}

/// User and group of requests without a user, unless an export says otherwise.
const NOBODY: u32 = 65534;

impl Default for ExportOptions {
    fn default() -> ExportOptions {
        ExportOptions {
            squash: Squash::None,
            anonymous_uid: NOBODY,
            anonymous_gid: NOBODY,
            read_only: false,
            acls: false,
            utf8: false,
            referral: Vec::new(),
            networks: vec![Network::ALL_V4, Network::ALL_V6],
            security: ExportSecurity::default(),
        }
    }
}

/// A volume and how it is offered.
#[derive(Clone)]
pub struct Export {
    /// Its name in the pseudo root: `home` is mounted as `SERVER:/home`.
    pub name: String,
    /// The volume.
    pub file_system: Arc<dyn FileSystem>,
    /// How it is offered.
    pub options: ExportOptions,
}

impl Export {
    /// With the default options.
    pub fn new(name: impl Into<String>, file_system: Arc<dyn FileSystem>) -> Export {
        Export { name: name.into(), file_system, options: ExportOptions::default() }
    }

    /// A name that leads to a volume of another server; `options` say where that is.
    pub fn referral(name: impl Into<String>, options: ExportOptions) -> Export {
        let name = name.into();
        let file_system = Arc::new(Absent::new(&name));
        Export { name, file_system, options }
    }

    /// With these options.
    pub fn with(self, options: ExportOptions) -> Export {
        Export { options, ..self }
    }

    /// What clients that hold delegations lose when `other` takes the place of this export.
    fn loss(&self, other: &Export) -> Loss {
        let (old, new) = (&self.options, &other.options);
        let anonymous = |options: &ExportOptions| (options.anonymous_uid, options.anonymous_gid);
        let lacks = |old: &[Network], new: &[Network]| old.iter().any(|network| !new.contains(network));
        let others = old.squash != new.squash
            || anonymous(old) != anonymous(new)
            || lacks(&old.networks, &new.networks)
            || old.security.is_stricter_in(&new.security)
            || !self.is_elsewhere() && other.is_elsewhere();
        match (others, !old.read_only && new.read_only) {
            (true, _) => Loss::Access,
            (false, true) => Loss::Writing,
            (false, false) => Loss::None,
        }
    }

    /// Whether the volume is not here.
    pub(crate) fn is_elsewhere(&self) -> bool {
        !self.options.referral.is_empty()
    }

    /// The file number of the place in the pseudo root where the volume is mounted: what its root directory would
    /// have if it were not mounted (RFC 8881 §5.8.2.23).
    pub(crate) fn mount_point(&self) -> u64 {
        let volume = self.file_system.volume().0;
        ((volume >> 64) as u64 ^ volume as u64) | MOUNT_POINTS
    }

    /// Whether clients at this address may know of it.
    pub(crate) fn is_visible_to(&self, address: IpAddr) -> bool {
        self.options.networks.iter().any(|network| network.contains(address))
    }

    /// Who `caller` is on this volume; `None` is a request without a user.
    pub(crate) fn caller(&self, caller: Option<&Caller>) -> Caller {
        let options = &self.options;
        let group = |gid| if gid == 0 { options.anonymous_gid } else { gid };
        match (options.squash, caller) {
            (Squash::None, Some(caller)) => caller.clone(),
            (Squash::Root, Some(caller)) => Caller {
                uid: if caller.uid == 0 { options.anonymous_uid } else { caller.uid },
                gid: group(caller.gid),
                groups: match caller.groups.contains(&0) {
                    true => caller.groups.iter().copied().map(group).collect(),
                    false => caller.groups.clone(),
                },
            },
            (Squash::All, _) | (_, None) => {
                Caller { uid: options.anonymous_uid, gid: options.anonymous_gid, groups: Arc::new([]) }
            }
        }
    }
}

/// What some clients may not do with a volume any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    None,
    /// Change it.
    Writing,
    /// Anything, or as somebody else only.
    Access,
}

/// The file number of the pseudo root.
pub(crate) const PSEUDO_ROOT_NUMBER: u64 = 2;

/// A bit that all mount points have in their numbers, so that none has the pseudo root's.
const MOUNT_POINTS: u64 = 1 << 62;

/// What the pseudo root holds: all exports, or all that a client may know of, in order of their names. Never
/// changes; see [`ExportTable`].
pub(crate) struct Exports {
    exports: Vec<Arc<Export>>,
    changed: Timestamp,
    change: u64,
}

impl Exports {
    /// Checks the names. `change` is that of the exports before these.
    fn new(mut exports: Vec<Export>, change: u64, now: Timestamp) -> Result<Exports, ServerError> {
        exports.sort_by(|a, b| a.name.cmp(&b.name));
        for (index, export) in exports.iter().enumerate() {
            if Name::new(export.name.clone()).is_err() {
                return Err(ServerError::ExportName(export.name.clone()));
            }
            let twin = |other: &Export| {
                other.name == export.name || other.file_system.volume() == export.file_system.volume()
            };
            if exports[..index].iter().any(twin) {
                return Err(ServerError::DuplicateExport(export.name.clone()));
            }
        }
        let exports = exports.into_iter().map(Arc::new).collect();
        Ok(Exports { exports, changed: now, change: next_change(change, now) })
    }

    /// The export of a volume.
    pub fn of_volume(&self, volume: VolumeId) -> Option<&Arc<Export>> {
        self.exports.iter().find(|export| export.file_system.volume() == volume)
    }

    /// The export with this name.
    pub fn by_name(&self, name: &[u8]) -> Option<&Arc<Export>> {
        self.exports.iter().find(|export| export.name.as_bytes() == name)
    }

    /// What clients that hold delegations of a volume lose when `others` take the place of these exports.
    pub fn loss(&self, others: &Exports, volume: VolumeId) -> Loss {
        match (self.of_volume(volume), others.of_volume(volume)) {
            (Some(old), Some(new)) => old.loss(new),
            (Some(_), None) => Loss::Access,
            (None, _) => Loss::None,
        }
    }

    /// In order of their names.
    pub fn as_slice(&self) -> &[Arc<Export>] {
        &self.exports
    }

    /// The ways to say who makes a request that any of them takes from clients at `address`; those of an export without
    /// options if there is none.
    pub fn flavors(&self, address: IpAddr) -> Vec<Flavor> {
        let mut flavors = Vec::new();
        for flavor in self.exports.iter().flat_map(|export| export.options.security.flavors_for(address)) {
            if !flavors.contains(&flavor) {
                flavors.push(flavor);
            }
        }
        if flavors.is_empty() { ExportSecurity::default().flavors } else { flavors }
    }

    /// Whether all that there is wants UTF-8, so that tags have to be as well.
    pub fn want_text(&self) -> bool {
        !self.exports.is_empty() && self.exports.iter().all(|export| export.options.utf8)
    }

    /// When the exports became what they are.
    pub fn changed(&self) -> Timestamp {
        self.changed
    }

    /// The pseudo root's `change`: grows with every replacement and over restarts.
    pub fn change(&self) -> u64 {
        self.change
    }
}

/// The exports of a server, replaceable while it serves. Every request sees those of its beginning to its end,
/// and only those that its client may know of.
pub(crate) struct ExportTable(RwLock<Arc<Exports>>);

impl ExportTable {
    pub fn new(exports: Vec<Export>, now: Timestamp) -> Result<ExportTable, ServerError> {
        Ok(ExportTable(RwLock::new(Arc::new(Exports::new(exports, 0, now)?))))
    }

    /// The present ones.
    pub fn all(&self) -> Arc<Exports> {
        self.0.read().clone()
    }

    /// The present ones, as far as clients at `address` may know of them.
    pub fn seen_from(&self, address: IpAddr) -> Arc<Exports> {
        let all = self.0.read().clone();
        if all.exports.iter().all(|export| export.is_visible_to(address)) {
            return all;
        }
        let seen = all.exports.iter().filter(|export| export.is_visible_to(address)).cloned().collect();
        Arc::new(Exports { exports: seen, changed: all.changed, change: all.change })
    }

    /// Whether one of them believes clients at `address` who their users are.
    pub fn trust(&self, address: IpAddr) -> bool {
        self.0.read().exports.iter().any(|export| export.options.security.trusts(address))
    }

    /// Puts others in their place.
    pub fn replace(&self, exports: Vec<Export>, now: Timestamp) -> Result<(), ServerError> {
        let mut current = self.0.write();
        *current = Arc::new(Exports::new(exports, current.change, now)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use environment::{Clock, SystemClock};
    use file_system::memory::MemoryFileSystem;

    use super::*;
    use crate::TlsDemand;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const NOW: Timestamp = Timestamp { seconds: 9, nanos: 0 };

    fn export(name: &str, volume: u128) -> Export {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Export::new(name, Arc::new(MemoryFileSystem::with(VolumeId(volume), clock)))
    }

    fn caller(uid: u32, gid: u32, groups: &[u32]) -> Caller {
        Caller { uid, gid, groups: groups.into() }
    }

    #[test]
    fn callers_are_squashed_as_the_export_says() {
        let (root, user, admin) = (caller(0, 0, &[0, 4]), caller(7, 8, &[9]), caller(7, 0, &[9, 0]));
        let anonymous = caller(100, 200, &[]);
        let cases = [
            (Squash::None, Some(&root), root.clone()),
            (Squash::None, Some(&admin), admin.clone()),
            (Squash::None, None, anonymous.clone()),
            (Squash::Root, Some(&root), caller(100, 200, &[200, 4])),
            (Squash::Root, Some(&user), user.clone()),
            (Squash::Root, Some(&admin), caller(7, 200, &[9, 200])),
            (Squash::Root, None, anonymous.clone()),
            (Squash::All, Some(&root), anonymous.clone()),
            (Squash::All, Some(&user), anonymous.clone()),
            (Squash::All, None, anonymous.clone()),
        ];
        for (squash, from, to) in cases {
            let options =
                ExportOptions { squash, anonymous_uid: 100, anonymous_gid: 200, ..ExportOptions::default() };
            assert_eq!(export("a", 1).with(options).caller(from), to, "{squash:?} of {from:?}");
        }
        assert_eq!(export("a", 1).caller(None), caller(65534, 65534, &[]), "nobody, unless told otherwise");
    }

    #[test]
    fn an_export_is_seen_from_its_networks_only() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let networks = vec!["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()];
        let limited = export("a", 1).with(ExportOptions { networks, ..ExportOptions::default() });
        let hidden = export("c", 3).with(ExportOptions { networks: Vec::new(), ..ExportOptions::default() });
        let table = ExportTable::new(vec![limited, export("b", 2), hidden], NOW).unwrap();
        for (from, seen) in [("10.1.2.3", true), ("::1", true), ("127.0.0.1", false), ("::2", false)] {
            let exports = table.seen_from(address(from));
            assert_eq!(exports.by_name(b"a").is_some(), seen, "{from}");
            assert_eq!(exports.of_volume(VolumeId(1)).is_some(), seen, "{from}");
            assert!(exports.by_name(b"b").is_some(), "by default from everywhere");
            assert!(exports.by_name(b"c").is_none(), "no network, no client");
        }
    }

    #[test]
    fn names_and_volumes_are_exported_once() {
        let new = |exports| ExportTable::new(exports, NOW).map(|_| ());
        assert!(new(vec![export("b", 1), export("a", 2)]).is_ok());
        assert!(matches!(new(vec![export("a", 1), export("a", 2)]), Err(ServerError::DuplicateExport(_))));
        assert!(matches!(new(vec![export("a", 1), export("b", 1)]), Err(ServerError::DuplicateExport(_))));
        for name in ["", ".", "a/b"] {
            assert!(matches!(new(vec![export(name, 1)]), Err(ServerError::ExportName(_))), "{name:?}");
        }
    }

    #[test]
    fn a_replacement_leaves_running_requests_their_exports_and_changes_the_pseudo_root() {
        let table = ExportTable::new(vec![export("b", 1), export("a", 2)], NOW).unwrap();
        let before = table.seen_from(HERE);
        table.replace(vec![export("c", 1)], Timestamp { seconds: 3, nanos: 0 }).unwrap();
        let after = table.seen_from(HERE);
        let names = |exports: &Exports| exports.as_slice().iter().map(|e| e.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(&before), names(&after)), (vec!["a".into(), "b".into()], vec!["c".into()]));
        assert!(after.change() > before.change(), "although the clock went back");
        assert_eq!(after.of_volume(VolumeId(1)).unwrap().name, "c");
        assert!(after.by_name(b"a").is_none());
        assert!(table.replace(vec![export("", 1)], NOW).is_err());
        assert_eq!(names(&table.seen_from(HERE)), ["c"], "nothing changed");
    }

    #[test]
    fn what_clients_lose_by_other_options_is_known() {
        let usual = ExportOptions::default();
        let security = |flavors: &[Flavor], tls, trusted: &[Network]| ExportOptions {
            security: ExportSecurity { flavors: flavors.into(), tls, trusted: trusted.into() },
            ..ExportOptions::default()
        };
        let read_only = ExportOptions { read_only: true, ..usual.clone() };
        let narrow = ExportOptions { networks: vec![Network::ALL_V4], ..usual.clone() };
        let here = [Network::LOOPBACK_V4, Network::LOOPBACK_V6];
        let (both, optional) = ([Flavor::Sys, Flavor::None], TlsDemand::Optional);
        let cases = [
            (usual.clone(), Loss::None),
            (ExportOptions { acls: true, utf8: true, ..usual.clone() }, Loss::None),
            (security(&[Flavor::Krb5, Flavor::Sys, Flavor::None], optional, &here), Loss::None),
            (read_only.clone(), Loss::Writing),
            (narrow.clone(), Loss::Access),
            (ExportOptions { networks: vec![Network::ALL_V4], ..read_only.clone() }, Loss::Access),
            (ExportOptions { squash: Squash::Root, ..usual.clone() }, Loss::Access),
            (ExportOptions { anonymous_uid: 7, ..usual.clone() }, Loss::Access),
            (security(&[Flavor::Sys], optional, &here), Loss::Access),
            (security(&both, TlsDemand::Required, &here), Loss::Access),
            (security(&both, optional, &here[..1]), Loss::Access),
        ];
        for (options, loss) in cases {
            let told = format!("{options:?}");
            assert_eq!(export("a", 1).loss(&export("a", 1).with(options)), loss, "{told}");
        }
        for options in [read_only, narrow] {
            assert_eq!(export("a", 1).with(options).loss(&export("a", 1)), Loss::None, "they get more");
        }
        let table = ExportTable::new(vec![export("b", 1), export("a", 2)], NOW).unwrap();
        let before = table.all();
        table.replace(vec![export("b", 1)], NOW).unwrap();
        assert_eq!(before.loss(&table.all(), VolumeId(1)), Loss::None);
        assert_eq!(before.loss(&table.all(), VolumeId(2)), Loss::Access, "it is offered no more");
        assert_eq!(table.all().loss(&before, VolumeId(2)), Loss::None);
    }
}
