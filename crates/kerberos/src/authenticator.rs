//! The proof that a client has the key of its ticket, and the server's answer to it (RFC 4120 §5.5, RFC 4121 §4.1.1).

use crate::der::{
    self, GENERAL_STRING, GENERALIZED_TIME, INTEGER, Malformed, OCTET_STRING, Reader, SEQUENCE, application,
    context, value,
};
use crate::encryption::Key;
use crate::principal::Principal;
use crate::ticket::read_key;

/// What the client has encrypted by the key of its ticket.
pub(crate) struct Authenticator {
    pub client: Principal,
    /// In seconds since 1970, and as it was written.
    pub time: i64,
    pub time_text: Vec<u8>,
    pub microseconds: i64,
    pub key: Option<Key>,
    /// What the client wants of the context.
    pub flags: u32,
}

/// The client wants to know that we are the service.
pub(crate) const MUTUAL: u32 = 2;
/// The client speaks another dialect, with one more message.
pub(crate) const DCE_STYLE: u32 = 0x1000;

impl Authenticator {
    pub fn read(decrypted: &[u8]) -> Result<Authenticator, Malformed> {
        let mut authenticator = Reader::new(decrypted).value(application(2))?.value(SEQUENCE)?;
        if authenticator.field(0, INTEGER)?.integer()? != 5 {
            return Err(Malformed);
        }
        let realm = authenticator.field(1, GENERAL_STRING)?.text()?;
        let client = Principal::read(realm, authenticator.field(2, SEQUENCE)?)?;
        let flags = wishes(authenticator.field(3, SEQUENCE)?)?;
        let microseconds = authenticator.field(4, INTEGER)?.integer()?;
        let time = authenticator.field(5, GENERALIZED_TIME)?;
        let key = authenticator.optional(6, SEQUENCE)?.map(read_key).transpose()?;
        Ok(Authenticator {
            client,
            time: time.time()?,
            time_text: time.bytes().to_vec(),
            microseconds,
            // One that cannot be used must not be replaced by another in silence.
            key: key.map(|key| key.ok_or(Malformed)).transpose()?,
            flags,
        })
    }

    /// What the answer says, to be encrypted (`EncAPRepPart`): the time given back, and a key for the context.
    pub fn answer(&self, key: &Key, sequence: u32) -> Vec<u8> {
        let time = value(context(0), &[&value(GENERALIZED_TIME, &[&self.time_text])]);
        let key_value = value(context(1), &[&value(OCTET_STRING, &[key.bytes()])]);
        let key = value(SEQUENCE, &[&der::integer(0, key.kind() as i64), &key_value]);
        let content = [
            time,
            der::integer(1, self.microseconds),
            value(context(2), &[&key]),
            der::integer(3, sequence.into()),
        ]
        .concat();
        value(application(27), &[&value(SEQUENCE, &[&content])])
    }
}

/// The answer (`AP-REP`) with its encrypted part.
pub(crate) fn answer_message(key: &Key, encrypted: &[u8]) -> Vec<u8> {
    let cipher = value(context(2), &[&value(OCTET_STRING, &[encrypted])]);
    let data = value(SEQUENCE, &[&der::integer(0, key.kind() as i64), &cipher]);
    let content = [der::integer(0, 5), der::integer(1, 15), value(context(2), &[&data])].concat();
    value(application(15), &[&value(SEQUENCE, &[&content])])
}

/// The "checksum" that says what the client wants (RFC 4121 §4.1.1). Channel bindings are not looked at: no version of
/// RPCSEC_GSS that is spoken here has them.
fn wishes(mut checksum: Reader<'_>) -> Result<u32, Malformed> {
    const GSS: i64 = 0x8003;
    if checksum.field(0, INTEGER)?.integer()? != GSS {
        return Err(Malformed);
    }
    let mut content = checksum.field(1, OCTET_STRING)?;
    if content.take(4)? != 16u32.to_le_bytes() {
        return Err(Malformed);
    }
    content.take(16)?;
    Ok(content.take(4)?.iter().rev().fold(0, |flags, byte| flags << 8 | u32::from(*byte)))
}
