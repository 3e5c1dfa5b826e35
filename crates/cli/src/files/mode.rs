//! Permission bits as text, and back.

use vector_client::Kind;

/// As `ls -l` shows it: `-rw-r--r--`.
pub fn text(kind: Option<Kind>, mode: u32) -> String {
    let mut text = String::with_capacity(10);
    text.push(match kind {
        Some(Kind::File) => '-',
        Some(Kind::Directory) => 'd',
        Some(Kind::SymbolicLink) => 'l',
        Some(Kind::BlockDevice) => 'b',
        Some(Kind::CharacterDevice) => 'c',
        Some(Kind::Fifo) => 'p',
        Some(Kind::Socket) => 's',
        None => '?',
    });
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
        });
    }
    text
}

/// `MODE` of `mkdir -m`: octal, or clauses like `u=rwx,go-w` applied to `base`; `umask` counts where nobody is named.
pub fn parsed(text: &str, base: u32, umask: u32) -> Option<u32> {
    if text.starts_with(|it: char| it.is_ascii_digit()) {
        return u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    }
    text.split(',').try_fold(base, |mode, clause| one_clause(clause, mode, umask))
}

fn one_clause(clause: &str, mut mode: u32, umask: u32) -> Option<u32> {
    let first = clause.find(['+', '-', '='])?;
    let (who, mut rest) = clause.split_at(first);
    let mut mask = 0;
    for letter in who.chars() {
        mask |= match letter {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o1007,
            'a' => 0o7777,
            _ => return None,
        };
    }
    let mask = if who.is_empty() { 0o7777 & !umask } else { mask };
    while let Some(operation) = rest.chars().next() {
        let end = rest[1..].find(['+', '-', '=']).map_or(rest.len(), |end| end + 1);
        let mut bits = 0;
        for letter in rest[1..end].chars() {
            bits |= match letter {
                'r' => 0o444,
                'w' => 0o222,
                'x' | 'X' => 0o111,
                's' => 0o6000,
                't' => 0o1000,
                'u' => (mode >> 6 & 7) * 0o111,
                'g' => (mode >> 3 & 7) * 0o111,
                'o' => (mode & 7) * 0o111,
                _ => return None,
            };
        }
        let bits = bits & mask;
        mode = match operation {
            '+' => mode | bits,
            '-' => mode & !bits,
            '=' => mode & !(mask & 0o777) | bits,
            _ => return None,
        };
        rest = &rest[end..];
    }
    Some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_shown_as_everywhere() {
        for (mode, expected) in
            [(0o644, "-rw-r--r--"), (0o7777, "-rwsrwsrwt"), (0o7000, "---S--S--T"), (0o1755, "-rwxr-xr-t")]
        {
            assert_eq!(text(Some(Kind::File), mode), expected);
        }
        assert_eq!(text(Some(Kind::Directory), 0o755), "drwxr-xr-x");
    }

    #[test]
    fn modes_are_read_in_both_forms() {
        for (text, expected) in [
            ("700", Some(0o700)),
            ("1777", Some(0o1777)),
            ("77777", None),
            ("u=rwx,go=", Some(0o700)),
            ("a-w", Some(0o555)),
            ("+t", Some(0o1777)),
            ("g=u-w", Some(0o757)),
            ("q+w", None),
            ("", None),
        ] {
            assert_eq!(parsed(text, 0o777, 0o022), expected, "{text}");
        }
    }
}
