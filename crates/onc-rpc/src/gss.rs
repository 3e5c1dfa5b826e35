//! RPCSEC_GSS (RFC 2203): calls that prove by a security mechanism, such as Kerberos, who makes them.
//!
//! A client establishes a context with a token of the mechanism (§5.2.2). From then on every call names the context,
//! carries a number that is used once, and a checksum of its header; its arguments and results go as they are, with a
//! checksum, or encrypted ([`Protection`]). [`GssServer`] keeps the contexts of a server, for all its connections. What
//! tokens look like is the matter of a [`Mechanism`]; who of this machine's users a principal is, that of [`Users`].
//!
//! Contexts are bounded in all and for each principal; the one not used for longest goes first, and its client makes a
//! new one. Channel bindings (version 2, RFC 5403) are not offered.

mod context;
mod credential;
mod mechanism;
mod server;
mod window;

pub(crate) use credential::RPCSEC_GSS;
pub use credential::{GssCredential, Protection};
pub use mechanism::{Accepted, GssError, Mechanism, SecurityContext, UnixUser, Users};
pub use server::{GssLimits, GssServer};
pub(crate) use server::{Sealed, Verdict};
