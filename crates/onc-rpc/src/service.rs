use async_trait::async_trait;
use bytes::Bytes;
use xdr::Encoder;

use crate::{AuthStatus, Credential, OpaqueAuth, Peer};

/// Executes the calls of the other side of a connection.
#[async_trait]
pub trait Service: Send + Sync {
    /// Executes one call. `peer` is the caller's connection; it may be kept and called back, also while this call
    /// is executing. Runs to its end even if the connection closes meanwhile. A panic is answered with
    /// [`Reply::SystemError`].
    async fn call(&self, call: Call, peer: &Peer) -> Reply;

    /// How many bytes the reply to `call` may have at most, if more than a few KiB: so much of the [`Budget`] is
    /// free before the call is executed. A good guess will do; what the reply has more is taken all the same.
    ///
    /// [`Budget`]: crate::Budget
    fn reply_bytes(&self, _call: &Call) -> usize {
        0
    }
}

/// A call of the other side (RFC 5531 §9, `call_body`).
#[derive(Clone, Debug)]
pub struct Call {
    /// The caller's number for this call.
    pub xid: u32,
    /// Program number.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure of the program; 0 does nothing by convention.
    pub procedure: u32,
    /// Who calls.
    pub credential: Credential,
    /// Proof for the credential; empty for AUTH_NONE and AUTH_SYS.
    pub verifier: OpaqueAuth,
    /// The encoded arguments. Calls below 16 KiB share their buffer with neighbours: whoever keeps a small piece for
    /// long should copy it.
    pub body: Bytes,
}

/// The answer to a call (RFC 5531 §9, `reply_body`).
#[derive(Debug)]
pub enum Reply {
    /// Executed; the encoded results as consecutive segments, a multiple of 4 bytes in all.
    Success(Vec<Bytes>),
    /// This program is not served.
    ProgramUnavailable,
    /// Other versions of this program are served.
    ProgramMismatch {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// The program has no such procedure.
    ProcedureUnavailable,
    /// The arguments cannot be decoded.
    GarbageArguments,
    /// The call failed for reasons of this machine.
    SystemError,
    /// The credential is refused.
    AuthError(AuthStatus),
    /// The caller speaks another version of RPC; answered by the connection itself.
    RpcMismatch,
    /// No answer at all: the caller will repeat the call.
    Drop,
}

impl From<Encoder> for Reply {
    fn from(results: Encoder) -> Reply {
        Reply::Success(results.into_segments())
    }
}

/// Serves nothing: for clients without callbacks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoService;

#[async_trait]
impl Service for NoService {
    async fn call(&self, _call: Call, _peer: &Peer) -> Reply {
        Reply::ProgramUnavailable
    }
}
