/// What a scanner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing was found, in all of it.
    Clean,
    /// What was found, as the scanner calls it.
    Infected(String),
}

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// Nobody answers there.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection ended before the answer.
    #[error("the connection ended: {0}")]
    Lost(String),
    /// No verdict in time.
    #[error("no verdict within {0:?}")]
    TimedOut(std::time::Duration),
    /// An answer that is none of the protocol, or contradicts what was sent.
    #[error("a wrong answer: {0}")]
    Malformed(String),
    /// The scanner says that it cannot scan this.
    #[error("the scanner refuses: {0}")]
    Refused(String),
    /// The content cannot be read.
    #[error("the content cannot be read: {0}")]
    Content(String),
}

impl ScanError {
    /// Whether it says something of the scanner, and not of what was to be scanned.
    pub fn is_of_scanner(&self) -> bool {
        !matches!(self, ScanError::Refused(_) | ScanError::Content(_))
    }
}

/// Characters of a text of a scanner that are kept.
const LONGEST: usize = 200;

/// A text of a scanner, for people: short, and no harm to a terminal.
pub(crate) fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let plain = |char: char| if char.is_control() { '.' } else { char };
    text.trim().chars().map(plain).take(LONGEST).collect()
}
