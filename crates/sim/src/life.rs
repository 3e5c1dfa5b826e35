//! One life of a gateway: what is going to happen ([`plan`]), what clients do and know ([`client`], [`tickets`], [`notices`]), inside or over
//! the network ([`remote`]), how it goes ([`course`]), and how a failure becomes a small one ([`shrink`]).

pub mod account;
pub mod client;
pub mod course;
pub mod notices;
pub mod operation;
pub mod plan;
pub mod remote;
pub mod scene;
pub mod shrink;
pub mod tickets;
