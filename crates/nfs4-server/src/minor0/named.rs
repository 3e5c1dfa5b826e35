//! Whose a compound is: 4.0 has no session that says it.

use nfs4::{ClientId, Locker, NfsArgOp, OpenClaim, StateId};
use xdr::Decoder;

use crate::compound::Compound;

/// The client that the operations of a compound name first, by client id or state id: its own delegations are in the way of none
/// of them. Linux, for one, asks for the attributes of a file just before it returns the delegation. Client ids and state
/// ids can be guessed: who is not where the client came from does not count as the client.
pub(crate) fn whose(cx: &Compound<'_>, mut input: Decoder, count: u32) -> Option<ClientId> {
    for _ in 0..count {
        let argument = NfsArgOp::decode_op(&mut input, 0).ok()?;
        let named = named(&argument);
        if matches!(named, Named::Nobody) || matches!(named, Named::State(id) if id.is_special()) {
            continue;
        }
        let state = cx.server.state.lock();
        let client = match named {
            Named::Client(client) => Some(client),
            Named::State(id) => state.holder(&id.other).map(|holder| holder.client),
            Named::Nobody => None,
        };
        return client.filter(|client| state.is_at(*client, cx.requester.address));
    }
    None
}

enum Named {
    Nobody,
    Client(ClientId),
    State(StateId),
}

fn named(argument: &NfsArgOp) -> Named {
    match argument {
        NfsArgOp::Open(args) => match &args.claim {
            OpenClaim::DelegateCurrent { state_id, .. } => Named::State(*state_id),
            _ => Named::Client(args.owner.client),
        },
        NfsArgOp::Renew(args) => Named::Client(args.client),
        NfsArgOp::LockTest(args) => Named::Client(args.owner.client),
        NfsArgOp::ReleaseLockOwner(args) => Named::Client(args.owner.client),
        NfsArgOp::OpenConfirm(args) => Named::State(args.state_id),
        NfsArgOp::OpenDowngrade(args) => Named::State(args.state_id),
        NfsArgOp::Close(args) => Named::State(args.state_id),
        NfsArgOp::DelegReturn(args) => Named::State(args.state_id),
        NfsArgOp::Read(args) => Named::State(args.state_id),
        NfsArgOp::Write(args) => Named::State(args.state_id),
        NfsArgOp::SetAttr(args) => Named::State(args.state_id),
        NfsArgOp::Unlock(args) => Named::State(args.lock_state_id),
        NfsArgOp::Lock(args) => match &args.locker {
            Locker::New { open_state_id, .. } => Named::State(*open_state_id),
            Locker::Existing { lock_state_id, .. } => Named::State(*lock_state_id),
        },
        _ => Named::Nobody,
    }
}
