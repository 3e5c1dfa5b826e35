//! How stores that are directories lay out objects: files in two levels of directories named after the first and the
//! second character of the object (`/` becomes `+`), so that no directory grows too large and the order is kept.

use futures::stream::{self, StreamExt, TryStreamExt};

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

/// Directories that are listed at the same time.
const LISTED_AT_ONCE: usize = 8;

/// What one directory holds: name, and size or `None` of a directory.
pub(crate) type Listed = Vec<(String, Option<u64>)>;

/// The first `limit` objects with `prefix` after `after`, in their order. `read` tells what is in a directory, whose path begins at
/// the root of the store, which is `""`; nothing, if it is not there. Only the directories that matter are read.
pub(crate) async fn list<F: Future<Output = Result<Listed, E>>, E>(
    read: impl Fn(String) -> F,
    prefix: &str,
    after: &str,
    limit: usize,
) -> Result<Vec<(ObjectName, u64)>, E> {
    let folders = async |path: String, so_far: &str| {
        let directories = read(path).await?.into_iter().filter(|(_, size)| size.is_none());
        let mut found: Vec<String> =
            directories.filter_map(|(file, _)| beginning(so_far, &file, prefix, after)).collect();
        found.sort_unstable();
        Ok(found)
    };
    let mut beginnings = Vec::new();
    for first in folders(String::new(), "").await? {
        beginnings.extend(folders(file_name(&first), &first).await?);
    }
    let files = beginnings.into_iter().map(|beginning| {
        let file = file_name(&beginning);
        let files = read(format!("{}/{}", &file[..1], &file[1..]));
        async move {
            let objects = files.await?.into_iter().filter_map(|(file, size)| {
                let name = object_of(&file).filter(|name| name.as_str().starts_with(&beginning))?;
                Some((name, size?))
            });
            let mut objects: Vec<_> = objects.collect();
            objects.sort_unstable();
            Ok(objects)
        }
    });
    let mut files = stream::iter(files).buffered(LISTED_AT_ONCE);
    let mut found = Vec::new();
    while found.len() < limit {
        let Some(objects) = files.try_next().await? else { break };
        let wanted =
            |(name, _): &(ObjectName, u64)| name.as_str().starts_with(prefix) && name.as_str() > after;
        found.extend(objects.into_iter().filter(wanted));
    }
    found.truncate(limit);
    Ok(found)
}
