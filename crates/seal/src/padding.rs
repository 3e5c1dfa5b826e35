use std::fmt;
use std::str::FromStr;

/// Smallest padded length under [`Padding::Padme`]: all tiny files look alike.
const PADME_FLOOR: usize = 4096;
/// Largest bucket: one whole block of the largest size.
const MAX_BUCKET: u32 = 16 << 20;

/// How much a block is lengthened before sealing, so that clouds learn less of its size.
///
/// Clouds see the padded length. A full block of a power-of-two size grows under no policy but `Bucket`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Padding {
    /// None: clouds see the exact length.
    None,
    /// Padmé (Nikitin et al., PETS 2019), but at least 4 KiB: at most 12 % longer above the floor, and clouds
    /// learn O(log log length) bits: for 1 MiB blocks, the length to the nearest 16-32 KiB.
    #[default]
    Padme,
    /// The next power of two: up to twice as long, and clouds learn only the magnitude.
    PowerOfTwo,
    /// The next multiple of so many bytes, 1 to 16 MiB, at least one.
    Bucket(u32),
}

impl Padding {
    /// The padded length of `len` bytes; never less than `len`.
    pub fn padded_len(self, len: usize) -> usize {
        match self {
            Padding::None => len,
            Padding::Padme if len <= PADME_FLOOR => PADME_FLOOR,
            Padding::Padme => {
                // Keep the exponent's own length in leading bits of the mantissa; round the rest up.
                let exponent = len.ilog2();
                let low_bits = exponent - (exponent.ilog2() + 1);
                len.next_multiple_of(1 << low_bits)
            }
            Padding::PowerOfTwo => len.next_power_of_two(),
            Padding::Bucket(bytes) => len.max(1).next_multiple_of((bytes as usize).max(1)),
        }
    }
}

impl fmt::Display for Padding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Padding::None => f.write_str("none"),
            Padding::Padme => f.write_str("padme"),
            Padding::PowerOfTwo => f.write_str("power-of-two"),
            Padding::Bucket(bytes) => write!(f, "bucket:{bytes}"),
        }
    }
}

impl FromStr for Padding {
    type Err = String;

    fn from_str(text: &str) -> Result<Padding, String> {
        let bucket = |bytes: &str| bytes.parse().ok().filter(|b| (1..=MAX_BUCKET).contains(b));
        match text {
            "none" => Some(Padding::None),
            "padme" => Some(Padding::Padme),
            "power-of-two" => Some(Padding::PowerOfTwo),
            _ => text.strip_prefix("bucket:").and_then(bucket).map(Padding::Bucket),
        }
        .ok_or_else(|| {
            format!(
                "{text:?} is not a padding: use none, padme, power-of-two or bucket:BYTES (1 to {MAX_BUCKET})"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Padding; 5] =
        [Padding::None, Padding::Padme, Padding::PowerOfTwo, Padding::Bucket(1), Padding::Bucket(4096)];

    #[test]
    fn text_round_trips_and_bad_text_names_the_choices() {
        for padding in ALL {
            assert_eq!(padding.to_string().parse(), Ok(padding));
        }
        for bad in ["", "Padme", "bucket:", "bucket:0", "bucket:16777217", "bucket:-1", "bucket"] {
            assert!(bad.parse::<Padding>().unwrap_err().contains("power-of-two"), "{bad}");
        }
    }

    #[test]
    fn full_blocks_do_not_grow_and_tiny_files_look_alike() {
        for shift in 16..=24 {
            assert_eq!(Padding::Padme.padded_len(1 << shift), 1 << shift);
        }
        assert_eq!(Padding::Padme.padded_len(0), Padding::Padme.padded_len(4096));
        assert_eq!(Padding::Padme.padded_len(1_000_000), 1_015_808);
    }

    proptest! {
        #[test]
        fn padding_is_monotonic_idempotent_and_bounded(len in 0usize..20_000_000) {
            for padding in ALL {
                let padded = padding.padded_len(len);
                prop_assert!(padded >= len);
                prop_assert!(padding.padded_len(len + 1) >= padded);
                prop_assert_eq!(padding.padded_len(padded), padded);
            }
            if len > 4096 {
                prop_assert!(Padding::Padme.padded_len(len) as f64 <= len as f64 * 1.12);
            }
        }
    }
}
