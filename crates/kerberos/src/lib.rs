//! The server's half of Kerberos 5 as a security mechanism: tickets in, contexts out.
//!
//! [`Kerberos`] is a [`onc_rpc::gss::Mechanism`]: it has a service's [`Keytab`], takes the token by which a client
//! presents its ticket (RFC 4121 §4.1, RFC 4120 §3.2), and gives a context that signs and encrypts (RFC 4121 §4.2). It
//! needs neither a Kerberos library nor `/etc/krb5.conf`, and never talks to a KDC: all that a service has to know is
//! in the ticket and in its keytab (decision 0006).
//!
//! * AES only, with SHA-1 (RFC 3962) or SHA-2 (RFC 8009); DES and RC4 are refused, as are clients that ask for DCE style.
//! * A ticket of another realm is taken if the KDC has checked its path.
//! * An authenticator is taken once: what has been seen within the time that clocks may differ by is refused.
//! * Every context has a key of its own, made here, so that a replayed token would be of no use either.

#![deny(missing_docs)]

mod authenticator;
mod context;
mod der;
mod encryption;
mod fold;
mod keytab;
mod mechanism;
mod principal;
mod replay;
mod ticket;

pub use keytab::{BadKeytab, Keytab};
pub use mechanism::Kerberos;
pub use principal::Principal;
