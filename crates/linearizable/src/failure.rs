use std::fmt::{self, Display};

/// Why a history is not known to be linearizable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It is not.
    Violation(Violation),
    /// There are too many orders to look at. Fewer clients at once, objects of their own, or more reads between the changes
    /// help.
    Undecided {
        /// So many places were looked at.
        places: usize,
    },
}

/// The first answer, by the times they came, that no order explains: all places were looked at. The answers that came earlier can be
/// explained, and [`order`](Self::order) is one way to do that; it may have operations in it whose answers came later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// An order of what came before, as positions in the history.
    pub order: Vec<usize>,
    /// The operation that cannot be placed then, nor anywhere before.
    pub stuck: usize,
    /// What was under way when its answer came, itself excepted.
    pub beside: Vec<usize>,
    /// States that the object may have been in then, as text; not all if they are many.
    pub states: Vec<String>,
    /// The same for people.
    pub(crate) text: String,
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Violation(violation) => f.write_str(&violation.text),
            Failure::Undecided { places } => {
                write!(f, "not decided whether the history is linearizable after {places} places")
            }
        }
    }
}

impl std::error::Error for Failure {}
