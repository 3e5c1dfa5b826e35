//! Paths of requests as paths below the root of the site.

use bytes::Bytes;
use percent_encoding::percent_decode_str;

/// Bytes of a path at most.
const BYTES: usize = 4096;

/// Directories above a file at most.
const DEPTH: usize = 64;

/// A file of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// Names from the root of the site, separated by `/`; neither empty ones nor `.` nor `..`.
    pub file: Bytes,
    /// Whether the request was for the directory that it is the index of.
    pub of_directory: bool,
}

/// What a directory shows.
const INDEX: &str = "index.html";

impl Path {
    /// The path of a URL; `None` if it makes no sense, or leads out of the site.
    pub fn of_url(path: &str) -> Option<Path> {
        let path = path.strip_prefix('/')?;
        if path.len() > BYTES {
            return None;
        }
        let (directories, of_directory) = match path.strip_suffix('/') {
            Some(directories) => (directories, true),
            None => (path, path.is_empty()),
        };
        let mut names = Vec::new();
        if !directories.is_empty() {
            for name in directories.split('/') {
                // Decoded after the split: an encoded separator is part of a name, and no name has one.
                let name = percent_decode_str(name).collect::<Vec<u8>>();
                let is_name = !matches!(&name[..], b"" | b"." | b"..");
                if !is_name || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
                    return None;
                }
                names.push(name);
            }
        } else if path == "/" {
            return None;
        }
        if of_directory {
            names.push(INDEX.into());
        }
        (names.len() <= DEPTH).then(|| Path { file: names.join(&b'/').into(), of_directory })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str) -> Option<String> {
        Path::of_url(path).map(|path| String::from_utf8(path.file.to_vec()).unwrap())
    }

    #[test]
    fn a_path_is_its_names_decoded() {
        assert_eq!(file("/a/b.png").as_deref(), Some("a/b.png"));
        assert_eq!(file("/with%20space/%C3%A4").as_deref(), Some("with space/ä"));
        assert_eq!(file("/").as_deref(), Some("index.html"));
        assert_eq!(file("/a/").as_deref(), Some("a/index.html"));
        assert_eq!(file("/...").as_deref(), Some("..."), "three dots are a name");
    }

    #[test]
    fn what_leads_out_of_the_site_or_makes_no_sense_is_refused() {
        let refused = [
            "",
            "a",
            "*",
            "//",
            "//a",
            "/a//b",
            "/..",
            "/../a",
            "/a/../../b",
            "/a/..",
            "/./a",
            "/%2e%2e/a",
            "/%2E./a",
            "/a%2Fb",
            "/a%2f..%2f..",
            "/%00",
            "/a%00.html",
            "/a/./",
        ];
        for path in refused {
            assert_eq!(Path::of_url(path), None, "{path}");
        }
        assert_eq!(Path::of_url(&"/a".repeat(DEPTH + 1)), None);
        assert_eq!(Path::of_url(&format!("/{}", "a".repeat(BYTES + 1))), None);
    }

    proptest! {
        #[test]
        fn no_path_has_a_step_that_is_not_a_name(path in "/?[a.%/0-9eEfF2]{0,40}") {
            if let Some(path) = Path::of_url(&path) {
                for name in path.file.split(|byte| *byte == b'/') {
                    prop_assert!(!matches!(name, b"" | b"." | b".."));
                    prop_assert!(!name.contains(&0));
                }
            }
        }
    }
}
