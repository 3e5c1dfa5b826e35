use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use environment::Environment;
use xdr::{BoundedOpaque, Decoder, Encoder};

use super::context::{Context, Contexts, Handle};
use super::credential::{Header, VERSION, procedure};
use super::window::{Sequence, WINDOW};
use super::{GssCredential, GssError, Mechanism, Protection, RPCSEC_GSS, Users};
use crate::complaints::{Complaint, Line, may_tell};
use crate::{AuthStatus, Call, Credential, OpaqueAuth, Peer, Reply};

/// Largest token of a client that wants a context; tickets with many groups take some 12 KiB.
const MAX_TOKEN: usize = 64 << 10;

/// Bounds of a [`GssServer`].
#[derive(Clone, Copy, Debug)]
pub struct GssLimits {
    /// Most contexts.
    pub contexts: usize,
    /// Most contexts of one principal.
    pub contexts_per_principal: usize,
}

impl Default for GssLimits {
    fn default() -> GssLimits {
        GssLimits { contexts: 4096, contexts_per_principal: 64 }
    }
}

/// The contexts of a server.
pub struct GssServer {
    mechanism: Arc<dyn Mechanism>,
    users: Arc<dyn Users>,
    environment: Environment,
    contexts: Contexts,
}

/// What becomes of a call.
pub(crate) enum Verdict {
    /// It is to be executed, and its reply to be sealed.
    Execute(Call, Sealed),
    /// It is answered, with this verifier.
    Answer(Reply, OpaqueAuth),
}

/// How to protect the reply to a call.
pub(crate) struct Sealed {
    context: Arc<Context>,
    sequence: u32,
    protection: Protection,
}

impl GssServer {
    /// A server without contexts.
    pub fn new(
        mechanism: Arc<dyn Mechanism>,
        users: Arc<dyn Users>,
        environment: Environment,
        limits: GssLimits,
    ) -> GssServer {
        GssServer { mechanism, users, environment, contexts: Contexts::new(limits) }
    }

    /// How many contexts there are at this moment.
    pub fn contexts(&self) -> usize {
        self.contexts.len()
    }

    /// Checks a call with a credential of RPCSEC_GSS. `header` is the call up to its verifier.
    pub(crate) async fn open(&self, call: Call, header: &[u8], peer: &Peer) -> Verdict {
        let Credential::Other(raw) = &call.credential else { return refused(AuthStatus::BadCredential) };
        let raw = raw.clone();
        let Ok(gss) = xdr::from_bytes::<Header>(raw.body.clone().into_inner()) else {
            return refused(AuthStatus::BadCredential);
        };
        if gss.version != VERSION {
            return refused(AuthStatus::BadCredential);
        }
        match gss.procedure {
            procedure::INIT => self.establish(call, peer).await,
            procedure::DATA | procedure::DESTROY => self.data(call, gss, raw, header, peer),
            // No context takes more than one token (RFC 2203 §5.2.2).
            procedure::CONTINUE_INIT => refused(AuthStatus::GssCredentialProblem),
            _ => refused(AuthStatus::BadCredential),
        }
    }

    /// A client wants a context (RFC 2203 §5.2.2, §5.2.3).
    async fn establish(&self, call: Call, peer: &Peer) -> Verdict {
        if call.procedure != 0 || call.verifier != OpaqueAuth::default() {
            return refused(AuthStatus::BadCredential);
        }
        let mut input = Decoder::new(call.body);
        let token = match input.opaque(MAX_TOKEN) {
            Ok(token) if input.remaining() == 0 => token,
            _ => return Verdict::Answer(Reply::GarbageArguments, OpaqueAuth::default()),
        };
        let now = self.environment.clock.wall().seconds;
        let established = self.mechanism.accept(&token, now).and_then(|accepted| {
            let verifier = verifier(&*accepted.context, WINDOW)?;
            Ok((accepted, verifier))
        });
        let established = match established {
            Ok((accepted, verifier)) => {
                let user = self.users.user(accepted.context.principal()).await;
                user.map(|user| (accepted, verifier, user))
            }
            Err(error) => Err(error),
        };
        let mut out = Encoder::new();
        match established {
            Ok((accepted, verifier, user)) => {
                let principal = accepted.context.principal().to_owned();
                tracing::debug!(peer = %peer.address(), principal, ?user, "security context established");
                let mut handle: Handle = [0; 16];
                self.environment.entropy.fill(&mut handle);
                let context = Context::new(accepted.context, user);
                self.contexts.add(handle, context, now, self.environment.clock.monotonic());
                out.put_opaque_slice(&handle);
                [0, 0, WINDOW].into_iter().for_each(|word| out.put_u32(word));
                out.put_opaque(accepted.token);
                Verdict::Answer(out.into(), verifier)
            }
            Err(error) => {
                let peer = peer.address();
                if let Some(Line { suppressed }) = may_tell(peer.ip(), Complaint::NoContext, &error) {
                    tracing::warn!(%peer, %error, suppressed, "client refused: it gets no security context");
                }
                [0, error.major, 0, 0, 0].into_iter().for_each(|word| out.put_u32(word));
                Verdict::Answer(out.into(), OpaqueAuth::default())
            }
        }
    }

    /// A call under a context, or its end (RFC 2203 §5.3, §5.4).
    fn data(&self, call: Call, gss: Header, raw: OpaqueAuth, header: &[u8], peer: &Peer) -> Verdict {
        let Some(context) = self.contexts.get(&gss.handle, self.environment.clock.monotonic()) else {
            return refused(AuthStatus::GssCredentialProblem);
        };
        let refuse = |status, reason: &str| {
            complain(peer, &context, reason);
            refused(status)
        };
        let verified = call.verifier.flavor == RPCSEC_GSS
            && context.mechanism.verify_mic(&[header], &call.verifier.body).is_ok();
        if !verified {
            return refuse(AuthStatus::GssCredentialProblem, "the checksum of its header is wrong");
        }
        if context.mechanism.expires() <= self.environment.clock.wall().seconds {
            self.contexts.remove(&gss.handle);
            return refuse(AuthStatus::GssContextProblem, "its security context has expired");
        }
        // Before its number is taken: it may come again, and better.
        let Some(protection) = Protection::from_wire(gss.service) else {
            return refuse(AuthStatus::BadCredential, "it wants an unknown protection");
        };
        match context.window.lock().take(gss.sequence) {
            Sequence::Execute => {}
            Sequence::Drop => return Verdict::Answer(Reply::Drop, OpaqueAuth::default()),
            Sequence::Exhausted => {
                return refuse(AuthStatus::GssContextProblem, "its security context has no numbers left");
            }
        }
        let sealed = Sealed { context: context.clone(), sequence: gss.sequence, protection };
        if gss.procedure == procedure::DESTROY {
            if call.procedure != 0 {
                return refuse(
                    AuthStatus::BadCredential,
                    "it destroys its context by another procedure than NULL",
                );
            }
            self.contexts.remove(&gss.handle);
            let (reply, verifier) = sealed.verified(Reply::Success(Vec::new()));
            return Verdict::Answer(reply, verifier);
        }
        let Ok(body) = sealed.open(call.body.clone()) else {
            complain(peer, &context, "its arguments were changed on the way");
            let (reply, verifier) = sealed.verified(Reply::GarbageArguments);
            return Verdict::Answer(reply, verifier);
        };
        let credential = Credential::Gss(Box::new(GssCredential {
            principal: context.principal.clone(),
            user: context.user.clone(),
            protection,
            raw,
        }));
        Verdict::Execute(Call { credential, body, ..call }, sealed)
    }
}

impl Sealed {
    /// The arguments (RFC 2203 §5.3.2).
    fn open(&self, body: Bytes) -> Result<Bytes, GssError> {
        let malformed = |_| GssError::new(GssError::DEFECTIVE_TOKEN, "malformed body");
        let mechanism = &self.context.mechanism;
        let mut input = Decoder::new(body);
        let numbered = match self.protection {
            Protection::None => return Ok(input.rest()),
            Protection::Integrity => {
                let body = input.opaque(usize::MAX).map_err(malformed)?;
                let mic = input.opaque(400).map_err(malformed)?;
                mechanism.verify_mic(&[&body], &mic)?;
                body
            }
            Protection::Privacy => mechanism.unwrap(input.opaque(usize::MAX).map_err(malformed)?)?,
        };
        input.finish().map_err(malformed)?;
        let mut input = Decoder::new(numbered);
        if input.u32().map_err(malformed)? != self.sequence {
            return Err(GssError::new(GssError::BAD_MIC, "the body is that of another call"));
        }
        Ok(input.rest())
    }

    /// The reply to the call, its results protected as the arguments were, and its verifier (RFC 2203 §5.3.3.2).
    pub fn seal(self, reply: Reply) -> (Reply, OpaqueAuth) {
        let reply = match (reply, self.protection) {
            (Reply::Success(results), Protection::Integrity) => self.with_checksum(results),
            (Reply::Success(results), Protection::Privacy) => self.encrypted(results),
            (reply, _) => Ok(reply),
        };
        self.verified(reply.unwrap_or_else(|error| {
            tracing::error!(%error, "results cannot be protected");
            Reply::SystemError
        }))
    }

    fn verified(&self, reply: Reply) -> (Reply, OpaqueAuth) {
        match verifier(&*self.context.mechanism, self.sequence) {
            Ok(verifier) => (reply, verifier),
            Err(error) => {
                tracing::error!(%error, "a reply cannot be verified");
                (Reply::AuthError(AuthStatus::GssContextProblem), OpaqueAuth::default())
            }
        }
    }

    /// `rpc_gss_integ_data`; the results are not copied.
    fn with_checksum(&self, results: Vec<Bytes>) -> Result<Reply, GssError> {
        let number = self.sequence.to_be_bytes();
        let mut pieces: Vec<&[u8]> = vec![&number];
        pieces.extend(results.iter().map(|segment| &segment[..]));
        let mic = self.context.mechanism.mic(&pieces)?;
        let length = pieces.iter().map(|piece| piece.len()).sum();
        let mut out = Encoder::with_capacity(64);
        out.put_length(length);
        out.put_u32(self.sequence);
        results.into_iter().for_each(|segment| out.put_raw(segment));
        out.put_opaque_slice(&mic);
        Ok(out.into())
    }

    /// `rpc_gss_priv_data`.
    fn encrypted(&self, mut results: Vec<Bytes>) -> Result<Reply, GssError> {
        let number = self.sequence.to_be_bytes();
        let mut pieces: Vec<&[u8]> = vec![&number];
        pieces.extend(results.iter().map(|segment| &segment[..]));
        let token = self.context.mechanism.wrap(&pieces)?;
        let mut out = BytesMut::with_capacity(token.len() + 8);
        out.extend_from_slice(&(token.len() as u32).to_be_bytes());
        let padding = token.len().next_multiple_of(4) - token.len();
        let head = out.freeze();
        let token = Bytes::from_owner(InPlaceOf { token, _results: results.pop() });
        Ok(Reply::Success(vec![head, token, Bytes::from_static(&[0; 3]).slice(..padding)]))
    }
}

/// An encrypted reply. Its owner may learn from the end of its last segment that it is written, so it lives as long.
struct InPlaceOf {
    token: Bytes,
    _results: Option<Bytes>,
}

impl AsRef<[u8]> for InPlaceOf {
    fn as_ref(&self) -> &[u8] {
        &self.token
    }
}

fn complain(peer: &Peer, context: &Context, reason: &str) {
    let peer = peer.address();
    if let Some(Line { suppressed }) = may_tell(peer.ip(), Complaint::Call, &reason) {
        tracing::info!(%peer, principal = %context.principal, reason, suppressed, "call refused");
    }
}

fn refused(status: AuthStatus) -> Verdict {
    Verdict::Answer(Reply::AuthError(status), OpaqueAuth::default())
}

/// Proves to the client that the server has the context, by a checksum of a number that it knows.
fn verifier(context: &dyn super::SecurityContext, number: u32) -> Result<OpaqueAuth, GssError> {
    let mic = context.mic(&[&number.to_be_bytes()])?;
    let body = BoundedOpaque::new(mic)
        .map_err(|_| GssError::new(GssError::FAILURE, "a checksum too long for RPC (400 bytes)"))?;
    Ok(OpaqueAuth { flavor: RPCSEC_GSS, body })
}
