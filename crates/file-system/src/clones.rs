use crate::{Attributes, Authority, FileId, FsError, FsResult};

/// An end of a clone: where in which file, and how the caller may use that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub offset: u64,
    /// How much checking the file needs.
    pub authority: Authority,
}

/// How many bytes a clone of `wanted` bytes (0: up to the end of the source) is about, for implementations of
/// [`crate::Transaction::clone_range`] that share units of `unit` bytes (a power of two).
///
/// # Errors
/// [`FsError::InvalidArgument`] for a range beyond the end of the source, one that is not made of whole units, and one that
/// overlaps its target. It may end inside a unit where the source ends and the target does not go on.
pub fn cloned_length(
    unit: u64,
    (from, source): (&Position, &Attributes),
    (to, target): (&Position, &Attributes),
    wanted: u64,
) -> FsResult<u64> {
    let rest = source.size.checked_sub(from.offset).ok_or(FsError::InvalidArgument)?;
    let length = if wanted == 0 { rest } else { wanted };
    let end = to.offset.checked_add(length).ok_or(FsError::TooLarge)?;
    let is_whole = length.is_multiple_of(unit) || (length == rest && end >= target.size);
    let is_aligned = from.offset.is_multiple_of(unit) && to.offset.is_multiple_of(unit);
    let overlaps = from.file == to.file && from.offset.abs_diff(to.offset) < length;
    if length > rest || !is_whole || !is_aligned || overlaps {
        return Err(FsError::InvalidArgument);
    }
    Ok(length)
}
