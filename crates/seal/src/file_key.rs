use std::fmt;
use std::sync::Arc;

use environment::Entropy;

use crate::KeyEpoch;
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

/// The key of one file, for the blocks that are sealed in one epoch ([`FileKey::in_epoch`]). Blocks, names and fragment checksums use keys
/// derived from it. With it goes the [`ContentKey`] of the accessor set and epoch.
#[derive(Clone)]
pub struct FileKey(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    secret: FileSecret,
    content: ContentKey,
    /// The same in all epochs.
    names: NameKey,
    is_shredded: bool,
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
        let names = NameKey::from_bytes(*derive(secret.as_bytes(), "kurma name key", &[]));
        FileKey(Arc::new(Parts { secret, content, names, is_shredded: false }))
    }

    /// What is left of the key of a shredded file: it tells what its fragments are called, so that they can be deleted, and opens none.
    pub fn of_shredded(names: NameKey) -> FileKey {
        let secret = FileSecret::from_bytes(*derive(names.as_bytes(), "kurma shredded", &[]));
        FileKey(Arc::new(Parts { names, is_shredded: true, ..Parts::clone(&FileKey::alone(secret).0) }))
    }

    /// Whether it opens nothing.
    pub fn is_shredded(&self) -> bool {
        self.0.is_shredded
    }

    /// The key for what is sealed in `epoch`, to which `content` belongs. Whoever knows the keys of one epoch, this file's among them,
    /// does not know those of the next; names stay the same. In the first epoch it is the file's key itself.
    #[must_use]
    pub fn in_epoch(&self, epoch: KeyEpoch, content: &ContentKey) -> FileKey {
        let secret = match epoch {
            KeyEpoch(..=1) => self.0.secret.clone(),
            KeyEpoch(number) => {
                let salt = derive::<KEY_LEN>(content.as_bytes(), "kurma epoch salt", &[]);
                let number = number.to_be_bytes();
                FileSecret::from_bytes(*derive(
                    self.as_bytes(),
                    "kurma file key of an epoch",
                    &[&*salt, &number],
                ))
            }
        };
        FileKey(Arc::new(Parts { secret, content: content.clone(), ..Parts::clone(&self.0) }))
    }

    /// Tells which key it is, to those who may read the records of a gateway; tells nothing else about it.
    pub fn id(&self) -> [u8; 16] {
        *derive(self.0.names.as_bytes(), "kurma key id", &[])
    }

    /// The same, among files that share content under `content`.
    pub(crate) fn among(self, content: ContentKey) -> FileKey {
        FileKey(Arc::new(Parts { content, ..Parts::clone(&self.0) }))
    }

    /// The key itself; the caller sees to its secrecy.
    pub fn as_bytes(&self) -> &[u8; KEY_LEN] {
        self.0.secret.as_bytes()
    }

    /// The key for [`content_id`](crate::content_id) and [`seal_convergent`](crate::seal_convergent).
    pub fn content_key(&self) -> &ContentKey {
        &self.0.content
    }

    /// What makes the fragments of equal blocks equal; for crate `disperse`.
    pub fn convergence_key(&self) -> ContentKey {
        ContentKey::from_bytes(*derive(self.0.content.as_bytes(), "kurma convergence key", &[]))
    }

    /// The key for [`crate::fragment_name`].
    pub fn name_key(&self) -> NameKey {
        self.0.names.clone()
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
        self.0.secret == other.0.secret
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
    fn a_file_has_another_key_in_every_epoch_and_the_same_names() {
        let key = FileKey::from_bytes([7; 32]);
        let content = |byte| ContentKey::from_bytes([byte; 32]);
        assert_eq!(key.in_epoch(KeyEpoch(1), &content(1)), key);
        let (second, third) =
            (key.in_epoch(KeyEpoch(2), &content(2)), key.in_epoch(KeyEpoch(3), &content(3)));
        assert!(second != key && third != key && second != third);
        assert_ne!(
            second,
            key.in_epoch(KeyEpoch(2), &content(9)),
            "who has the file's key lacks the epoch's"
        );
        assert_eq!((second.name_key(), second.id()), (key.name_key(), key.id()));
        assert_eq!(second.content_key(), &content(2));
        assert_ne!(second.fragment_key(), key.fragment_key());
    }

    #[test]
    fn what_is_left_of_a_shredded_key_tells_names_and_nothing_else() {
        let key = FileKey::from_bytes([7; 32]);
        let left = FileKey::of_shredded(key.name_key());
        assert!(left.is_shredded() && !key.is_shredded());
        assert_eq!((left.name_key(), left.id()), (key.name_key(), key.id()));
        assert_ne!(left, key);
        assert_ne!(left.fragment_key(), key.fragment_key());
    }

    #[test]
    fn derived_keys_differ_from_each_other_and_from_their_parent() {
        let key = FileKey::from_bytes([7; 32]);
        assert_ne!(key.name_key().as_bytes(), key.fragment_key().as_bytes());
        assert_ne!(key.as_bytes(), key.name_key().as_bytes());
        assert_ne!(key.as_bytes(), key.footer_key().as_bytes());
    }
}
