//! Derive macros for the xdr crate.
