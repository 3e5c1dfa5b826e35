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
/// the root, the `..` that would leave it.
pub(crate) fn parts(path: &Bytes, from_root: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut depth = 0_usize;
    for step in path.split(|byte| *byte == b'/') {
        match step {
            b"" | b"." => {}
            b".." if from_root && depth == 0 => {}
            b".." => {
                depth = depth.saturating_sub(1);
                parts.push(Part::Parent);
            }
            name => {
                depth += 1;
                parts.push(Part::Name(path.slice_ref(name)));
            }
        }
    }
    parts
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
        assert_eq!(again("a/../../b"), "a/../b");
        assert_eq!(parts(&Bytes::from("../a"), false).len(), 2);
    }
}
