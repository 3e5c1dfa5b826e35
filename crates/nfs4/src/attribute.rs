//! File attributes: their numbers, their values, and the container they travel in.

pub mod acl;
mod container;
mod kind;
mod location;
mod number;
mod open_arguments;
mod retention;
mod table;

pub use acl::{Ace, Acl41};
pub use container::{AttributeError, Fattr};
pub use kind::{
    ChangeAttrType, ChangePolicy, FileType, FsCharset, Fsid, ModeMasked, ModeUmask, SecurityLabel, SpecData,
};
pub use location::{
    FsLocation, FsLocations, FsLocationsInfo, FsLocationsItem, FsLocationsServer, FsStatus, FsStatusType,
};
pub use open_arguments::OpenArguments;
pub use retention::{RetentionGet, RetentionSet};
pub use table::{Attribute, AttributeValues};
