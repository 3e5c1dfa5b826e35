use crate::gss::GssCredential;
use xdr::{BoundedOpaque, BoundedVec, Decode, DecodeError, Decoder, Encode, Encoder};

/// AUTH_NONE (RFC 5531 §10.1).
const AUTH_NONE: u32 = 0;
/// AUTH_SYS (RFC 5531 §14).
const AUTH_SYS: u32 = 1;

/// A credential or verifier as it is on the wire (RFC 5531 §8.2): a flavor and at most 400 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct OpaqueAuth {
    /// The number of the authentication flavor.
    pub flavor: u32,
    /// What that flavor defines.
    pub body: BoundedOpaque<400>,
}

/// Who makes a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    /// AUTH_NONE: nobody in particular.
    #[default]
    None,
    /// AUTH_SYS: whoever the client machine says.
    Sys(AuthSys),
    /// RPCSEC_GSS, verified; only in calls to a server with [`Security::gss`](crate::Security::gss).
    Gss(Box<GssCredential>),
    /// Another flavor, unparsed.
    Other(OpaqueAuth),
}

/// The content of an AUTH_SYS credential (RFC 5531 §14).
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct AuthSys {
    /// Arbitrary number of the client.
    pub stamp: u32,
    /// The client's name for itself.
    pub machine: BoundedOpaque<255>,
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups.
    pub gids: BoundedVec<u32, 16>,
}

impl AuthSys {
    /// A user with one group.
    pub fn new(uid: u32, gid: u32) -> AuthSys {
        AuthSys { uid, gid, ..AuthSys::default() }
    }
}

impl TryFrom<OpaqueAuth> for Credential {
    type Error = DecodeError;

    fn try_from(raw: OpaqueAuth) -> Result<Credential, DecodeError> {
        match raw.flavor {
            AUTH_NONE => Ok(Credential::None),
            AUTH_SYS => Ok(Credential::Sys(xdr::from_bytes(raw.body.into_inner())?)),
            _ => Ok(Credential::Other(raw)),
        }
    }
}

/// As an opaque authenticator (RFC 5531 §8.2).
impl Encode for Credential {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Credential::None => OpaqueAuth::default().encode(out),
            Credential::Sys(sys) => {
                out.put_u32(AUTH_SYS);
                let length_at = out.len();
                out.put_u32(0);
                sys.encode(out);
                let length = out.len() - length_at - 4;
                out.patch_u32(length_at, length as u32); // at most 340, by the bounds of its fields
            }
            Credential::Gss(gss) => gss.raw.encode(out),
            Credential::Other(raw) => raw.encode(out),
        }
    }
}

impl Decode for Credential {
    fn decode(input: &mut Decoder) -> Result<Credential, DecodeError> {
        Credential::try_from(OpaqueAuth::decode(input)?)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn auth_sys_is_on_the_wire_as_rfc_5531_draws_it() {
        let sys = AuthSys {
            stamp: 1,
            machine: BoundedOpaque::new("box").unwrap(),
            uid: 1000,
            gid: 100,
            gids: BoundedVec::new(vec![4, 5]).unwrap(),
        };
        let credential = Credential::Sys(sys);
        let wire = xdr::to_bytes(&credential);
        let words = [1, 32, 1, 3, u32::from_be_bytes(*b"box\0"), 1000, 100, 2, 4, 5];
        let expected: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        assert_eq!(wire[..], expected);
        assert_eq!(xdr::from_bytes(wire), Ok(credential));
    }

    #[test]
    fn more_than_sixteen_groups_or_a_long_machine_name_are_refused() {
        #[derive(Encode)]
        struct Loose {
            stamp: u32,
            machine: Bytes,
            uid: u32,
            gid: u32,
            gids: Vec<u32>,
        }
        let credential = |machine: usize, gids: usize| {
            let body = Loose {
                stamp: 0,
                machine: Bytes::from(vec![b'm'; machine]),
                uid: 0,
                gid: 0,
                gids: vec![9; gids],
            };
            let body = BoundedOpaque::new(xdr::to_bytes(&body)).unwrap();
            Credential::try_from(OpaqueAuth { flavor: AUTH_SYS, body })
        };
        assert!(credential(255, 16).is_ok());
        assert!(credential(255, 17).is_err());
        assert!(credential(256, 0).is_err());
    }

    #[test]
    fn other_flavors_stay_as_they_are() {
        let raw = OpaqueAuth { flavor: 6, body: BoundedOpaque::new("gss token").unwrap() };
        let credential: Credential = xdr::from_bytes(xdr::to_bytes(&raw)).unwrap();
        assert_eq!(credential, Credential::Other(raw.clone()));
        assert_eq!(xdr::to_bytes(&credential), xdr::to_bytes(&raw));
    }
}
