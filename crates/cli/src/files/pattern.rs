//! Patterns of a shell: `*`, `?`, `[a-z]`, `[!a]`, `\` (POSIX fnmatch without flags).

/// Whether the name fits.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // Where the last star is, and where what follows it was tried.
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, place));
                at += 1;
                continue;
            }
            Some(b'?') => Some(at + 1),
            Some(b'[') => match class(&pattern[at..], name[place]) {
                Some((true, length)) => Some(at + length),
                Some((false, _)) => None,
                None => (name[place] == b'[').then_some(at + 1),
            },
            Some(b'\\') if at + 1 < pattern.len() => (pattern[at + 1] == name[place]).then_some(at + 2),
            Some(byte) => (*byte == name[place]).then_some(at + 1),
            None => None,
        };
        match (step, star) {
            (Some(next), _) => (at, place) = (next, place + 1),
            (None, Some((after, tried))) => {
                star = Some((after, tried + 1));
                (at, place) = (after, tried + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Whether the bracket expression at the start of the pattern holds the byte, and how long it is; `None` if it is none.
fn class(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let mut at = 1;
    let negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    at += usize::from(negated);
    let first = at;
    let mut holds = false;
    loop {
        match *pattern.get(at)? {
            b']' if at > first => return Some((holds != negated, at + 1)),
            b'[' if pattern.get(at + 1) == Some(&b':') => {
                let rest = &pattern[at + 2..];
                let end = rest.windows(2).position(|two| two == b":]")?;
                holds |= named_class(&rest[..end], byte);
                at += end + 4;
            }
            mut from => {
                if from == b'\\' {
                    at += 1;
                    from = *pattern.get(at)?;
                }
                match (pattern.get(at + 1), pattern.get(at + 2)) {
                    (Some(b'-'), Some(to)) if *to != b']' => {
                        holds |= (from..=*to).contains(&byte);
                        at += 3;
                    }
                    _ => {
                        holds |= from == byte;
                        at += 1;
                    }
                }
            }
        }
    }
}

fn named_class(name: &[u8], byte: u8) -> bool {
    match name {
        b"alpha" => byte.is_ascii_alphabetic(),
        b"digit" => byte.is_ascii_digit(),
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"upper" => byte.is_ascii_uppercase(),
        b"lower" => byte.is_ascii_lowercase(),
        b"space" => byte.is_ascii_whitespace(),
        b"punct" => byte.is_ascii_punctuation(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?", "", false),
            ("?at", "cat", true),
            ("[a-c]at", "bat", true),
            ("[a-c]at", "rat", false),
            ("[!a-c]at", "rat", true),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("[[:digit:]]*", "7up", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("*.rs", "lib.rs", true),
            ("*.rs", "lib.rs.bak", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
