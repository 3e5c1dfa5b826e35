//! The call that asks for TLS, and the answer to it (RFC 9289 §4.1).

use bytes::Bytes;
use xdr::{Decode, Encode, Encoder};

use crate::message::{Procedure, REPLY, put_call};
use crate::record::LAST_FRAGMENT;
use crate::{Call, Credential, OpaqueAuth};

/// The credential of the probe.
pub(crate) const AUTH_TLS: u32 = 7;

/// The verifier of the answer, of flavor AUTH_NONE.
const STARTTLS: &[u8; 8] = b"STARTTLS";

/// Whether a call with the credential AUTH_TLS is what it has to be: NULL, without arguments, credential and verifier
/// empty.
pub(crate) fn is_probe(call: &Call) -> bool {
    let empty = matches!(&call.credential, Credential::Other(raw) if raw.body.is_empty());
    empty && call.procedure == 0 && call.body.is_empty() && call.verifier == OpaqueAuth::default()
}

/// A record that asks for TLS.
pub(crate) fn put_probe(xid: u32, null: Procedure) -> Bytes {
    let mut out = Encoder::with_capacity(64);
    out.put_u32(0);
    let credential = OpaqueAuth { flavor: AUTH_TLS, ..OpaqueAuth::default() };
    put_call(&mut out, xid, null, &Credential::Other(credential));
    let length = (out.len() - 4) as u32;
    out.patch_u32(0, length | LAST_FRAGMENT);
    out.into_bytes()
}

/// A record that agrees.
pub(crate) fn put_accepted(xid: u32) -> Bytes {
    let mut out = Encoder::with_capacity(64);
    // Mark, xid, reply, accepted; verifier; success.
    [LAST_FRAGMENT | 32, xid, REPLY, 0, 0].into_iter().for_each(|word| out.put_u32(word));
    out.put_opaque_slice(STARTTLS);
    out.put_u32(0);
    out.into_bytes()
}

/// Whether a reply to call `xid` agrees.
pub(crate) fn is_accepted(reply: Bytes, xid: u32) -> bool {
    #[derive(Encode, Decode, PartialEq)]
    struct Answer {
        xid: u32,
        reply: u32,
        accepted: u32,
        verifier: OpaqueAuth,
        success: u32,
    }
    xdr::from_bytes::<Answer>(reply).is_ok_and(|answer| {
        let ours = answer.xid == xid && answer.reply == REPLY;
        ours && answer.accepted == 0
            && answer.success == 0
            && answer.verifier.flavor == 0
            && answer.verifier.body[..] == STARTTLS[..]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    const NULL: Procedure = Procedure { program: 100_003, version: 4, number: 0 };

    fn parse(record: Bytes) -> Call {
        let Message::Call(call) = Message::parse(record.slice(4..)).unwrap() else { panic!("not a call") };
        call
    }

    #[test]
    fn only_an_empty_call_of_null_is_a_probe() {
        let probe = put_probe(3, NULL);
        assert!(is_probe(&parse(probe.clone())));
        let mut arguments = probe.to_vec();
        arguments.extend([0; 4]);
        assert!(!is_probe(&parse(arguments.into())));
        assert!(!is_probe(&parse(put_probe(3, Procedure { number: 1, ..NULL }))));
        let with_verifier =
            Call { verifier: OpaqueAuth { flavor: 1, ..OpaqueAuth::default() }, ..parse(probe.clone()) };
        assert!(!is_probe(&with_verifier));
        let full = OpaqueAuth { flavor: AUTH_TLS, body: xdr::BoundedOpaque::new("x").unwrap() };
        assert!(!is_probe(&Call { credential: Credential::Other(full), ..parse(probe) }));
    }

    #[test]
    fn nothing_but_starttls_is_an_agreement() {
        let agreed = put_accepted(9).slice(4..);
        assert_eq!(agreed.len(), 32);
        assert!(is_accepted(agreed.clone(), 9));
        assert!(!is_accepted(agreed.clone(), 8));
        for at in 4..32 {
            let mut changed = agreed.to_vec();
            changed[at] ^= 1;
            assert!(!is_accepted(changed.into(), 9), "byte {at}");
        }
        // An ordinary success, and a refusal.
        let words = |words: &[u32]| -> Bytes { words.iter().flat_map(|word| word.to_be_bytes()).collect() };
        assert!(!is_accepted(words(&[9, 1, 0, 0, 0, 0]), 9));
        assert!(!is_accepted(words(&[9, 1, 1, 1, 1]), 9));
    }
}
