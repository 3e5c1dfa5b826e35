//! From RPC credentials to users (RFC 5531 §10.1, §14).

use std::net::IpAddr;

use file_system::Caller;
use onc_rpc::{AuthStatus, Credential};

use crate::state::Principal;

/// Who makes a request.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    /// As owner of client ids.
    pub principal: Principal,
    /// As user of files, before an export squashes it; `None` names no user.
    pub caller: Option<Caller>,
    /// Where it comes from.
    pub address: IpAddr,
}

impl Requester {
    /// Believes AUTH_SYS; flavors other than that and AUTH_NONE are not served.
    pub fn new(credential: &Credential, address: IpAddr) -> Result<Requester, AuthStatus> {
        match credential {
            Credential::None => Ok(Requester { principal: Principal::Nobody, caller: None, address }),
            Credential::Sys(sys) => Ok(Requester {
                principal: Principal::Unix(sys.uid),
                caller: Some(Caller {
                    uid: sys.uid,
                    gid: sys.gid,
                    groups: sys.gids.iter().copied().collect(),
                }),
                address,
            }),
            // No server is made that verifies the former yet.
            Credential::Gss(_) | Credential::Other(_) => Err(AuthStatus::BadCredential),
        }
    }
}
