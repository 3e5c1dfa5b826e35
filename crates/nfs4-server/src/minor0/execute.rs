//! The operations as 4.0 has them.

use nfs4::{
    Attribute, DelegReturnArgs, Fattr, NfsArgOp, NfsResOp, NfsStatus, SetClientIdArgs, SetClientIdConfirm,
    SetClientIdRes, Verifier,
};
use xdr::{Encode, Encoder};

use super::path::Callback;
use super::status::of_minor0;
use super::{SetClientId, sequenced};
use crate::compound::Compound;
use crate::failure::Failure;
use crate::ops;
use crate::state::HolderKind;

/// [`ops::execute`] for a compound of 4.0.
pub(crate) async fn execute(
    cx: &mut Compound<'_>,
    argument: NfsArgOp,
    out: &mut Encoder,
) -> Result<NfsStatus, Failure> {
    let operation = argument.op_code();
    match run(cx, argument, out).await {
        Err(Failure::Status(status)) => Err(of_minor0(operation, status).into()),
        ended => ended,
    }
}

async fn run(cx: &mut Compound<'_>, argument: NfsArgOp, out: &mut Encoder) -> Result<NfsStatus, Failure> {
    if sequenced::is_sequenced(argument.op_code()) {
        return sequenced::run(cx, argument, out).await;
    }
    let result = match argument {
        NfsArgOp::SetClientId(args) => NfsResOp::SetClientId(SetClientIdRes::Ok(set_client_id(cx, &args)?)),
        NfsArgOp::SetClientIdConfirm(args) => {
            let principal = cx.requester.principal;
            cx.server
                .with_state(|state, now| state.confirm_client(args.client, args.verifier, principal, now))?;
            NfsResOp::SetClientIdConfirm(NfsStatus::Ok)
        }
        NfsArgOp::Renew(args) => {
            cx.server.with_state(|state, now| {
                state.renew_client(args.client, now)?;
                // All is renewed nevertheless (RFC 7530 §16.29.4).
                if state.is_path_down(args.client) { Err(NfsStatus::CbPathDown.into()) } else { Ok(()) }
            })?;
            NfsResOp::Renew(NfsStatus::Ok)
        }
        NfsArgOp::ReleaseLockOwner(args) => {
            let (client, name) = (args.owner.client, &args.owner.owner[..]);
            cx.server.with_state(|state, now| Ok(state.release_lock_owner(client, name, now)?))?;
            NfsResOp::ReleaseLockOwner(NfsStatus::Ok)
        }
        NfsArgOp::DelegReturn(args) => {
            return_delegation(cx, &args)?;
            NfsResOp::DelegReturn(NfsStatus::Ok)
        }
        NfsArgOp::SecInfo(_) => return sec_info(cx, argument, out).await,
        argument => {
            let argument = in_terms_of_minor0(cx, argument)?;
            return ops::execute(cx, argument, out).await;
        }
    };
    result.encode(out);
    Ok(result.status())
}

/// SETCLIENTID. What confirms the client nobody else can guess.
fn set_client_id(cx: &Compound<'_>, args: &SetClientIdArgs) -> Result<SetClientIdConfirm, Failure> {
    let mut confirm = Verifier([0; 8]);
    cx.server.environment.entropy.fill(&mut confirm.0);
    let credential = cx.requester.callback_credential();
    let callback = credential.and_then(|credential| {
        let (location, from) = (&args.callback_location, cx.requester.address);
        Callback::new(args.callback_program, location, args.callback_ident, from, credential)
    });
    let request = SetClientId {
        name: &args.id,
        verifier: args.verifier,
        principal: cx.requester.principal,
        callback,
        confirm,
    };
    let origin = cx.requester.origin();
    let client = cx.server.with_state(|state, now| {
        let client = state.set_client_id(&request, now)?;
        state.came_from(client, origin);
        state.check_place(client, now)?;
        Ok(client)
    })?;
    Ok(SetClientIdConfirm { client, verifier: confirm })
}

/// DELEGRETURN: by the client, or by the user that the delegation came to. What it stands for is not to be given up by others.
fn return_delegation(cx: &Compound<'_>, args: &DelegReturnArgs) -> Result<(), Failure> {
    cx.current()?;
    let file = cx.current_file(NfsStatus::BadStateId)?;
    let (id, who, client) = (&args.state_id, cx.requester.principal, cx.client());
    cx.server.with_state(|state, now| {
        let holder = state.whose(id, now)?;
        match holder.by {
            HolderKind::Delegated(by) if by == who || client == Ok(holder.client) => {}
            _ => return Err(NfsStatus::BadStateId.into()),
        }
        state.check_newest(id)?;
        Ok(state.return_delegation(holder.client, id, file)?)
    })
}

/// SECINFO leaves the current filehandle as it is (RFC 7530 §16.31.4); later it does not.
async fn sec_info(
    cx: &mut Compound<'_>,
    argument: NfsArgOp,
    out: &mut Encoder,
) -> Result<NfsStatus, Failure> {
    let current = cx.current()?;
    let status = ops::execute(cx, argument, out).await?;
    cx.set_current(current);
    Ok(status)
}

/// Confines the arguments to what 4.0 has, and says whose the operation is where its arguments do.
fn in_terms_of_minor0(cx: &mut Compound<'_>, mut argument: NfsArgOp) -> Result<NfsArgOp, Failure> {
    match &mut argument {
        NfsArgOp::LockTest(args) => {
            let client = args.owner.client;
            cx.current()?;
            cx.server.with_state(|state, now| Ok(state.renew_client(client, now)?))?;
            cx.act_for(client);
        }
        NfsArgOp::GetAttr(args) => args.request = args.request & Attribute::OF_MINOR_0,
        NfsArgOp::ReadDir(args) => args.request = args.request & Attribute::OF_MINOR_0,
        NfsArgOp::SetAttr(args) => check_attributes(&args.attributes)?,
        NfsArgOp::Create(args) => check_attributes(&args.attributes)?,
        NfsArgOp::Verify(args) | NfsArgOp::Nverify(args) => check_attributes(&args.attributes)?,
        _ => {}
    }
    Ok(argument)
}

/// Attributes of later versions are not supported, and owners have names.
pub(super) fn check_attributes(attributes: &Fattr) -> Result<(), NfsStatus> {
    if !Attribute::OF_MINOR_0.contains_all(attributes.bitmap) {
        return Err(NfsStatus::AttrNotSupp);
    }
    let owners = Attribute::set(&[Attribute::Owner, Attribute::OwnerGroup]);
    if attributes.bitmap.intersects(owners)
        && let Ok(values) = attributes.values()
        && [values.owner, values.owner_group].iter().flatten().any(|name| name.is_empty())
    {
        return Err(NfsStatus::Inval);
    }
    Ok(())
}
