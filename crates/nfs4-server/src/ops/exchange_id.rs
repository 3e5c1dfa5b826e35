//! EXCHANGE_ID (RFC 8881 §18.35).

use nfs4::bits::exchange_id;
use nfs4::{
    ExchangeIdArgs, ExchangeIdOk, ImplementationId, NfsStatus, NfsTime, ServerOwner, StateProtectArgs,
    StateProtectRes,
};

use crate::compound::Compound;
use crate::failure::Failure;
use crate::state::ExchangeId;

/// Gives the client an id. State protection needs RPCSEC_GSS, which is not served.
pub(super) fn run(cx: &mut Compound<'_>, args: &ExchangeIdArgs) -> Result<ExchangeIdOk, Failure> {
    // Fencing came with 4.2.
    let unknown = if cx.minor_version == 1 { exchange_id::SUPP_FENCE_OPS } else { 0 };
    if args.flags & (unknown | !exchange_id::ARGUMENTS) != 0 {
        return Err(NfsStatus::Inval.into());
    }
    match args.state_protect {
        StateProtectArgs::None => {}
        StateProtectArgs::MachineCredential(_) => return Err(NfsStatus::Inval.into()),
        StateProtectArgs::Ssv(_) => return Err(NfsStatus::EncrAlgUnsupp.into()),
    }
    let server = cx.server;
    let request = ExchangeId {
        owner: &args.client_owner.owner_id,
        verifier: args.client_owner.verifier,
        principal: cx.requester.principal,
        update: args.flags & exchange_id::UPD_CONFIRMED_REC_A != 0,
    };
    let origin = cx.requester.origin();
    let answer = server.with_state(|state, now| {
        let answer = state.exchange_id(&request, now)?;
        state.came_from(answer.client, origin);
        state.check_place(answer.client, now)?;
        Ok(answer)
    })?;
    let confirmed = if answer.confirmed { exchange_id::CONFIRMED_R } else { 0 };
    Ok(ExchangeIdOk {
        client: answer.client,
        sequence_id: answer.sequence,
        flags: exchange_id::USE_NON_PNFS | confirmed,
        state_protect: StateProtectRes::None,
        server_owner: ServerOwner { minor_id: 0, major_id: server.server_id.clone() },
        server_scope: server.server_id.clone(),
        implementation: Some(ImplementationId {
            domain: "kurma".into(),
            name: concat!("Kurma ", env!("CARGO_PKG_VERSION")).into(),
            date: NfsTime { seconds: 0, nanoseconds: 0 },
        }),
    })
}
