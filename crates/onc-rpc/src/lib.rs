//! ONC RPC version 2 (RFC 5531) over TCP, both directions on one connection.
