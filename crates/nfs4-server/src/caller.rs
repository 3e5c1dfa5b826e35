//! From RPC credentials to users (RFC 5531 §10.1, §14).

use file_system::Caller;
use onc_rpc::{AuthStatus, Credential};

use crate::exports::nobody;
use crate::state::Principal;

/// Who makes a request.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    /// As owner of client ids.
    pub principal: Principal,
    /// As user of files, before an export squashes it.
    pub caller: Caller,
}

impl Requester {
    /// Takes AUTH_NONE for nobody and believes AUTH_SYS; other flavors are not served.
    pub fn new(credential: &Credential) -> Result<Requester, AuthStatus> {
        match credential {
            Credential::None => Ok(Requester { principal: Principal::Nobody, caller: nobody() }),
            Credential::Sys(sys) => Ok(Requester {
                principal: Principal::Unix(sys.uid),
                caller: Caller { uid: sys.uid, gid: sys.gid, groups: sys.gids.iter().copied().collect() },
            }),
            Credential::Other(_) => Err(AuthStatus::BadCredential),
        }
    }
}
