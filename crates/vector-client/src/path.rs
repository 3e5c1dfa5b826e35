//! Names on the way to a file.

use bytes::Bytes;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Down, to this name.
    Name(Bytes),
    /// Up: `..`.
    Parent,
}

/// The steps of a path, outermost first. Empty steps and `.` lead nowhere and are left out, and so are, in a path from
/// the root, the `..` it begins with.
pub(crate) fn parts(path: &Bytes, from_root: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    for step in path.split(|byte| *byte == b'/') {
        match step {
            b"" | b"." => {}
            b".." if from_root && parts.is_empty() => {}
            b".." => parts.push(Part::Parent),
            name => parts.push(Part::Name(path.slice_ref(name))),
        }
    }
    parts
}

/// A path from the root without all up to the first `..` that leads above it, if there is one; to be used when there are no
/// symbolic links before that: what they lead to may be deeper than they are.
pub(crate) fn kept_in_root(path: &Bytes) -> Option<Bytes> {
    let parts = parts(path, true);
    let mut depth = 0_usize;
    let above = parts.iter().position(|part| match part {
        Part::Parent if depth == 0 => true,
        Part::Parent => {
            depth -= 1;
            false
        }
        Part::Name(_) => {
            depth += 1;
            false
        }
    });
    Some(join(&parts[above? + 1..]))
}

/// The path with these steps.
pub(crate) fn join(parts: &[Part]) -> Bytes {
    let names = parts.iter().map(|part| match part {
        Part::Name(name) => name,
        Part::Parent => &b".."[..],
    });
    names.collect::<Vec<_>>().join(&b'/').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(path: &str) -> String {
        let path = join(&parts(&Bytes::copy_from_slice(path.as_bytes()), true));
        String::from_utf8(path.to_vec()).unwrap()
    }

    #[test]
    fn a_path_is_its_steps() {
        assert_eq!(again("/a//b/./c/"), "a/b/c");
        assert_eq!(again("a/../b"), "a/../b");
        assert_eq!(again("/../../a"), "a");
        assert_eq!(again(""), "");
        assert_eq!(again("."), "");
        assert_eq!(again("a/../../b"), "a/../../b", "a may be a link to where it is deep");
        assert_eq!(parts(&Bytes::from("../a"), false).len(), 2);
    }

    #[test]
    fn above_the_root_is_the_root() {
        let kept = |path: &'static str| kept_in_root(&Bytes::from(path));
        assert_eq!(kept("a/../../b"), Some("b".into()));
        assert_eq!(kept("a/../../../b"), Some("../b".into()));
        assert_eq!(kept("../../b/.."), None);
        assert_eq!(kept("a/b/../.."), None);
    }
}
