use data_encoding::{Encoding, Specification};
use std::sync::LazyLock;

use crate::secret::derive;
use crate::{BlockIdentity, NameKey, SealId};

/// 200 bits: forty characters without padding, and no collision in any number of objects that can be stored.
const NAME_BYTES: usize = 25;

static BASE32_LOWER: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str("abcdefghijklmnopqrstuvwxyz234567");
    specification.encoding().expect("thirty-two different symbols make an encoding")
});

/// The name under which a cloud stores one fragment: 40 characters of `a-z2-7` (`K24`).
///
/// Nothing about file, block, version or fragment can be read from it, and no two names can be seen to belong
/// together. The same arguments give the same name, so names need not be stored. Every sealing has names of its own:
/// what a process that died had under way never replaces a fragment of the next.
pub fn fragment_name(key: &NameKey, identity: &BlockIdentity, fragment: u8, seal: SealId) -> String {
    let name = derive::<NAME_BYTES>(
        key.as_bytes(),
        "kurma fragment name",
        &[&identity.to_bytes(), &[fragment], &seal.0.to_be_bytes()],
    );
    BASE32_LOWER.encode(&*name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use ids::{BlockIndex, GatewayId, ObjectId, ObjectNumber, Version, VolumeId};

    use super::*;
    use crate::{FileKey, KeyEpoch};

    fn identity() -> BlockIdentity {
        BlockIdentity {
            volume: VolumeId(1),
            object: ObjectId { creator: GatewayId(2), number: ObjectNumber(3) },
            block: BlockIndex(4),
            version: Version(5),
            creator: GatewayId(6),
            epoch: KeyEpoch(7),
        }
    }

    #[test]
    fn a_name_is_stable_and_every_part_of_the_identity_changes_it() {
        let key = FileKey::from_bytes([9; 32]).name_key();
        let base = identity();
        let other_object = ObjectId { creator: GatewayId(3), number: ObjectNumber(3) };
        let mut names = HashSet::new();
        for changed in [
            base,
            BlockIdentity { volume: VolumeId(2), ..base },
            BlockIdentity { object: other_object, ..base },
            BlockIdentity { block: BlockIndex(5), ..base },
            BlockIdentity { version: Version(6), ..base },
            BlockIdentity { creator: GatewayId(7), ..base },
            BlockIdentity { epoch: KeyEpoch(8), ..base },
        ] {
            for fragment in 0..4 {
                for seal in [SealId(0), SealId(1), SealId(1 << 63)] {
                    let name = fragment_name(&key, &changed, fragment, seal);
                    assert_eq!(name, fragment_name(&key, &changed, fragment, seal));
                    assert_eq!(name.len(), 40);
                    assert!(name.bytes().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b)));
                    assert!(names.insert(name));
                }
            }
        }
        let other_key = FileKey::from_bytes([8; 32]).name_key();
        assert!(names.insert(fragment_name(&other_key, &base, 0, SealId(0))));
    }

    #[test]
    fn names_never_change() {
        let key = FileKey::from_bytes([42; 32]).name_key();
        assert_eq!(
            fragment_name(&key, &identity(), 2, SealId(9)),
            "cjev6djk7lazbw4xfg5bp33lghoaj3zkjcmnfjbw"
        );
    }

    #[test]
    fn names_of_ten_thousand_versions_share_no_prefix_of_64_bits() {
        let key = FileKey::from_bytes([9; 32]).name_key();
        let prefixes: HashSet<String> = (1..=10_000)
            .map(|v| BlockIdentity { version: Version(v), ..identity() })
            .map(|id| fragment_name(&key, &id, 0, SealId(0))[..13].to_owned())
            .collect();
        assert_eq!(prefixes.len(), 10_000);
    }
}
