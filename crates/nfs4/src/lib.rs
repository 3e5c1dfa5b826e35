//! The wire types of NFSv4.1, NFSv4.2 and extended attributes (RFC 8881, RFC 7862, RFC 8276).
