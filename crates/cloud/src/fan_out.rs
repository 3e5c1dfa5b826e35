//! How stores that are directories lay out objects: files in two levels of directories named after the first and the
//! second character of the object (`/` becomes `+`), so that no directory grows too large and the order is kept.

use crate::ObjectName;

/// Where files are written before they get their names. Its absence tells that the store is not mounted.
pub(crate) const INCOMING: &str = ".kurma-incoming";

/// The directories of an object and its file, each below the one before.
pub(crate) fn steps(name: &ObjectName) -> [String; 3] {
    let file = file_name(name.as_str());
    [file[..1].to_owned(), file[1..2].to_owned(), file]
}

/// A part of a name as a part of a file's name.
pub(crate) fn file_name(part: &str) -> String {
    part.replace('/', "+")
}

/// The object that a file is.
pub(crate) fn object_of(file: &str) -> Option<ObjectName> {
    ObjectName::new(&file.replace('+', "/")).ok()
}

/// The beginning of names that a directory stands for, given the beginning that its parent stands for; `None` unless it
/// may hold names with `prefix` after `after`.
pub(crate) fn beginning(so_far: &str, file: &str, prefix: &str, after: &str) -> Option<String> {
    if file.len() != 1 || file == "." {
        return None;
    }
    let beginning = format!("{so_far}{}", file.replace('+', "/"));
    let shared = beginning.len().min(prefix.len());
    let may_match = beginning.as_bytes()[..shared] == prefix.as_bytes()[..shared];
    let may_follow = beginning.as_bytes() >= &after.as_bytes()[..after.len().min(beginning.len())];
    (may_match && may_follow).then_some(beginning)
}
