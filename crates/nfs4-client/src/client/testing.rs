//! What tests of crates above need: a client and files without a server.

use std::sync::Arc;

use environment::Environment;
use nfs4::bits::share_access;
use nfs4::{Ace, Bitmap, ChangeInfo, FileHandle, OpenDelegation, OpenOk, ReadDelegation, StateId};

use super::back_channel::Callbacks;
use super::{Client, OpenState, Options, Shared};
use crate::operations::owner;

/// A client that was never connected: whatever is asked of it waits. On a tokio runtime.
pub fn unconnected() -> Client {
    let shared = Shared::new(Options::new(Environment::real()), Vec::new(), Arc::new(Callbacks::new(None)));
    Client { credential: shared.credential.clone(), _guard: None, shared, counters: None }
}

/// A state id of this number.
pub fn state_id(number: u8) -> StateId {
    StateId { seqid: 1, other: [number; 12] }
}

/// As if the server had opened the file for reading under the state id of one number, and delegated it under that of the other.
pub fn delegated(client: &Client, handle: FileHandle, open: u8, delegation: u8) -> Arc<OpenState> {
    let permissions = Ace { ace_type: 0, flags: 0, access_mask: 0, who: "OWNER@".into() };
    let read = ReadDelegation { state_id: state_id(delegation), recall: false, permissions };
    let opened = OpenOk {
        state_id: state_id(open),
        change_info: ChangeInfo { atomic: true, before: 0, after: 0 },
        flags: 0,
        attributes_set: Bitmap::default(),
        delegation: OpenDelegation::Read(read),
    };
    client.adopt(handle, (share_access::READ, 0), owner(format!("o{open}")), &opened)
}
