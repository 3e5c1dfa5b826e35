use zeroize::{Zeroize, Zeroizing};

/// Length of every symmetric key of this crate.
pub(crate) const KEY_LEN: usize = 32;

/// `N` bytes derived from `key`, for one purpose. Purposes are constants without NUL bytes, so that no two
/// (purpose, data) pairs meet.
pub(crate) fn derive<const N: usize>(
    key: &[u8; KEY_LEN],
    purpose: &'static str,
    data: &[&[u8]],
) -> Zeroizing<[u8; N]> {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(purpose.as_bytes()).update(&[0]);
    for part in data {
        hasher.update(part);
    }
    let mut out = Zeroizing::new([0; N]);
    let mut reader = hasher.finalize_xof();
    reader.fill(&mut *out);
    reader.zeroize();
    hasher.zeroize();
    out
}

/// Declares a 256-bit secret: wiped when dropped, compared in constant time, never printed.
macro_rules! secret_key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, zeroize::Zeroize, zeroize::ZeroizeOnDrop)]
        pub struct $name([u8; $crate::secret::KEY_LEN]);

        impl $name {
            /// A fresh random key.
            pub fn generate(entropy: &dyn environment::Entropy) -> $name {
                let mut key = $name([0; $crate::secret::KEY_LEN]);
                entropy.fill(&mut key.0);
                key
            }

            /// Takes key bytes that were stored by the caller.
            pub fn from_bytes(bytes: [u8; $crate::secret::KEY_LEN]) -> $name {
                $name(bytes)
            }

            /// The key itself; the caller sees to its secrecy.
            pub fn as_bytes(&self) -> &[u8; $crate::secret::KEY_LEN] {
                &self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(secret)"))
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                aws_lc_rs::constant_time::verify_slices_are_equal(&self.0, &other.0).is_ok()
            }
        }

        impl Eq for $name {}
    };
}

pub(crate) use secret_key;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_and_data_give_unrelated_keys() {
        let key = [1; 32];
        let base = derive::<32>(&key, "one", &[b"data"]);
        assert_eq!(base, derive::<32>(&key, "one", &[b"da", b"ta"]));
        assert_eq!(base[..], derive::<64>(&key, "one", &[b"data"])[..32]);
        assert_ne!(base, derive::<32>(&key, "two", &[b"data"]));
        assert_ne!(base, derive::<32>(&key, "one", &[b"datA"]));
        assert_ne!(base, derive::<32>(&[2; 32], "one", &[b"data"]));
    }
}
