use std::sync::Arc;

use aws_lc_rs::digest;
use bytes::Bytes;
use environment::Entropy;
use onc_rpc::gss::{Accepted, GssError, Mechanism};
use parking_lot::{Mutex, RwLock};

use crate::authenticator::{Authenticator, DCE_STYLE, MUTUAL, answer_message};
use crate::context::{Context, Holder};
use crate::der::{OBJECT_IDENTIFIER, Reader, application, value};
use crate::encryption::Key;
use crate::keytab::Keytab;
use crate::replay::{Novelty, ReplayCache};
use crate::ticket::{Request, Ticket};

/// 1.2.840.113554.1.2.2
const KERBEROS: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
/// Before a request, and before the answer (RFC 4121 §4.1).
const REQUEST: [u8; 2] = [1, 0];
const ANSWER: [u8; 2] = [2, 0];

/// How much the clocks of client, server and KDC may differ by, in seconds (RFC 4120 §8.2).
const SKEW: i64 = 300;

/// What is encrypted by which key (RFC 4120 §7.5.1).
mod usage {
    pub const TICKET: u32 = 2;
    pub const AUTHENTICATOR: u32 = 11;
    pub const ANSWER: u32 = 12;
}

/// A service that takes Kerberos tickets.
pub struct Kerberos {
    service: String,
    keytab: RwLock<Arc<Keytab>>,
    replays: Mutex<ReplayCache>,
    entropy: Arc<dyn Entropy>,
}

impl Kerberos {
    /// A service with this first component of its name (`nfs`), on whatever machine and in whatever realm the keytab
    /// has a key for.
    pub fn new(service: impl Into<String>, keytab: Keytab, entropy: Arc<dyn Entropy>) -> Kerberos {
        let keytab = RwLock::new(Arc::new(keytab));
        Kerberos { service: service.into(), keytab, replays: Mutex::default(), entropy }
    }

    /// Whether there is a key that a context can be made with.
    pub fn has_keys(&self) -> bool {
        !self.keytab.read().is_empty()
    }

    /// Uses other keys for contexts made from now on.
    pub fn replace_keytab(&self, keytab: Keytab) {
        *self.keytab.write() = Arc::new(keytab);
    }

    /// The ticket, decrypted by whichever of our keys fits.
    fn ticket(&self, request: &Request<'_>) -> Result<Ticket, GssError> {
        let no_key = || {
            let reason = format!("there is no key in the keytab that fits a ticket for {}", request.service);
            GssError::new(GssError::NO_CREDENTIAL, reason)
        };
        if request.service.components.first() != Some(&self.service) {
            let reason = format!("a ticket for {}, which is another service", request.service);
            return Err(GssError::new(GssError::NO_CREDENTIAL, reason));
        }
        let kind = request.ticket.kind.ok_or_else(|| {
            GssError::new(GssError::DEFECTIVE_CREDENTIAL, "a ticket of an unsupported encryption type")
        })?;
        let keytab = self.keytab.read().clone();
        let decrypted = keytab
            .keys(&request.service, kind, request.ticket.key_version)
            .find_map(|key| decrypt(key, usage::TICKET, request.ticket.cipher));
        Ticket::read(&decrypted.ok_or_else(no_key)?).map_err(|_| defective("the ticket"))
    }

    /// Whether the ticket holds now, for whom it was made (RFC 4120 §3.2.3).
    fn check(&self, ticket: &Ticket, request: &Request<'_>, now: i64) -> Result<(), GssError> {
        let refuse = |reason: String| Err(GssError::new(GssError::DEFECTIVE_CREDENTIAL, reason));
        let client = &ticket.client;
        if ticket.ends <= now {
            let reason = format!("the ticket of {client} has expired {} seconds ago", now - ticket.ends);
            return Err(GssError::new(GssError::EXPIRED, reason));
        }
        if ticket.invalid || ticket.starts > now + SKEW {
            return refuse(format!("the ticket of {client} is not valid yet"));
        }
        if client.realm != request.service.realm && !ticket.path_checked {
            return refuse(format!("the KDC has not checked the realms between {client} and this service"));
        }
        if ticket.restricted {
            return refuse(format!("the ticket of {client} has restrictions that are not known here"));
        }
        Ok(())
    }

    fn fresh_key(&self, like: &Key) -> Key {
        let mut bytes = zeroize::Zeroizing::new(vec![0; like.bytes().len()]);
        self.entropy.fill(&mut bytes);
        // Of the same type, so of the same length.
        Key::new(like.kind(), &bytes).unwrap_or_else(|| like.clone())
    }
}

impl Mechanism for Kerberos {
    fn accept(&self, token: &[u8], now: i64) -> Result<Accepted, GssError> {
        let request = unframed(token)?;
        let request = Request::read(request).map_err(|_| defective("the request"))?;
        if request.by_session_key {
            let reason = "a ticket by the key of a session of this service, which has none";
            return Err(GssError::new(GssError::NO_CREDENTIAL, reason));
        }
        let ticket = self.ticket(&request)?;
        let cipher = request.authenticator.cipher;
        let authenticator = decrypt(&ticket.key, usage::AUTHENTICATOR, cipher).ok_or_else(|| {
            GssError::new(GssError::BAD_MIC, "the client does not have the key of its ticket")
        })?;
        let authenticator =
            Authenticator::read(&authenticator).map_err(|_| defective("the authenticator"))?;
        if authenticator.client != ticket.client {
            let reason = format!("{} presents a ticket of {}", authenticator.client, ticket.client);
            return Err(GssError::new(GssError::DEFECTIVE_CREDENTIAL, reason));
        }
        self.check(&ticket, &request, now)?;
        let client = &ticket.client;
        if authenticator.time.abs_diff(now) > SKEW.unsigned_abs() {
            let reason = format!("the clock of {client} differs by {} seconds", authenticator.time - now);
            return Err(GssError::new(GssError::DEFECTIVE_CREDENTIAL, reason));
        }
        let mut seen = [0; 16];
        seen.copy_from_slice(&digest::digest(&digest::SHA256, cipher).as_ref()[..16]);
        match self.replays.lock().take(seen, now, authenticator.time + SKEW) {
            Novelty::New => {}
            Novelty::Seen => {
                let reason = format!("a token of {client} that was used before");
                return Err(GssError::new(GssError::DUPLICATE, reason));
            }
            Novelty::Full => {
                return Err(GssError::new(GssError::FAILURE, "too many new contexts within a few minutes"));
            }
        }
        if authenticator.flags & DCE_STYLE != 0 {
            return Err(GssError::new(GssError::FAILURE, format!("{client} wants a context in DCE style")));
        }
        let failed = |_| GssError::new(GssError::FAILURE, "a key cannot be used");
        let holder = Holder { principal: client.to_string(), expires: ticket.ends };
        let clients_key = authenticator.key.as_ref().unwrap_or(&ticket.key);
        if authenticator.flags & MUTUAL == 0 {
            let context =
                Context::new(holder, clients_key, false, 0, self.entropy.clone()).map_err(failed)?;
            return Ok(Accepted { context: Box::new(context), token: Bytes::new() });
        }
        let key = self.fresh_key(clients_key);
        let sequence = self.entropy.next_u64() as u32 >> 2;
        let context = Context::new(holder, &key, true, sequence, self.entropy.clone()).map_err(failed)?;
        let mut random = [0; 16];
        self.entropy.fill(&mut random);
        let mut encrypted = Vec::new();
        let answer = authenticator.answer(&key, sequence);
        let sealing = ticket.key.sealing(usage::ANSWER).map_err(failed)?;
        sealing.seal(random, &[&answer], &mut encrypted).map_err(failed)?;
        let token = framed(&answer_message(&ticket.key, &encrypted));
        Ok(Accepted { context: Box::new(context), token: token.into() })
    }
}

fn decrypt(key: &Key, usage: u32, cipher: &[u8]) -> Option<zeroize::Zeroizing<Vec<u8>>> {
    let mut message = zeroize::Zeroizing::new(cipher.to_vec());
    key.sealing(usage).ok()?.open(&mut message).ok()?;
    Some(message)
}

fn defective(what: &str) -> GssError {
    GssError::new(GssError::DEFECTIVE_TOKEN, format!("{what} is malformed"))
}

/// The request in a token (RFC 2743 §3.1).
fn unframed(token: &[u8]) -> Result<&[u8], GssError> {
    let mut content = Reader::new(token).value(application(0)).map_err(|_| defective("the token"))?;
    let mechanism = content.value(OBJECT_IDENTIFIER).map_err(|_| defective("the token"))?;
    if mechanism.bytes() != KERBEROS {
        return Err(GssError::new(GssError::BAD_MECHANISM, "another mechanism than Kerberos"));
    }
    let is_request = content.take(2).is_ok_and(|kind| kind == REQUEST);
    if is_request { Ok(content.bytes()) } else { Err(defective("the token")) }
}

fn framed(answer: &[u8]) -> Vec<u8> {
    value(application(0), &[&value(OBJECT_IDENTIFIER, &[&KERBEROS]), &ANSWER, answer])
}

#[cfg(test)]
mod tests;
