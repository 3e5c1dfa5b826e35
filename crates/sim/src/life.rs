//! One life of a gateway: what is going to happen ([`plan`]), what clients do and know ([`client`], [`tickets`]), how it
//! goes ([`course`]), and how a failure becomes a small one ([`shrink`]).

pub mod account;
pub mod client;
pub mod course;
pub mod operation;
pub mod plan;
pub mod scene;
pub mod shrink;
pub mod tickets;
