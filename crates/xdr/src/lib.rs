//! External Data Representation (RFC 4506) with zero-copy payloads and hard limits.
