//! What is said about files, and how clients change it.

mod acl;
mod describe;
mod of_handle;
mod open_arguments;
mod pseudo_root;
mod server;
mod set;
mod supported;
#[cfg(test)]
mod tests;

pub(crate) use describe::Describer;
pub(crate) use of_handle::{check_supported, of_current, of_file};
pub(crate) use pseudo_root::{of_absent, of_mount_point, of_pseudo_root};
pub(crate) use set::{ToSet, named_owners, to_change, to_set, without_owners};
pub(crate) use supported::{EXCLUSIVE_CREATE, check_readable, supported, wants_space};

/// The wire form. Both sides are of one transaction, so nothing came in between.
pub(crate) fn change_info(change: file_system::ChangeInfo) -> nfs4::ChangeInfo {
    nfs4::ChangeInfo { atomic: true, before: change.before, after: change.after }
}
