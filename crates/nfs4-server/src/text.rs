//! What is text in the protocol.

/// Whether this is UTF-8 (RFC 3629) without the codes that are no characters (RFC 3454, table C.4). What is not gets
/// `NFS4ERR_INVAL` where text is asked for (RFC 8881 §14.5).
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    bytes.is_ascii() || str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(is_no_character))
}

fn is_no_character(code: char) -> bool {
    matches!(code, '\u{fdd0}'..='\u{fdef}') || code as u32 & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_utf8_and_characters() {
        for text in ["", "plain", "caf\u{e9}", "\u{fdcf}\u{fdf0}\u{fffd}\u{1fffd}\u{10000}", "\u{10fffd}"] {
            assert!(is_text(text.as_bytes()), "{text:?}");
        }
        let cut_off: [&[u8]; 4] = [b"caf\xe9", b"\xe0\x8a", b"\xf0\x9f\x98", b"\xdf "];
        let overlong: [&[u8]; 3] = [b"\xc0\xaf", b"\xe0\x80\xaf", b"\xfc\x80\x80\x80\x80\xaf"];
        let surrogates: [&[u8]; 2] = [b"\xed\xa0\x80", b"\xed\xbf\xbf"];
        for bytes in cut_off.into_iter().chain(overlong).chain(surrogates) {
            assert!(!is_text(bytes), "{bytes:x?}");
        }
        for code in ['\u{fdd0}', '\u{fdef}', '\u{fffe}', '\u{ffff}', '\u{1fffe}', '\u{10ffff}'] {
            assert!(!is_text(code.to_string().as_bytes()), "{code:?}");
        }
    }
}
