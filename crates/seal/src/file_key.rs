use std::fmt;

use environment::Entropy;

use crate::secret::{KEY_LEN, derive, secret_key};

secret_key! {
    /// The secret part of a [`FileKey`].
    FileSecret
}

secret_key! {
    /// Shared by the files of an accessor set and epoch, so that equal content can be known as equal: see
    /// [`ContentId`](crate::ContentId).
    ContentKey
}

/// The key of one file. Blocks, names and fragment checksums use keys derived from it. With it goes the [`ContentKey`] of
/// the accessor set that it was unwrapped for.
#[derive(Clone)]
pub struct FileKey {
    secret: FileSecret,
    content: ContentKey,
}

secret_key! {
    /// Derives the names of a file's fragments in the clouds.
    NameKey
}

secret_key! {
    /// Authenticates a file's fragments, so that a bad one is known before decoding; for crate `disperse`.
    FragmentKey
}

impl FileKey {
    /// A fresh random key.
    pub fn generate(entropy: &dyn Entropy) -> FileKey {
        FileKey::alone(FileSecret::generate(entropy))
    }

    /// Takes key bytes that were stored by the caller.
    pub fn from_bytes(bytes: [u8; KEY_LEN]) -> FileKey {
        FileKey::alone(FileSecret::from_bytes(bytes))
    }

    /// One that shares content with no other file.
    fn alone(secret: FileSecret) -> FileKey {
        let content = ContentKey::from_bytes(*derive(secret.as_bytes(), "kurma content key", &[]));
        FileKey { secret, content }
    }

    /// The same, among files that share content under `content`.
    pub(crate) fn among(self, content: ContentKey) -> FileKey {
        FileKey { content, ..self }
    }

    /// The key itself; the caller sees to its secrecy.
    pub fn as_bytes(&self) -> &[u8; KEY_LEN] {
        self.secret.as_bytes()
    }

    /// The key for [`content_id`](crate::content_id) and [`seal_convergent`](crate::seal_convergent).
    pub fn content_key(&self) -> &ContentKey {
        &self.content
    }

    /// What makes the fragments of equal blocks equal; for crate `disperse`.
    pub fn convergence_key(&self) -> ContentKey {
        ContentKey::from_bytes(*derive(self.content.as_bytes(), "kurma convergence key", &[]))
    }

    /// The key for [`crate::fragment_name`].
    pub fn name_key(&self) -> NameKey {
        NameKey::from_bytes(*derive(self.as_bytes(), "kurma name key", &[]))
    }

    /// The key under which the footers of packs are sealed: they and the packs have the same identity.
    pub fn footer_key(&self) -> FileKey {
        FileKey::from_bytes(*derive(self.as_bytes(), "kurma footer key", &[]))
    }

    /// The key for the fragments' checksums.
    pub fn fragment_key(&self) -> FragmentKey {
        FragmentKey::from_bytes(*derive(self.as_bytes(), "kurma fragment key", &[]))
    }
}

impl fmt::Debug for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileKey(secret)")
    }
}

impl PartialEq for FileKey {
    /// Whether both are the key of the same file.
    fn eq(&self, other: &FileKey) -> bool {
        self.secret == other.secret
    }
}

impl Eq for FileKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_never_printed() {
        let key = FileKey::from_bytes([0xab; 32]);
        assert_eq!(format!("{key:?}"), "FileKey(secret)");
        assert_eq!(format!("{:?}", key.name_key()), "NameKey(secret)");
    }

    #[test]
    fn derived_keys_differ_from_each_other_and_from_their_parent() {
        let key = FileKey::from_bytes([7; 32]);
        assert_ne!(key.name_key().as_bytes(), key.fragment_key().as_bytes());
        assert_ne!(key.as_bytes(), key.name_key().as_bytes());
        assert_ne!(key.as_bytes(), key.footer_key().as_bytes());
        assert_ne!(key.footer_key().as_bytes(), key.certificate_key().as_bytes());
    }
}
