//! Sizes as `ls -h` shows them.

/// With one of the letters K to E, of 1024 each; never less than it is.
pub fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut unit = 1_u128;
    for letter in ["K", "M", "G", "T", "P", "E"] {
        unit *= 1024;
        let tenths = (u128::from(bytes) * 10).div_ceil(unit);
        if tenths < 100 {
            return format!("{}.{}{letter}", tenths / 10, tenths % 10);
        }
        let whole = u128::from(bytes).div_ceil(unit);
        if whole < 1024 || letter == "E" {
            return format!("{whole}{letter}");
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up() {
        for (bytes, expected) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10 * 1024, "10K"),
            (10 * 1024 - 1, "10K"),
            (1024 * 1024 - 1, "1.0M"),
            (1 << 30, "1.0G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(human(bytes), expected);
        }
    }
}
