use std::io;

use xdr::{Decode, Encode};

/// Why a call has no result, or why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The connection ended before the reply came; whether the call was executed is unknown.
    #[error("the connection to the peer is closed; connect again and repeat the call if it may be repeated")]
    Closed,
    /// No reply came in time; whether the call was executed is unknown.
    #[error("the peer did not answer in time")]
    TimedOut,
    /// The stream failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The other side sent a record above [`Limits::record_bytes`](crate::Limits::record_bytes).
    #[error("the peer sent a record of at least {bytes} bytes, the limit is {limit}")]
    RecordTooLarge {
        /// Size as far as it was announced.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The other side cut a record into more than [`Limits::fragments`](crate::Limits::fragments) pieces.
    #[error("the peer cut a record into more than {limit} fragments")]
    TooManyFragments {
        /// The limit.
        limit: usize,
    },
    /// The other side left a record unfinished, or what it asked for unread, for
    /// [`Limits::patience`](crate::Limits::patience).
    #[error("the peer has neither sent nor taken anything for too long in the middle of a message")]
    Stalled,
    /// The [`Budget`](crate::Budget) had no room for the rest of a request in time.
    #[error("no memory for the rest of a request of the peer; other requests and unread replies hold it all")]
    NoMemory,
    /// The other side does not agree to TLS, or answers nothing that makes sense; nothing else was sent to it.
    #[error("the server offers no TLS; nothing was sent to it in the clear")]
    TlsUnavailable,
    /// The handshake failed: wrong certificates, another version or protocol, or an end before its end.
    #[error("the TLS handshake failed: {0}")]
    TlsHandshake(#[source] io::Error),
    /// More came in the clear behind the request for TLS: who put it there is not known.
    #[error("data in the clear follows the request for TLS")]
    TlsInjection,
    /// A record is neither a call nor a reply (RFC 5531 §9).
    #[error("the peer sent a record that is no RPC message: {0}")]
    Malformed(#[from] xdr::DecodeError),
    /// A call of ours is longer than a fragment can be (2^31 - 1 bytes).
    #[error("a message of {bytes} bytes does not fit one fragment")]
    MessageTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The other side does not serve this program.
    #[error("the peer does not serve this program")]
    ProgramUnavailable,
    /// The other side serves other versions of this program.
    #[error("the peer serves versions {low} to {high} of this program")]
    ProgramMismatch {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// The program has no such procedure.
    #[error("the peer's program has no such procedure")]
    ProcedureUnavailable,
    /// The other side could not decode the arguments.
    #[error("the peer could not decode the arguments")]
    GarbageArguments,
    /// The other side failed, for instance for want of memory.
    #[error("the peer failed to execute the call")]
    SystemError,
    /// The other side speaks another version of RPC.
    #[error("the peer speaks versions {low} to {high} of ONC RPC")]
    RpcMismatch {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// The other side refuses the credential.
    #[error("the peer refuses the credential: {0:?}")]
    AuthError(AuthStatus),
}

/// Why a credential is refused (RFC 5531 §9, `auth_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[repr(u32)]
pub enum AuthStatus {
    /// No error; does not occur in a refusal.
    Ok = 0,
    /// The credential is malformed.
    BadCredential = 1,
    /// The client must begin a new session.
    RejectedCredential = 2,
    /// The verifier is malformed.
    BadVerifier = 3,
    /// The verifier is expired or replayed.
    RejectedVerifier = 4,
    /// Too weak for this program or file system.
    TooWeak = 5,
    /// Reserved for the client's own use: the reply's verifier is wrong.
    InvalidResponse = 6,
    /// Some other reason.
    Failed = 7,
    /// RPCSEC_GSS: no credential for this user.
    GssCredentialProblem = 13,
    /// RPCSEC_GSS: the context is unknown or has ended.
    GssContextProblem = 14,
    /// Any other value.
    #[xdr(other)]
    Other(u32),
}
