use std::fmt::{self, Debug, Display};
use std::time::Duration;

/// What one client asked, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<C, A> {
    /// Who asked; for people only.
    pub client: usize,
    /// What.
    pub call: C,
    /// When, since the beginning of the history: before the request was sent.
    pub called: Duration,
    /// What became of it.
    pub end: End<A>,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End<A> {
    /// The answer came.
    Answered {
        /// When: after it had come.
        at: Duration,
        /// Which.
        answer: A,
    },
    /// No answer came: nobody knows whether it was done.
    Lost {
        /// If it was done, then not later than this; `None` if it may yet be done at any time.
        until: Option<Duration>,
    },
}

impl<C, A> Operation<C, A> {
    /// When it has been done, or is not done any more.
    pub(crate) fn ended(&self) -> Duration {
        match self.end {
            End::Answered { at, .. } => at,
            End::Lost { until } => until.unwrap_or(Duration::MAX),
        }
    }

    pub(crate) fn answer(&self) -> Option<&A> {
        match &self.end {
            End::Answered { answer, .. } => Some(answer),
            End::Lost { .. } => None,
        }
    }
}

/// One line: `[12.034 ms, 13.5 ms] client 3: Write(7) -> Ok`.
impl<C: Debug, A: Debug> Display for Operation<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operation { client, call, called, end } = self;
        let milliseconds = |time: &Duration| time.as_secs_f64() * 1e3;
        write!(f, "[{:.3} ms, ", milliseconds(called))?;
        match end {
            End::Answered { at, answer } => {
                write!(f, "{:.3} ms] client {client}: {call:?} -> {answer:?}", milliseconds(at))
            }
            End::Lost { until: Some(until) } => {
                write!(f, "{:.3} ms] client {client}: {call:?}, no answer", milliseconds(until))
            }
            End::Lost { until: None } => write!(f, "...] client {client}: {call:?}, no answer"),
        }
    }
}
