use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

/// The longest file of credentials that is read.
const MAX: u64 = 64 << 10;

/// The credentials of one cloud, from a file of its own, which only its owner may read.
///
/// The file is what the provider itself gives (a service account's JSON, a private key) or lines of `NAME = VALUE`,
/// with the provider's names in any case; empty lines, `[sections]` and what begins with `#` do not count. Its
/// content is never printed and wiped from memory at the end.
#[derive(Clone)]
pub struct Credentials {
    path: PathBuf,
    text: Zeroizing<String>,
}

/// A file of credentials that cannot be used. Never tells what is in it.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCredentials {
    /// It cannot be read.
    #[error("the credentials in {0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    /// Others may read it.
    #[error("the credentials in {0} are open to others (mode {1:03o}); close them: chmod 600 {0}")]
    Open(PathBuf, u32),
    /// It is no text, or too long.
    #[error("{0} holds no credentials: it is longer than 64 KiB, or no text")]
    NoText(PathBuf),
    /// A line is not understood.
    #[error("{path}, line {line}: {cause}; expected NAME = VALUE with the names {expected}")]
    Line {
        /// The file.
        path: PathBuf,
        /// From one.
        line: usize,
        /// What is wrong, without the value.
        cause: &'static str,
        /// The names that this kind of cloud knows.
        expected: String,
    },
    /// Something is missing.
    #[error("the credentials in {0} lack {1}")]
    Lacking(PathBuf, String),
}

/// The values of a file of lines.
pub(crate) struct Values<'a> {
    path: &'a Path,
    found: Vec<(&'static str, &'a str)>,
}

impl Credentials {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Credentials, InvalidCredentials> {
        let unreadable = |error| InvalidCredentials::Unreadable(path.to_owned(), error);
        // A pipe without a writer must not hold up the start.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
        let meta = file.metadata().map_err(unreadable)?;
        if !meta.is_file() {
            return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "this is no file")));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(InvalidCredentials::Open(path.to_owned(), meta.mode() & 0o777));
        }
        let mut text = Zeroizing::new(String::with_capacity(MAX as usize + 1));
        match file.take(MAX + 1).read_to_string(&mut text) {
            Ok(length) if length as u64 <= MAX => Ok(Credentials { path: path.to_owned(), text }),
            Ok(_) => Err(InvalidCredentials::NoText(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(InvalidCredentials::NoText(path.to_owned()))
            }
            Err(error) => Err(unreadable(error)),
        }
    }

    /// The values of a file, or without one the variables of these names in capitals.
    pub(crate) fn or_environment(
        credentials: Option<&Credentials>,
        known: &[&'static str],
    ) -> Result<BTreeMap<&'static str, Zeroizing<String>>, InvalidCredentials> {
        let value = |name: &&'static str| match credentials {
            None => Ok(std::env::var(name.to_ascii_uppercase()).ok().filter(|value| !value.is_empty())),
            Some(credentials) => Ok(credentials.values(known)?.get(name).map(str::to_owned)),
        };
        let mut found = BTreeMap::new();
        for name in known {
            if let Some(value) = value(name)? {
                found.insert(*name, Zeroizing::new(value));
            }
        }
        Ok(found)
    }

    /// Where they are from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file as it is.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_json(&self) -> bool {
        self.text.trim_start().starts_with('{')
    }

    /// The lines of the file; all names must be among `known`, which are in small letters.
    pub(crate) fn values(&self, known: &[&'static str]) -> Result<Values<'_>, InvalidCredentials> {
        let mut found: Vec<(&'static str, &str)> = Vec::new();
        for (at, line) in self.text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || (line.starts_with('[') && line.ends_with(']')) {
                continue;
            }
            let wrong = |cause| InvalidCredentials::Line {
                path: self.path.clone(),
                line: at + 1,
                cause,
                expected: known.join(", "),
            };
            let (name, value) = line.split_once('=').ok_or_else(|| wrong("there is no '='"))?;
            let name = name.trim().trim_start_matches("export ").trim();
            let name = known.iter().find(|known| known.eq_ignore_ascii_case(name));
            let name = *name.ok_or_else(|| wrong("this name is not known"))?;
            if found.iter().any(|(other, _)| *other == name) {
                return Err(wrong("this name is there twice"));
            }
            let value = value.trim();
            let quoted = ['"', '\''].into_iter().find_map(|q| value.strip_prefix(q)?.strip_suffix(q));
            found.push((name, quoted.unwrap_or(value)));
        }
        Ok(Values { path: &self.path, found })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.path.display())
    }
}

impl Values<'_> {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.found.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.is_empty())
    }

    /// Refuses a file without one of `names`.
    pub(crate) fn require(&self, names: &[&str]) -> Result<(), InvalidCredentials> {
        match names.iter().find(|name| !self.has(name)) {
            Some(missing) => Err(self.lacking(missing)),
            None => Ok(()),
        }
    }

    pub(crate) fn lacking(&self, what: &str) -> InvalidCredentials {
        InvalidCredentials::Lacking(self.path.to_owned(), what.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(text: &[u8], mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
        file
    }

    const KNOWN: [&str; 2] = ["aws_access_key_id", "aws_secret_access_key"];

    #[test]
    fn variables_and_the_sections_of_the_provider_are_read_and_not_printed() {
        for text in [
            "AWS_ACCESS_KEY_ID=public\n\n# note\nexport AWS_SECRET_ACCESS_KEY='hid=den'\n",
            "[default]\naws_access_key_id = public\naws_secret_access_key = hid=den\n",
        ] {
            let file = file(text.as_bytes(), 0o600);
            let credentials = Credentials::read(file.path()).unwrap();
            let values = credentials.values(&KNOWN).unwrap();
            assert_eq!(values.get("aws_access_key_id"), Some("public"));
            assert_eq!(values.get("aws_secret_access_key"), Some("hid=den"));
            assert!(!format!("{credentials:?}").contains("hid="));
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_what_to_do_and_without_its_content() {
        let refusal = |text: &[u8], mode| {
            let file = file(text, mode);
            let values = Credentials::read(file.path())
                .and_then(|credentials| credentials.values(&KNOWN)?.require(&KNOWN));
            values.unwrap_err().to_string()
        };
        for (text, mode, expected) in [
            (&b"AWS_ACCESS_KEY_ID=hidden"[..], 0o640, "chmod 600"),
            (b"AWS_ACCESS_KEY_ID=hidden", 0o604, "mode 604"),
            (b"hidden", 0o600, "line 1: there is no '='"),
            (
                b"\nAWS_SECRET = hidden",
                0o600,
                "line 2: this name is not known; expected NAME = VALUE with the names aws_access_key_id",
            ),
            (b"AWS_ACCESS_KEY_ID=hidden\nAWS_ACCESS_KEY_ID=hidden", 0o600, "twice"),
            (b"AWS_ACCESS_KEY_ID=hidden", 0o600, "lack aws_secret_access_key"),
            (b"AWS_ACCESS_KEY_ID=", 0o600, "lack aws_access_key_id"),
            (b"\xff\xfe", 0o600, "no text"),
            (&vec![b'#'; 70_000], 0o600, "longer than 64 KiB"),
        ] {
            let refusal = refusal(text, mode);
            assert!(refusal.contains(expected) && !refusal.contains("hidden"), "{refusal}");
        }
        assert!(Credentials::read(Path::new("/dev/null")).unwrap_err().to_string().contains("no file"));
        assert!(Credentials::read(Path::new("/nowhere/x")).unwrap_err().to_string().contains("/nowhere/x"));
    }
}
