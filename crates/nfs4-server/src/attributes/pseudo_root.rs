//! Attributes of the pseudo root, a directory of user 0 that everybody can read and nobody can change.

use nfs4::{
    Attribute, AttributeValues, Bitmap, FileType, FsLocations, FsLocationsInfo, Fsid, NfsStatus, SpecData,
};

use super::describe::{fsid, time};
use super::open_arguments::OPEN_ARGUMENTS;
use super::server::of_server;
use crate::exports::{Export, Exports, PSEUDO_ROOT_NUMBER};
use crate::file_handle::Handle;
use crate::location::{fs_locations, fs_locations_info};
use crate::owner_names::IdKind;
use crate::shared::Shared;

/// All of them.
pub(crate) fn of_pseudo_root(server: &Shared, exports: &Exports) -> AttributeValues {
    let changed = time(exports.changed());
    let owners = server.owners.current();
    AttributeValues {
        r#type: Some(FileType::Directory),
        change: Some(exports.change()),
        // Nothing can be cloned here; clients that divide by it should come through.
        clone_blksize: Some(1),
        size: Some(4096),
        fsid: Some(Fsid { major: 0, minor: 0 }),
        filehandle: Some(server.handles.seal(Handle::PseudoRoot)),
        fileid: Some(PSEUDO_ROOT_NUMBER),
        fs_locations: Some(Box::new(FsLocations { fs_root: Vec::new(), locations: Vec::new() })),
        fs_locations_info: Some(Box::new(FsLocationsInfo {
            fs_root: Vec::new(),
            ..fs_locations_info("", &[])
        })),
        files_avail: Some(0),
        files_free: Some(0),
        files_total: Some(exports.as_slice().len() as u64 + 1),
        mode: Some(0o555),
        open_arguments: Some(Box::new(OPEN_ARGUMENTS)),
        numlinks: Some(exports.as_slice().len() as u32 + 2),
        quota_avail_hard: Some(0),
        quota_avail_soft: Some(0),
        quota_used: Some(0),
        owner: Some(owners.name(IdKind::User, 0)),
        owner_group: Some(owners.name(IdKind::Group, 0)),
        rawdev: Some(SpecData { major: 0, minor: 0 }),
        space_avail: Some(0),
        space_free: Some(0),
        space_total: Some(0),
        space_used: Some(0),
        time_access: Some(changed),
        time_create: Some(changed),
        time_metadata: Some(changed),
        time_modify: Some(changed),
        mounted_on_fileid: Some(PSEUDO_ROOT_NUMBER),
        ..of_server(server)
    }
}

/// What can be said of a volume that is on another server, to who asks where (RFC 8881 §11.4.1, RFC 7530 §8.3.1): nothing if
/// that is not among what is asked for.
pub(crate) fn of_absent(export: &Export, request: Bitmap) -> Option<AttributeValues> {
    const WHERE: Bitmap = Attribute::set(&[Attribute::FsLocations, Attribute::FsLocationsInfo]);
    let (name, locations) = (&export.name, &export.options.referral);
    request.intersects(WHERE).then(|| AttributeValues {
        fs_locations: Some(Box::new(fs_locations(name, locations))),
        fs_locations_info: Some(Box::new(fs_locations_info(name, locations))),
        ..of_mount_point(export, NfsStatus::Ok)
    })
}

/// What can be said of an entry whose volume cannot be asked, `error` being why (RFC 8881 §5.6, `rdattr_error`).
pub(crate) fn of_mount_point(export: &Export, error: NfsStatus) -> AttributeValues {
    AttributeValues {
        rdattr_error: Some(error),
        fsid: Some(fsid(export.file_system.volume())),
        mounted_on_fileid: Some(export.mount_point()),
        ..AttributeValues::default()
    }
}
