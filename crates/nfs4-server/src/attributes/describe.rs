//! From [`Attributes`] to the wire.

use std::collections::HashSet;

use file_system::acl::Who;
use file_system::{Attributes, FileId, FileKind, Space};
use ids::{Timestamp, VolumeId};
use nfs4::attribute::acl::{SUPPORT_ALLOW, SUPPORT_DENY};
use nfs4::{Attribute, AttributeValues, Bitmap, FileType, FsCharset, Fsid, NfsTime, SpecData};

use super::acl::{acl_of, to_acl, to_dacl};
use super::open_arguments::OPEN_ARGUMENTS;
use super::server::of_server;
use super::{EXCLUSIVE_CREATE, supported};
use crate::exports::Export;
use crate::file_handle::Handle;
use crate::location::{fs_locations, fs_locations_info};
use crate::owner_names::{IdKind, Owners};
use crate::shared::Shared;

/// Describes one object of a volume after the other. What is the same for all is filled in once, and what the
/// last object left is reused, so that long listings cost no allocation but the handles.
pub(crate) struct Describer<'a> {
    server: &'a Shared,
    /// What users and groups are called.
    owners: Owners,
    /// What is asked for; costly attributes are left out when it does not have them.
    request: Bitmap,
    root: FileId,
    mount_point: u64,
    /// Whether access control lists are offered.
    acls: bool,
    owner: Option<u32>,
    group: Option<u32>,
    values: AttributeValues,
}

impl<'a> Describer<'a> {
    /// For objects of `export`, whose root directory is `root`. `space` may be absent if nothing of
    /// [`wants_space`] is asked for.
    pub fn new(
        server: &'a Shared,
        export: &Export,
        root: FileId,
        request: Bitmap,
        space: Option<Space>,
    ) -> Describer<'a> {
        let mut values = of_server(server);
        values.fsid = Some(fsid(root.volume));
        if let Some(space) = space {
            values.clone_blksize = Some(space.clone_unit);
            values.files_avail = Some(space.free_files);
            values.files_free = Some(space.free_files);
            values.files_total = Some(space.total_files);
            values.quota_avail_hard = Some(space.available_bytes);
            values.quota_avail_soft = Some(space.available_bytes);
            values.quota_used = Some(space.total_bytes.saturating_sub(space.free_bytes));
            values.space_avail = Some(space.available_bytes);
            values.space_free = Some(space.free_bytes);
            values.space_total = Some(space.total_bytes);
        }
        let owners = server.owners.current();
        if request.contains(Attribute::FsLocations) {
            values.fs_locations = Some(Box::new(fs_locations(&export.name, &[])));
        }
        if request.contains(Attribute::FsLocationsInfo) {
            values.fs_locations_info = Some(Box::new(fs_locations_info(&export.name, &[])));
        }
        if request.contains(Attribute::OpenArguments) {
            values.open_arguments = Some(Box::new(OPEN_ARGUMENTS));
        }
        let acls = export.options.acls;
        if acls {
            values.aclsupport = Some(SUPPORT_ALLOW | SUPPORT_DENY);
        }
        if export.options.utf8 {
            values.fs_charset_cap = Some(FsCharset::ALLOWS_ONLY_UTF8);
        }
        values.supported_attrs = Some(supported(2, acls));
        values.suppattr_exclcreat = Some(EXCLUSIVE_CREATE & supported(2, acls));
        let mount_point = export.mount_point();
        Describer { server, owners, request, root, mount_point, acls, owner: None, group: None, values }
    }

    /// For a client of this minor version.
    pub fn in_minor_version(mut self, minor_version: u32) -> Describer<'a> {
        self.values.supported_attrs = Some(supported(minor_version, self.acls));
        self
    }

    /// Whose names are asked for, of these objects.
    pub fn named_in<'o>(&self, objects: impl Iterator<Item = &'o Attributes>) -> HashSet<(IdKind, u32)> {
        let mut ids = HashSet::new();
        if self.owners.are_numbers() || !self.request.intersects(NAMED) {
            return ids;
        }
        for attributes in objects {
            ids.extend([(IdKind::User, attributes.uid), (IdKind::Group, attributes.gid)]);
            if self.acls && self.request.intersects(LISTS) {
                ids.extend(acl_of(attributes).entries.iter().filter_map(|ace| match ace.who {
                    Who::User(uid) => Some((IdKind::User, uid)),
                    Who::GroupNumber(gid) => Some((IdKind::Group, gid)),
                    Who::Owner | Who::Group | Who::Everyone => None,
                }));
            }
        }
        ids
    }

    /// Finds out what these are called, if that does not take long.
    pub async fn find_names(&self, ids: HashSet<(IdKind, u32)>) {
        self.owners.find_names(ids).await;
    }

    /// Everything that was asked for, and more, about one object.
    pub fn describe(&mut self, attributes: &Attributes) -> &AttributeValues {
        let file = attributes.file;
        let file_number = file.object.file_number();
        if self.owner != Some(attributes.uid) {
            self.owner = Some(attributes.uid);
            self.values.owner = Some(self.owners.name(IdKind::User, attributes.uid));
        }
        if self.group != Some(attributes.gid) {
            self.group = Some(attributes.gid);
            self.values.owner_group = Some(self.owners.name(IdKind::Group, attributes.gid));
        }
        if self.request.contains(Attribute::Filehandle) {
            self.values.filehandle = Some(self.server.handles.seal(Handle::File(file)));
        }
        if self.acls && self.request.intersects(LISTS) {
            let acl = acl_of(attributes);
            self.values.acl = self.request.contains(Attribute::Acl).then(|| to_acl(&acl, &self.owners));
            self.values.dacl = self.request.contains(Attribute::Dacl).then(|| to_dacl(&acl, &self.owners));
        }
        let values = &mut self.values;
        values.r#type = Some(file_type(attributes.kind));
        values.change = Some(attributes.change);
        values.size = Some(attributes.size);
        values.fileid = Some(file_number);
        values.mode = Some(attributes.mode);
        values.numlinks = Some(attributes.links);
        values.rawdev = Some(SpecData { major: attributes.device.major, minor: attributes.device.minor });
        values.space_used = Some(attributes.space_used);
        values.time_access = Some(time(attributes.accessed));
        values.time_create = Some(time(attributes.created));
        values.time_metadata = Some(time(attributes.changed));
        values.time_modify = Some(time(attributes.modified));
        values.mounted_on_fileid = Some(if file == self.root { self.mount_point } else { file_number });
        values
    }

    /// What [`describe`](Self::describe) returned last.
    pub fn into_values(self) -> AttributeValues {
        self.values
    }
}

/// The attributes that are made only when they are asked for.
const LISTS: Bitmap = Attribute::set(&[Attribute::Acl, Attribute::Dacl]);

/// The attributes that name users and groups.
const NAMED: Bitmap = LISTS.union(Attribute::set(&[Attribute::Owner, Attribute::OwnerGroup]));

/// The volume as file system of the protocol. No volume has number zero; that is the pseudo root's.
pub(super) fn fsid(volume: VolumeId) -> Fsid {
    Fsid { major: (volume.0 >> 64) as u64, minor: volume.0 as u64 }
}

pub(super) fn time(at: Timestamp) -> NfsTime {
    NfsTime { seconds: at.seconds, nanoseconds: at.nanos }
}

fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::Regular,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::SymbolicLink,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::CharacterDevice => FileType::CharacterDevice,
        FileKind::Fifo => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
    }
}
