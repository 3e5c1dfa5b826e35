//! What operations and their results take on the wire, estimated from above.

use nfs4::{Attribute, CreateType, NfsArgOp, OpenClaim};

/// Bytes of an operation number, a status, and the smaller values of most operations.
const SMALL: usize = 64;

/// Bytes of a filehandle.
const HANDLE: usize = 144;

/// Bytes of the attributes of a new object, or of an owner.
const ATTRIBUTES: usize = 192;

/// Bytes of a symbolic link's text that is not known; most are far shorter.
const LINK: usize = 1024;

/// Bytes of an operation with its arguments.
pub(super) fn of_request(operation: &NfsArgOp) -> usize {
    SMALL
        + match operation {
            NfsArgOp::Write(write) => write.data.len(),
            NfsArgOp::Lookup(lookup) => lookup.name.len(),
            NfsArgOp::Remove(remove) => remove.target.len(),
            NfsArgOp::Rename(rename) => rename.old_name.len() + rename.new_name.len(),
            NfsArgOp::Link(link) => link.new_name.len(),
            NfsArgOp::PutFh(_) => HANDLE,
            NfsArgOp::SetAttr(_) | NfsArgOp::Verify(_) | NfsArgOp::Nverify(_) => ATTRIBUTES,
            NfsArgOp::Create(create) => {
                let text = match &create.object_type {
                    CreateType::SymbolicLink(text) => text.len(),
                    _ => 0,
                };
                ATTRIBUTES + create.name.len() + text
            }
            NfsArgOp::Open(open) => {
                let name = match &open.claim {
                    OpenClaim::Null(name) => name.len(),
                    _ => 0,
                };
                ATTRIBUTES + name + open.owner.owner.len()
            }
            _ => 0,
        }
}

/// Bytes of its result, if it succeeds.
pub(super) fn of_reply(operation: &NfsArgOp) -> usize {
    match operation {
        NfsArgOp::Read(read) => SMALL + read.count as usize,
        NfsArgOp::ReadDir(read) => SMALL + read.max_count as usize,
        NfsArgOp::GetFh => HANDLE,
        NfsArgOp::Open(_) => 2 * SMALL,
        NfsArgOp::ReadLink => LINK,
        NfsArgOp::GetAttr(get) => {
            let handle = if get.request.contains(Attribute::Filehandle) { HANDLE } else { 0 };
            let owners = 2 * usize::from(get.request.contains(Attribute::Owner)) * SMALL;
            SMALL + 12 * get.request.len() as usize + handle + owners
        }
        NfsArgOp::Create(_) | NfsArgOp::Rename(_) | NfsArgOp::Copy(_) => 2 * SMALL,
        NfsArgOp::PutFh(_)
        | NfsArgOp::PutRootFh
        | NfsArgOp::Lookup(_)
        | NfsArgOp::LookupParent
        | NfsArgOp::SaveFh
        | NfsArgOp::RestoreFh => 8,
        _ => SMALL,
    }
}
