//! CREATE_SESSION and its kin (RFC 8881 §18.33, §18.34, §18.36, §18.37, §18.50, §18.51).

use std::time::Duration;

use nfs4::bits::create_session;
use nfs4::{
    BackchannelCtlArgs, BindConnToSessionArgs, BindConnToSessionOk, CallbackSecParms, ChannelAttrs,
    ChannelDirFromClient, ChannelDirFromServer, CreateSessionArgs, CreateSessionOk, DestroyClientIdArgs,
    DestroySessionArgs, NfsStatus, ReclaimCompleteArgs, SessionId,
};
use onc_rpc::{AuthSys, Credential};

use crate::compound::Compound;
use crate::failure::Failure;
use crate::state::{Channel, CreateSession};

/// How callbacks present themselves: in the first of the ways that we know.
fn callback_credential(security: &[CallbackSecParms]) -> Option<Credential> {
    security.iter().find_map(|way| match way {
        CallbackSecParms::None => Some(Credential::None),
        CallbackSecParms::Sys(sys) => Some(Credential::Sys(AuthSys {
            stamp: sys.stamp,
            machine: sys.machine_name.clone(),
            uid: sys.uid,
            gid: sys.gid,
            gids: sys.gids.clone(),
        })),
        _ => None,
    })
}

fn from_wire(attrs: &ChannelAttrs) -> Channel {
    Channel {
        max_request: attrs.max_request_size,
        max_response: attrs.max_response_size,
        max_response_cached: attrs.max_response_size_cached,
        operations: attrs.max_operations,
        slots: attrs.max_requests,
    }
}

fn to_wire(channel: &Channel) -> ChannelAttrs {
    ChannelAttrs {
        header_pad_size: 0,
        max_request_size: channel.max_request,
        max_response_size: channel.max_response,
        max_response_size_cached: channel.max_response_cached,
        max_operations: channel.operations,
        max_requests: channel.slots,
        rdma_ird: None,
    }
}

/// CREATE_SESSION. The reply cache does not survive a restart, and there is no RDMA.
pub(super) fn create(cx: &mut Compound<'_>, args: &CreateSessionArgs) -> Result<CreateSessionOk, Failure> {
    let known = create_session::PERSIST | create_session::CONN_BACK_CHAN | create_session::CONN_RDMA;
    if args.flags & !known != 0 {
        return Err(NfsStatus::Inval.into());
    }
    let credential = callback_credential(&args.callback_security);
    let back = args.flags & create_session::CONN_BACK_CHAN != 0 && credential.is_some();
    // What nobody can guess nobody else can use (RFC 8881 §2.10.2).
    let mut session = SessionId([0; 16]);
    cx.server.environment.entropy.fill(&mut session.0);
    let request = CreateSession {
        session,
        client: args.client,
        sequence: args.sequence_id,
        principal: cx.requester.principal,
        connection: cx.connection,
        fore: from_wire(&args.fore_channel),
        back: from_wire(&args.back_channel),
        back_channel: back,
        callback_program: args.callback_program,
        callback_credential: credential.unwrap_or_default(),
        minor_version: cx.minor_version,
        within: cx.session().ok().map(|within| within.session),
    };
    let grant = cx.server.with_state(|state, now| state.create_session(&request, now))?;
    Ok(CreateSessionOk {
        session: grant.session,
        sequence_id: grant.sequence,
        flags: if grant.back_channel { create_session::CONN_BACK_CHAN } else { 0 },
        fore_channel: to_wire(&grant.fore),
        back_channel: to_wire(&grant.back),
    })
}

/// BIND_CONN_TO_SESSION. Every connection serves both directions.
pub(super) fn bind_connection(
    cx: &mut Compound<'_>,
    args: &BindConnToSessionArgs,
) -> Result<BindConnToSessionOk, NfsStatus> {
    let (back, direction) = match args.direction {
        ChannelDirFromClient::Fore => (false, ChannelDirFromServer::Fore),
        ChannelDirFromClient::Back => (true, ChannelDirFromServer::Back),
        ChannelDirFromClient::ForeOrBoth | ChannelDirFromClient::BackOrBoth => {
            (true, ChannelDirFromServer::Both)
        }
    };
    cx.server.state.lock().bind_connection(args.session, cx.connection, back)?;
    Ok(BindConnToSessionOk { session: args.session, direction, use_rdma: false })
}

/// BACKCHANNEL_CTL.
pub(super) fn backchannel_ctl(cx: &mut Compound<'_>, args: &BackchannelCtlArgs) -> Result<(), NfsStatus> {
    let credential = callback_credential(&args.callback_security).ok_or(NfsStatus::Inval)?;
    let session = cx.session()?.session;
    cx.server.state.lock().set_callback(session, args.callback_program, credential)
}

/// DESTROY_SESSION.
pub(super) fn destroy(cx: &mut Compound<'_>, args: &DestroySessionArgs) -> Result<(), NfsStatus> {
    let within = cx.session().ok().map(|within| within.session);
    cx.server.state.lock().destroy_session(args.session, cx.requester.principal, cx.connection, within)
}

/// DESTROY_CLIENTID. The record goes last: a crash in between only makes the next grace period longer.
pub(super) async fn destroy_client(
    cx: &mut Compound<'_>,
    args: &DestroyClientIdArgs,
) -> Result<(), NfsStatus> {
    let owner = cx.server.state.lock().destroy_client(args.client, cx.requester.principal)?;
    match owner {
        Some(owner) => cx.server.remove_unused_record(&owner, Duration::ZERO).await,
        None => Ok(()),
    }
}

/// RECLAIM_COMPLETE. The one for a single file system comes after a migration, which does not happen here (§18.51.3).
pub(super) fn reclaim_complete(cx: &mut Compound<'_>, args: &ReclaimCompleteArgs) -> Result<(), Failure> {
    let client = cx.client()?;
    if args.one_fs {
        cx.current()?;
        return Ok(());
    }
    cx.server.with_state(|state, _| state.reclaim_complete(client))
}
