//! The request of a client to a service, and the ticket in it (RFC 4120 §5.3, §5.5.1).

use crate::der::{
    BIT_STRING, GENERAL_STRING, GENERALIZED_TIME, INTEGER, Malformed, OCTET_STRING, Reader, SEQUENCE,
    application,
};
use crate::encryption::{EncryptionType, Key};
use crate::principal::Principal;

/// Something encrypted (`EncryptedData`).
pub(crate) struct Encrypted<'a> {
    /// Nothing if the type is not supported.
    pub kind: Option<EncryptionType>,
    pub key_version: Option<u32>,
    pub cipher: &'a [u8],
}

/// What a client presents (`AP-REQ`).
pub(crate) struct Request<'a> {
    /// Encrypted by a session key of the service, not by its own: not for us.
    pub by_session_key: bool,
    pub service: Principal,
    pub ticket: Encrypted<'a>,
    pub authenticator: Encrypted<'a>,
}

/// What the KDC says to the service (`EncTicketPart`).
pub(crate) struct Ticket {
    pub key: Key,
    pub client: Principal,
    /// It is not valid yet, until the KDC says so.
    pub invalid: bool,
    /// The KDC vouches for the realms on the way.
    pub path_checked: bool,
    /// In seconds since 1970.
    pub starts: i64,
    pub ends: i64,
    /// It holds under a condition that is not known here.
    pub restricted: bool,
}

impl<'a> Encrypted<'a> {
    fn read(mut data: Reader<'a>) -> Result<Encrypted<'a>, Malformed> {
        let kind = data.field(0, INTEGER)?.integer()?;
        let key_version = data.optional(1, INTEGER)?.map(Reader::integer).transpose()?;
        Ok(Encrypted {
            kind: i32::try_from(kind).ok().and_then(EncryptionType::from_number),
            key_version: key_version.map(|version| version as u32),
            cipher: data.field(2, OCTET_STRING)?.bytes(),
        })
    }
}

impl<'a> Request<'a> {
    pub fn read(message: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut message = Reader::new(message);
        let mut outer = message.value(application(14))?;
        let mut request = outer.value(SEQUENCE)?;
        if !message.is_empty() || request.field(0, INTEGER)?.integer()? != 5 {
            return Err(Malformed);
        }
        if request.field(1, INTEGER)?.integer()? != 14 {
            return Err(Malformed);
        }
        let options = flags(request.field(2, BIT_STRING)?)?;
        let mut ticket = request.field(3, application(1))?.value(SEQUENCE)?;
        if ticket.field(0, INTEGER)?.integer()? != 5 {
            return Err(Malformed);
        }
        let realm = ticket.field(1, GENERAL_STRING)?.text()?;
        Ok(Request {
            by_session_key: options & bit(1) != 0,
            service: Principal::read(realm, ticket.field(2, SEQUENCE)?)?,
            ticket: Encrypted::read(ticket.field(3, SEQUENCE)?)?,
            authenticator: Encrypted::read(request.field(4, SEQUENCE)?)?,
        })
    }
}

impl Ticket {
    pub fn read(decrypted: &[u8]) -> Result<Ticket, Malformed> {
        let mut ticket = Reader::new(decrypted).value(application(3))?.value(SEQUENCE)?;
        let flags = flags(ticket.field(0, BIT_STRING)?)?;
        let key = read_key(ticket.field(1, SEQUENCE)?)?.ok_or(Malformed)?;
        let realm = ticket.field(2, GENERAL_STRING)?.text()?;
        let client = Principal::read(realm, ticket.field(3, SEQUENCE)?)?;
        ticket.field(4, SEQUENCE)?; // realms on the way
        let authenticated = ticket.field(5, GENERALIZED_TIME)?.time()?;
        let starts = ticket.optional(6, GENERALIZED_TIME)?.map(Reader::time).transpose()?;
        let ends = ticket.field(7, GENERALIZED_TIME)?.time()?;
        ticket.optional(8, GENERALIZED_TIME)?; // renewable until
        ticket.optional(9, SEQUENCE)?; // addresses
        let restricted = match ticket.optional(10, SEQUENCE)? {
            Some(restrictions) => !all_may_be_ignored(restrictions)?,
            None => false,
        };
        Ok(Ticket {
            key,
            client,
            invalid: flags & bit(7) != 0,
            path_checked: flags & bit(12) != 0,
            starts: starts.unwrap_or(authenticated),
            ends,
            restricted,
        })
    }
}

/// `EncryptionKey`; nothing if its type is not supported.
pub(crate) fn read_key(mut key: Reader<'_>) -> Result<Option<Key>, Malformed> {
    let kind = key.field(0, INTEGER)?.integer()?;
    let bytes = key.field(1, OCTET_STRING)?.bytes();
    let kind = i32::try_from(kind).ok().and_then(EncryptionType::from_number);
    Ok(kind.and_then(|kind| Key::new(kind, bytes)))
}

/// `AuthorizationData` restricts, but for what is marked as ignorable (RFC 4120 §5.2.6).
fn all_may_be_ignored(mut restrictions: Reader<'_>) -> Result<bool, Malformed> {
    const IF_RELEVANT: i64 = 1;
    while !restrictions.is_empty() {
        let mut element = restrictions.value(SEQUENCE)?;
        if element.field(0, INTEGER)?.integer()? != IF_RELEVANT {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `KerberosFlags`: 32 bits, the first one highest.
fn flags(bits: Reader<'_>) -> Result<u32, Malformed> {
    match bits.bytes() {
        [_unused, rest @ ..] if rest.len() >= 4 => {
            Ok(rest[..4].iter().fold(0, |flags, byte| flags << 8 | u32::from(*byte)))
        }
        _ => Err(Malformed),
    }
}

const fn bit(number: u32) -> u32 {
    1 << (31 - number)
}
