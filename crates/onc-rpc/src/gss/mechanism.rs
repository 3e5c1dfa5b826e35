use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

/// The server's half of a security mechanism (RFC 2743), one whose contexts are established by one token and its answer.
pub trait Mechanism: Send + Sync {
    /// Checks the token of a client that wants a context. `now` is in seconds since 1970.
    fn accept(&self, token: &[u8], now: i64) -> Result<Accepted, GssError>;
}

/// A context that has been established.
pub struct Accepted {
    /// To be used for its calls.
    pub context: Box<dyn SecurityContext>,
    /// The answer for the client; may be empty.
    pub token: Bytes,
}

/// Protects the messages of one context. Messages are given in pieces, which are taken as one.
pub trait SecurityContext: Send + Sync {
    /// Who the client has proved to be, such as `anna@EXAMPLE.ORG`.
    fn principal(&self) -> &str;

    /// When the proof ceases to hold, in seconds since 1970.
    fn expires(&self) -> i64;

    /// A checksum of a message to the client.
    fn mic(&self, message: &[&[u8]]) -> Result<Bytes, GssError>;

    /// Checks that of a message from the client.
    fn verify_mic(&self, message: &[&[u8]], mic: &[u8]) -> Result<(), GssError>;

    /// Encrypts a message to the client.
    fn wrap(&self, message: &[&[u8]]) -> Result<Bytes, GssError>;

    /// Decrypts and checks a message from the client; one that is not encrypted is refused.
    fn unwrap(&self, token: Bytes) -> Result<Bytes, GssError>;
}

/// What a mechanism refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct GssError {
    /// The routine error of RFC 2743 §1.2.1.1 as RFC 2744 §3.9.1 numbers it.
    pub major: u32,
    /// For the log: what was wrong.
    pub reason: String,
}

impl GssError {
    /// GSS_S_BAD_MECH: not our mechanism.
    pub const BAD_MECHANISM: u32 = 1 << 16;
    /// GSS_S_BAD_SIG: a checksum is wrong.
    pub const BAD_MIC: u32 = 6 << 16;
    /// GSS_S_NO_CRED: the server has no key for this.
    pub const NO_CREDENTIAL: u32 = 7 << 16;
    /// GSS_S_DEFECTIVE_TOKEN: malformed, or encrypted with another key.
    pub const DEFECTIVE_TOKEN: u32 = 9 << 16;
    /// GSS_S_DEFECTIVE_CREDENTIAL: what the client shows is not acceptable.
    pub const DEFECTIVE_CREDENTIAL: u32 = 10 << 16;
    /// GSS_S_CREDENTIALS_EXPIRED.
    pub const EXPIRED: u32 = 11 << 16;
    /// GSS_S_FAILURE: anything else.
    pub const FAILURE: u32 = 13 << 16;
    /// GSS_S_DUPLICATE_TOKEN: seen before.
    pub const DUPLICATE: u32 = 2;

    /// With a reason for the log.
    pub fn new(major: u32, reason: impl Into<String>) -> GssError {
        GssError { major, reason: reason.into() }
    }
}

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixUser {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups.
    pub groups: Arc<[u32]>,
}

/// Says who principals are here.
#[async_trait]
pub trait Users: Send + Sync {
    /// Asked once for each context, which lives for hours: `None` is nobody in particular, for good. Who cannot say that now
    /// fails, and the client gets no context.
    async fn user(&self, principal: &str) -> Result<Option<UnixUser>, GssError>;
}
