//! Tools for files, named after those that everybody knows: on any NFSv4.1 server and on this machine alike.
//!
//! They do what GNU's do, with the same words and exit statuses, but in vectors: hundreds of files in one round trip.

mod cat;
mod cp;
pub mod date;
mod destination;
mod exclude;
mod find;
mod ln;
mod ls;
mod mkdir;
mod mode;
mod mv;
mod pattern;
mod people;
mod place;
mod quote;
mod removing;
mod rm;
mod session;
mod size;
mod stat;
mod sync;
mod tar;
mod tree_report;

pub use self::sync::Sync;
pub use self::tar::{Tar, Untar};
/// A time in seconds since 1970, in the time zone of this machine.
pub fn date_of(time: f64) -> String {
    let seconds = time.floor();
    let nanoseconds = ((time - seconds) * 1e9) as u32;
    date::full(vector_client::Time { seconds: seconds as i64, nanoseconds })
}

pub use cat::Cat;
pub use cp::Cp;
pub use find::Find;
pub use ln::Ln;
pub use ls::Ls;
pub use mkdir::Mkdir;
pub use mv::Mv;
pub use place::Url;
pub use rm::Rm;
pub use stat::Stat;
