//! A small NFSv4.1 client: one session, slots and compounds.
