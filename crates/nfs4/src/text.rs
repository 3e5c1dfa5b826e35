//! Names and other strings.

use bytes::Bytes;
use xdr::{Decode, Encode};

macro_rules! string_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode)]
        pub struct $name(pub Bytes);

        impl $name {
            /// As it came: any bytes.
            pub fn as_bytes(&self) -> &[u8] {
                &self.0
            }

            /// As text, if it is UTF-8.
            pub fn as_str(&self) -> Result<&str, std::str::Utf8Error> {
                std::str::from_utf8(&self.0)
            }

            /// Length in bytes.
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Whether it is empty.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> $name {
                $name(Bytes::copy_from_slice(text.as_bytes()))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> $name {
                $name(text.into())
            }
        }

        impl From<Bytes> for $name {
            fn from(bytes: Bytes) -> $name {
                $name(bytes)
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }
    };
}

string_type! {
    /// One name in a path (`component4`). Nothing is checked here: empty, too long, `.`/`..`, slashes and bad UTF-8
    /// each have their own status (RFC 8881 §14.4), which is for the server to choose.
    Component
}

string_type! {
    /// A string that should be UTF-8 (`utf8str_cs`, `utf8str_cis`, `utf8str_mixed`); nothing is checked here.
    Utf8String
}

string_type! {
    /// Where a symbolic link points (`linktext4`): opaque to the server.
    LinkText
}

/// A path, outermost name first (`pathname4`); empty for the root.
pub type PathName = Vec<Component>;
