//! From RPC credentials to users (RFC 5531 §10.1, §14).

use std::net::IpAddr;
use std::sync::Arc;

use file_system::Caller;
use onc_rpc::{AuthStatus, AuthSys, Credential, Peer};

use crate::exports::ExportTable;
use crate::overview::Origin;
use crate::security::Shown;
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
    /// How it proves that.
    pub shown: Shown,
    /// The name that RPCSEC_GSS has proved.
    name: Option<Arc<str>>,
}

impl Requester {
    /// Believes AUTH_SYS, and the RPC layer that has verified RPCSEC_GSS; flavors other than these and AUTH_NONE are not
    /// served.
    pub fn new(credential: &Credential, peer: &Peer, exports: &ExportTable) -> Result<Requester, AuthStatus> {
        let address = peer.address().ip();
        let shown = Shown::new(credential, peer.transport(), address);
        match credential {
            Credential::None => Ok(Requester {
                principal: if exports.trust(address) { Principal::Nobody } else { Principal::Stranger(None) },
                caller: None,
                address,
                shown,
                name: None,
            }),
            Credential::Sys(sys) => Ok(Requester {
                principal: match exports.trust(address) {
                    true => Principal::Unix(sys.uid),
                    false => Principal::Stranger(Some(sys.uid)),
                },
                caller: Some(Caller {
                    uid: sys.uid,
                    gid: sys.gid,
                    groups: sys.gids.iter().copied().collect(),
                }),
                address,
                shown,
                name: None,
            }),
            Credential::Gss(gss) => Ok(Requester {
                principal: Principal::Gss(digest(&gss.principal)),
                name: Some(gss.principal.clone()),
                caller: gss.user.as_ref().map(|user| Caller {
                    uid: user.uid,
                    gid: user.gid,
                    groups: user.groups.clone(),
                }),
                address,
                shown,
            }),
            Credential::Other(_) => Err(AuthStatus::BadCredential),
        }
    }

    /// How the server presents itself to a client that sends this request, when it calls back on a connection of its own: as
    /// its superuser, as other servers do. `None`: the client proves who it is, or does not talk in the clear, and should
    /// not have to believe who is not; or it is nobody who could open anything.
    pub fn callback_credential(&self) -> Option<Credential> {
        callback_credential(self.principal).filter(|_| self.shown.is_clear())
    }

    /// For operators: who asked for a client id, and from where.
    pub fn origin(&self) -> Origin {
        let principal = match (&self.name, self.principal) {
            (Some(name), _) => name.to_string(),
            (None, Principal::Unix(uid) | Principal::Stranger(Some(uid))) => format!("uid {uid}"),
            (None, _) => "nobody".into(),
        };
        Origin { address: self.address.to_canonical(), principal, security: self.shown.to_string() }
    }
}

fn callback_credential(principal: Principal) -> Option<Credential> {
    match principal {
        Principal::Nobody => Some(Credential::None),
        Principal::Unix(_) => Some(Credential::Sys(AuthSys::new(0, 0))),
        Principal::Stranger(_) | Principal::Gss(_) => None,
    }
}

/// Short enough to be copied, long enough that no two names have the same.
fn digest(name: &str) -> [u8; 16] {
    let mut digest = [0; 16];
    digest.copy_from_slice(&blake3::hash(name.as_bytes()).as_bytes()[..16]);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_called_back_by_whom_goes_by_how_it_came() {
        for (principal, credential) in [
            (Principal::Nobody, Some(Credential::None)),
            (Principal::Unix(1000), Some(Credential::Sys(AuthSys::new(0, 0)))),
            (Principal::Stranger(Some(0)), None),
            (Principal::Stranger(None), None),
            (Principal::Gss([1; 16]), None),
        ] {
            assert_eq!(callback_credential(principal), credential, "{principal:?}");
        }
    }
}
