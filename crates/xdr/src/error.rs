/// Why some bytes are not the XDR form of what was expected. `position` counts bytes from the start of the
/// decoder's input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The input ends inside a value.
    #[error("at byte {position}: {needed} bytes needed, {remaining} left; the message is cut short")]
    UnexpectedEnd {
        /// Where the value starts.
        position: usize,
        /// Bytes it needs, padding included.
        needed: usize,
        /// Bytes that are left.
        remaining: usize,
    },
    /// A length is above what the type allows, or above what the rest of the input can hold.
    #[error("at byte {position}: length {length} is above the limit of {limit}")]
    TooLong {
        /// Where the length stands.
        position: usize,
        /// The length: bytes of an opaque, elements of an array.
        length: usize,
        /// The largest length that would have been accepted here.
        limit: usize,
    },
    /// A boolean is neither 0 nor 1.
    #[error("at byte {position}: {value} is not a boolean (RFC 4506 §4.4)")]
    InvalidBool {
        /// Where the boolean stands.
        position: usize,
        /// The word found there.
        value: u32,
    },
    /// An enumeration or union has no arm for this value.
    #[error("at byte {position}: {value} is not a value of {type_name}")]
    UnknownDiscriminant {
        /// Where the discriminant stands.
        position: usize,
        /// The Rust name of the enumeration or union.
        type_name: &'static str,
        /// The word found there.
        value: u32,
    },
    /// A `String` is not UTF-8.
    #[error("at byte {position}: the string is not UTF-8")]
    InvalidUtf8 {
        /// Where the string's length stands.
        position: usize,
    },
    /// Boxes and arrays are nested too deep for a stack.
    #[error("at byte {position}: nested deeper than {limit} levels")]
    TooDeep {
        /// Where the level that is one too many starts.
        position: usize,
        /// The limit, [`MAX_DEPTH`](crate::MAX_DEPTH).
        limit: u32,
    },
    /// An array element takes no bytes, so its count could not be checked against the input.
    #[error("at byte {position}: the elements of this array take no bytes")]
    EmptyElement {
        /// Where the element stands.
        position: usize,
    },
    /// The value ends before the input does.
    #[error("at byte {position}: {count} bytes follow the end of the value")]
    TrailingBytes {
        /// Where the value ended.
        position: usize,
        /// Bytes that follow.
        count: usize,
    },
}
