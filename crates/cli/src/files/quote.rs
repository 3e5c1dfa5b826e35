//! File names in messages, quoted as the GNU tools quote them, for a shell.

/// In quotes; control characters and bytes that are no text as `$'\ooo'`.
pub fn quoted(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let is_plain = !text.chars().any(|it| it.is_control() || it == char::REPLACEMENT_CHARACTER);
    if is_plain {
        let fits_double = !text.contains(['"', '$', '`', '\\', '!']);
        return match text.contains('\'') {
            false => format!("'{text}'"),
            true if fits_double => format!("\"{text}\""),
            true => format!("'{}'", text.replace('\'', r"'\''")),
        };
    }
    let mut quoted = String::from("'");
    let mut is_escaped = false;
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                escape(&mut quoted, &mut is_escaped, character.to_string().as_bytes());
                continue;
            }
            if std::mem::take(&mut is_escaped) {
                quoted.push_str("''");
            }
            match character {
                '\'' => quoted.push_str(r"'\''"),
                character => quoted.push(character),
            }
        }
        escape(&mut quoted, &mut is_escaped, chunk.invalid());
    }
    quoted.push('\'');
    quoted
}

/// In quotes if a shell would take it for more than one word.
pub fn quoted_if_needed(name: &[u8]) -> String {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"%+,-./:@_".contains(byte) || *byte >= 0x80;
    match std::str::from_utf8(name) {
        Ok(text) if !name.is_empty() && name.iter().all(is_word) => text.to_owned(),
        _ => quoted(name),
    }
}

fn escape(quoted: &mut String, is_escaped: &mut bool, bytes: &[u8]) {
    for byte in bytes {
        if !std::mem::replace(is_escaped, true) {
            quoted.push_str("'$'");
        }
        match byte {
            b'\n' => quoted.push_str(r"\n"),
            b'\t' => quoted.push_str(r"\t"),
            b'\r' => quoted.push_str(r"\r"),
            byte => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_ls_quotes_them() {
        for (name, expected) in [
            (&b"a"[..], "'a'"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"it's", "\"it's\""),
            (b"it's $1", r"'it'\''s $1'"),
            (b"a\nb", r"'a'$'\n''b'"),
            (b"\xff", r"''$'\377'"),
            (b"x\x01\x02", r"'x'$'\001\002'"),
        ] {
            assert_eq!(quoted(name), expected);
        }
    }
}
