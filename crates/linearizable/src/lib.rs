//! Whether what clients saw can be explained by one order of their operations.
//!
//! Several clients ask one object for things at the same time, and note when they asked, when the answer came, and what it
//! was: a *history* of [`Operation`]s. It is *linearizable* (Herlihy and Wing, 1990) if each operation can be given one instant
//! between call and answer so that all answers are those that the object would give to one client that asks in this order. What
//! the object does for one client is said by a [`Model`]. [`check`] finds such an order, or the first answer that
//! none explains ([`Violation`]).
//!
//! ```
//! use std::time::Duration;
//! use linearizable::{End, Model, Operation, check};
//!
//! struct Register;
//!
//! #[derive(Debug)]
//! enum Call {
//!     Write(u32),
//!     Read,
//! }
//!
//! impl Model for Register {
//!     type State = u32;
//!     type Call = Call;
//!     type Answer = u32;
//!
//!     fn start(&self) -> u32 {
//!         0
//!     }
//!
//!     fn step(&self, state: &u32, call: &Call, answer: Option<&u32>) -> Option<u32> {
//!         let after = match call {
//!             Call::Write(value) => *value,
//!             Call::Read => *state,
//!         };
//!         answer.is_none_or(|answer| *answer == after).then_some(after)
//!     }
//!
//!     fn only_looks(&self, call: &Call, _: &u32) -> bool {
//!         matches!(call, Call::Read)
//!     }
//! }
//!
//! let operation = |client, called, call, answered, answer| Operation {
//!     client,
//!     call,
//!     called: Duration::from_millis(called),
//!     end: End::Answered { at: Duration::from_millis(answered), answer },
//! };
//! // |------ Write(1) ------|
//! //     |-- Read: 1 --|
//! //                           |-- Read: 0 --|
//! let mut history = vec![operation(0, 0, Call::Write(1), 6, 1), operation(1, 1, Call::Read, 4, 1)];
//! assert!(check(&Register, &history).is_ok());
//! history.push(operation(1, 7, Call::Read, 9, 0));
//! assert!(check(&Register, &history).is_err());
//! ```
//!
//! Objects that have nothing to do with each other are checked one by one: all of a history is linearizable if that of each
//! object is, and shorter histories are decided sooner.
//!
//! The search is that of Wing and Gong with the memory of Lowe (*Testing for linearizability*, 2017): where it has been it does
//! not go again. A place is what is done already, and the state after that. Operations are numbered by their ends, so that what is done is a
//! number, up to which all are, and the few behind it that were under way at that time. What only looks is placed as soon as its answer
//! is right, as it can do no harm there; what is tried first is what explains the answer that came next. In the
//! worst case it is exponential in the operations at the same time that change something and whose order nobody sees; it gives
//! up after a million places ([`Failure::Undecided`]).
//!
//! There is no clock in this crate: who records a history takes the times from one clock for all clients, before the
//! call and after the answer. Equal times are taken for the same time, which is never wrong.

#![deny(missing_docs)]

mod failure;
mod history;
mod search;

use std::fmt::Debug;
use std::hash::Hash;

pub use failure::{Failure, Violation};
pub use history::{End, Operation};
pub use search::{Linearization, check};

/// What an object does for one client that asks one thing after the other.
pub trait Model {
    /// All of the object that answers depend on. There is a copy for each place that the search has been to: keep it small.
    type State: Clone + Eq + Hash + Debug;
    /// What may be asked.
    type Call: Debug;
    /// What may be answered.
    type Answer: Debug;

    /// Before anybody has asked anything.
    fn start(&self) -> Self::State;

    /// The state after the call, if the object in this state may answer so; `None` if it may not. No `answer` is one that
    /// nobody got: any is right, and the state has to follow from the call.
    fn step(
        &self,
        state: &Self::State,
        call: &Self::Call,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;

    /// Whether a call that was answered so changes nothing, in whatever state that answer is right: a read, or what has failed. A
    /// write does not count, for there are states that it changes.
    fn only_looks(&self, call: &Self::Call, answer: &Self::Answer) -> bool;
}
