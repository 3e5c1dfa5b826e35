//! A KDC and a client by hand, which may lie.

use environment::Environment;
use proptest::prelude::*;

use super::*;
use crate::der::{BIT_STRING, GENERAL_STRING, GENERALIZED_TIME, OCTET_STRING, SEQUENCE, context, integer};
use crate::encryption::EncryptionType;
use crate::keytab::tests::record;

/// 2023-11-14 22:13:20.
const NOW: i64 = 1_700_000_000;
const NOW_TEXT: &str = "20231114221320Z";
const LATER: &str = "20231115081320Z";

struct Forgery {
    service: &'static str,
    service_key: [u8; 32],
    client_realm: &'static str,
    ticket_flags: u32,
    starts: &'static str,
    ends: &'static str,
    /// Type of an element of the authorization data.
    restriction: Option<i64>,
    authenticator_name: &'static str,
    authenticator_time: &'static str,
    wishes: u32,
    session_key: [u8; 32],
    options: u32,
    subkey: Option<[u8; 32]>,
}

impl Default for Forgery {
    fn default() -> Forgery {
        Forgery {
            service: "nfs",
            service_key: [1; 32],
            client_realm: "EXAMPLE.ORG",
            ticket_flags: 0,
            starts: NOW_TEXT,
            ends: LATER,
            restriction: Some(1),
            authenticator_name: "anna",
            authenticator_time: NOW_TEXT,
            wishes: MUTUAL,
            session_key: [2; 32],
            options: 0,
            subkey: None,
        }
    }
}

const KIND: EncryptionType = EncryptionType::Aes256Sha1;

fn field(number: u8, tag: u8, content: &[u8]) -> Vec<u8> {
    value(context(number), &[&value(tag, &[content])])
}

fn name(number: u8, components: &[&str]) -> Vec<u8> {
    let list: Vec<u8> =
        components.iter().flat_map(|part| value(GENERAL_STRING, &[part.as_bytes()])).collect();
    field(number, SEQUENCE, &[integer(0, 1), field(1, SEQUENCE, &list)].concat())
}

fn flags(number: u8, flags: u32) -> Vec<u8> {
    field(number, BIT_STRING, &[&[0][..], &flags.to_be_bytes()].concat())
}

fn key_field(number: u8, key: &[u8]) -> Vec<u8> {
    field(number, SEQUENCE, &[integer(0, KIND as i64), field(1, OCTET_STRING, key)].concat())
}

fn encrypted(number: u8, key: &[u8], usage: u32, message: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::new();
    let key = Key::new(KIND, key).unwrap().sealing(usage).unwrap();
    key.seal([9; 16], &[message], &mut sealed).unwrap();
    let content = [integer(0, KIND as i64), integer(1, 3), field(2, OCTET_STRING, &sealed)].concat();
    field(number, SEQUENCE, &content)
}

impl Forgery {
    fn ticket(&self) -> Vec<u8> {
        let mut content = [
            flags(0, self.ticket_flags),
            key_field(1, &self.session_key),
            field(2, GENERAL_STRING, self.client_realm.as_bytes()),
            name(3, &["anna"]),
            field(4, SEQUENCE, &[integer(0, 1), field(1, OCTET_STRING, b"")].concat()),
            field(5, GENERALIZED_TIME, NOW_TEXT.as_bytes()),
            field(6, GENERALIZED_TIME, self.starts.as_bytes()),
            field(7, GENERALIZED_TIME, self.ends.as_bytes()),
        ]
        .concat();
        if let Some(kind) = self.restriction {
            let element = value(SEQUENCE, &[&integer(0, kind), &field(1, OCTET_STRING, b"?")]);
            content.extend(field(10, SEQUENCE, &element));
        }
        value(application(3), &[&value(SEQUENCE, &[&content])])
    }

    fn authenticator(&self) -> Vec<u8> {
        let wishes = [&16u32.to_le_bytes()[..], &[0; 16], &self.wishes.to_le_bytes()].concat();
        let mut content = [
            integer(0, 5),
            field(1, GENERAL_STRING, self.client_realm.as_bytes()),
            name(2, &[self.authenticator_name]),
            field(3, SEQUENCE, &[integer(0, 0x8003), field(1, OCTET_STRING, &wishes)].concat()),
            integer(4, 123_456),
            field(5, GENERALIZED_TIME, self.authenticator_time.as_bytes()),
        ]
        .concat();
        if let Some(key) = self.subkey {
            content.extend(key_field(6, &key));
        }
        value(application(2), &[&value(SEQUENCE, &[&content])])
    }

    fn token(&self) -> Vec<u8> {
        self.token_of(&self.ticket(), &self.authenticator())
    }

    fn token_of(&self, ticket: &[u8], authenticator: &[u8]) -> Vec<u8> {
        let ticket = [
            integer(0, 5),
            field(1, GENERAL_STRING, b"EXAMPLE.ORG"),
            name(2, &[self.service, "box"]),
            encrypted(3, &self.service_key, usage::TICKET, ticket),
        ]
        .concat();
        let request = [
            integer(0, 5),
            integer(1, 14),
            flags(2, self.options),
            value(context(3), &[&value(application(1), &[&value(SEQUENCE, &[&ticket])])]),
            encrypted(4, &self.session_key, usage::AUTHENTICATOR, authenticator),
        ]
        .concat();
        let request = value(application(14), &[&value(SEQUENCE, &[&request])]);
        value(application(0), &[&value(OBJECT_IDENTIFIER, &[&KERBEROS]), &REQUEST, &request])
    }
}

fn service() -> Kerberos {
    let keytab = Keytab::read(&[&[5, 2][..], &record(18, 3, &[1; 32])].concat()).unwrap();
    Kerberos::new("nfs", keytab, Environment::real().entropy)
}

fn accept(forgery: &Forgery) -> Result<Accepted, GssError> {
    service().accept(&forgery.token(), NOW)
}

#[test]
fn an_honest_client_gets_a_context_that_ends_with_its_ticket() {
    for wishes in [MUTUAL, 0] {
        for subkey in [None, Some([7; 32])] {
            let accepted = accept(&Forgery { wishes, subkey, ..Forgery::default() }).unwrap();
            assert_eq!(accepted.context.principal(), "anna@EXAMPLE.ORG");
            assert_eq!(accepted.context.expires(), NOW + 36_000);
            assert_eq!(accepted.token.is_empty(), wishes == 0);
        }
    }
}

#[test]
fn every_lie_is_refused_for_what_it_is() {
    let usual = Forgery::default;
    let lies = [
        (GssError::NO_CREDENTIAL, Forgery { service: "host", ..usual() }),
        (GssError::NO_CREDENTIAL, Forgery { service_key: [8; 32], ..usual() }),
        (GssError::NO_CREDENTIAL, Forgery { options: 1 << 30, ..usual() }),
        (GssError::EXPIRED, Forgery { ends: NOW_TEXT, ..usual() }),
        (GssError::DEFECTIVE_CREDENTIAL, Forgery { starts: LATER, ..usual() }),
        (GssError::DEFECTIVE_CREDENTIAL, Forgery { ticket_flags: 1 << (31 - 7), ..usual() }),
        (GssError::DEFECTIVE_CREDENTIAL, Forgery { client_realm: "OTHER.ORG", ..usual() }),
        (GssError::DEFECTIVE_CREDENTIAL, Forgery { restriction: Some(4), ..usual() }),
        (GssError::DEFECTIVE_CREDENTIAL, Forgery { authenticator_name: "berta", ..usual() }),
        (GssError::DEFECTIVE_CREDENTIAL, Forgery { authenticator_time: "20231114221821Z", ..usual() }),
        (GssError::DEFECTIVE_CREDENTIAL, Forgery { authenticator_time: "20231114220819Z", ..usual() }),
        (GssError::FAILURE, Forgery { wishes: MUTUAL | DCE_STYLE, ..usual() }),
    ];
    for (number, (expected, lie)) in lies.iter().enumerate() {
        let error = accept(lie).err().unwrap();
        assert_eq!(error.major, *expected, "lie {number}: {error}");
    }
    let checked = Forgery { client_realm: "OTHER.ORG", ticket_flags: 1 << (31 - 12), ..usual() };
    assert_eq!(
        accept(&checked).unwrap().context.principal(),
        "anna@OTHER.ORG",
        "the KDC has checked the path"
    );
    let stolen = usual();
    let of_another_key = Forgery { session_key: [3; 32], ..usual() };
    let error = service().accept(&of_another_key.token_of(&stolen.ticket(), &stolen.authenticator()), NOW);
    assert_eq!(error.err().unwrap().major, GssError::BAD_MIC, "a ticket without its key");
}

#[test]
fn a_token_is_taken_once() {
    let (service, token) = (service(), Forgery::default().token());
    service.accept(&token, NOW).unwrap();
    assert_eq!(service.accept(&token, NOW + 1).err().unwrap().major, GssError::DUPLICATE);
}

#[test]
fn another_mechanism_is_not_ours() {
    let token = value(application(0), &[&value(OBJECT_IDENTIFIER, &[&[0x2b, 6, 1, 5, 5, 2]]), &REQUEST]);
    assert_eq!(service().accept(&token, NOW).err().unwrap().major, GssError::BAD_MECHANISM);
}

proptest! {
    #[test]
    fn damage_is_refused_and_never_a_panic(
        part in 0usize..3, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()
    ) {
        let forgery = Forgery::default();
        let (mut ticket, mut authenticator) = (forgery.ticket(), forgery.authenticator());
        let mut token = forgery.token();
        let damaged = match part {
            0 => &mut ticket,
            1 => &mut authenticator,
            _ => &mut token,
        };
        let at = at.index(damaged.len());
        if cut {
            damaged.truncate(at);
        } else {
            damaged[at] = byte;
        }
        if part < 2 {
            token = forgery.token_of(&ticket, &authenticator);
        }
        let result = service().accept(&token, NOW);
        // Only the KDC can change who the client is, and only the client what it wants.
        if let (2, Ok(accepted)) = (part, result) {
            prop_assert_eq!(accepted.context.principal(), "anna@EXAMPLE.ORG");
            prop_assert!(!accepted.token.is_empty());
        }
    }
}
