use std::fmt;

use bytes::Bytes;
use nfs4::FileHandle;

use crate::Descriptor;

/// Where a path begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// The root of the [`Client`](crate::Client).
    Root,
    /// The same, and from this byte of the path on no symbolic link is followed, but at its end. Local files only, which have no handles.
    RootWithoutLinks(u32),
    /// An open file or directory.
    Descriptor(Descriptor),
    /// A filehandle that the server gave ([`AttributeSet::HANDLE`](crate::AttributeSet::HANDLE)); NFS only.
    Handle(FileHandle),
}

/// Which file: a path, an open file, or a path from an open directory. The one type for that in every call.
///
/// Names are bytes, separated by `/`. `..` is the parent of where the names before it led, as everywhere in POSIX.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    pub(crate) base: Base,
    pub(crate) path: Bytes,
}

impl Target {
    /// This path from `base`; empty for `base` itself.
    pub fn at(base: impl Into<Base>, path: impl Into<Bytes>) -> Target {
        Target { base: base.into(), path: path.into() }
    }

    /// The path, from where [`base`](Self::base) is.
    pub fn path(&self) -> &Bytes {
        &self.path
    }

    /// Where the path begins.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// A name in this directory.
    #[must_use]
    pub fn join(&self, name: impl AsRef<[u8]>) -> Target {
        let name = name.as_ref();
        let mut path = Vec::with_capacity(self.path.len() + 1 + name.len());
        path.extend_from_slice(&self.path);
        if !path.is_empty() && path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Target { base: self.base.clone(), path: path.into() }
    }

    /// This directory, and for what is [joined](Self::join) to it: through no symbolic link on the way from its last name on.
    pub(crate) fn firm(mut self) -> Target {
        let mut end = self.path.len();
        let from = loop {
            let start = self.path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
            match &self.path[start..end] {
                b"" | b"." if start > 0 => end = start - 1,
                b"" | b"." | b".." => break self.path.len(),
                _ => break start,
            }
        };
        if let (Base::Root, Ok(from)) = (&self.base, from.try_into()) {
            self.base = Base::RootWithoutLinks(from);
        }
        self
    }

    /// The same, in memory of its own.
    pub(crate) fn detached(&self) -> Target {
        let base = match &self.base {
            Base::Handle(handle) => {
                let bytes = Bytes::copy_from_slice(handle.as_bytes());
                Base::Handle(FileHandle::new(bytes).unwrap_or_else(|_| handle.clone()))
            }
            base => base.clone(),
        };
        Target { base, path: Bytes::copy_from_slice(&self.path) }
    }

    /// From which byte of the path on no symbolic link is followed.
    pub(crate) fn firm_from(&self) -> Option<usize> {
        match self.base {
            Base::RootWithoutLinks(from) => Some(from as usize),
            _ => None,
        }
    }

    /// The open file, if it is nothing else.
    pub(crate) fn descriptor(&self) -> Option<Descriptor> {
        match self.base {
            Base::Descriptor(descriptor) if self.path.is_empty() => Some(descriptor),
            _ => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = String::from_utf8_lossy(&self.path);
        match &self.base {
            Base::Root | Base::RootWithoutLinks(_) if path.is_empty() => f.write_str("/"),
            Base::Root | Base::RootWithoutLinks(_) => f.write_str(&path),
            Base::Descriptor(descriptor) if path.is_empty() => write!(f, "{descriptor}"),
            Base::Descriptor(descriptor) => write!(f, "{descriptor}/{path}"),
            Base::Handle(handle) if path.is_empty() => write!(f, "{handle:?}"),
            Base::Handle(handle) => write!(f, "{handle:?}/{path}"),
        }
    }
}

impl From<Descriptor> for Base {
    fn from(descriptor: Descriptor) -> Base {
        Base::Descriptor(descriptor)
    }
}

impl From<FileHandle> for Base {
    fn from(handle: FileHandle) -> Base {
        Base::Handle(handle)
    }
}

impl From<Descriptor> for Target {
    fn from(descriptor: Descriptor) -> Target {
        Target::at(descriptor, Bytes::new())
    }
}

impl From<&Target> for Target {
    fn from(target: &Target) -> Target {
        target.clone()
    }
}

macro_rules! from_path {
    ($($type:ty, $path:ident => $bytes:expr;)*) => {
        $(impl From<$type> for Target {
            fn from($path: $type) -> Target {
                Target { base: Base::Root, path: $bytes }
            }
        })*
    };
}

from_path! {
    &str, path => Bytes::copy_from_slice(path.as_bytes());
    &String, path => Bytes::copy_from_slice(path.as_bytes());
    String, path => path.into();
    Bytes, path => path;
    Vec<u8>, path => path.into();
    &[u8], path => Bytes::copy_from_slice(path);
    &std::path::Path, path => Bytes::copy_from_slice(path.as_os_str().as_encoded_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_before_the_last_name_alone() {
        for (path, from) in [
            ("tree", 0),
            ("/tree", 1),
            ("a/tree", 2),
            ("a/tree//", 2),
            ("a/tree/./", 2),
            ("./tree", 2),
            ("a/..", 4),
            ("", 0),
            ("/", 1),
            (".", 1),
        ] {
            let firm = Target::from(path).firm();
            assert_eq!(firm.firm_from(), Some(from), "{path}");
            assert_eq!(firm.join("x").firm().firm_from(), Some(from), "{path}");
        }
    }
}
