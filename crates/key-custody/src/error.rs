use seal::KeyFileError;

/// Why words or shares are no key.
#[derive(Debug, thiserror::Error)]
pub enum CustodyError {
    /// A word that is not in the list.
    #[error("word {number} ({word:?}) is not in the list of words; {}", near(.nearest))]
    UnknownWord {
        /// Which, from 1.
        number: usize,
        /// What is written there.
        word: String,
        /// What it may have been.
        nearest: Option<&'static str>,
    },
    /// So many words are nothing.
    #[error("{found} words are no key and no share of one: some are missing, or too many")]
    WordCount {
        /// How many there are.
        found: usize,
    },
    /// All words are in the list, and yet they do not fit together.
    #[error(
        "the words do not fit together: one of them is wrong, or two are exchanged; compare them with the paper"
    )]
    WrongWords,
    /// Words of a share where a key was expected, or the other way round.
    #[error("these are the words of {found}, not of {expected}")]
    OtherKind {
        /// What they are.
        found: &'static str,
        /// What they should be.
        expected: &'static str,
    },
    /// Not the text of a share, or damaged.
    #[error("not a share of a key: {0}")]
    Malformed(String),
    /// A share that was mistyped or damaged.
    #[error(
        "share {number} of set {set} is damaged: its checksum does not match; use another copy of it, or another share"
    )]
    Damaged {
        /// Its set.
        set: String,
        /// Its number.
        number: String,
    },
    /// No such split.
    #[error(
        "{needed} of {total} shares: both have to be from 2 to {max}, and the first must not be larger than the second"
    )]
    Impossible {
        /// How many are to be enough.
        needed: usize,
        /// How many there are to be.
        total: usize,
        /// The largest number.
        max: usize,
    },
    /// More are needed.
    #[error("{needed} shares of set {set} are needed, and there are {found} (numbers {numbers})")]
    TooFew {
        /// Their set.
        set: String,
        /// How many are needed.
        needed: usize,
        /// How many different ones there are.
        found: usize,
        /// Their numbers.
        numbers: String,
    },
    /// Shares of several keys, or of several splits of one.
    #[error("these shares do not belong together: {0}")]
    Mixed(String),
    /// Two shares say that they are the same one, and differ.
    #[error("there are two different shares {number} of set {set}; one of them is wrong")]
    Conflicting {
        /// Their set.
        set: String,
        /// Their number.
        number: u8,
    },
    /// They look right, and what they make is no key.
    #[error("what the shares of set {set} make is not the key that was split: one of them is wrong")]
    Unproved {
        /// Their set.
        set: String,
    },
    /// What is in them is no key file.
    #[error(transparent)]
    Key(#[from] KeyFileError),
}

fn near(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(|| "look at it again".into(), |word| format!("is it {word:?}?"))
}
