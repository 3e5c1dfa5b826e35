use crate::secret::{derive, secret_key};

secret_key! {
    /// The key of one file. Blocks, names and fragment checksums use keys derived from it.
    FileKey
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
    /// The key for [`crate::fragment_name`].
    pub fn name_key(&self) -> NameKey {
        NameKey::from_bytes(*derive(self.as_bytes(), "kurma name key", &[]))
    }

    /// The key for the fragments' checksums.
    pub fn fragment_key(&self) -> FragmentKey {
        FragmentKey::from_bytes(*derive(self.as_bytes(), "kurma fragment key", &[]))
    }
}

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
    }
}
