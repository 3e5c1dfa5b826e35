//! The order of names with numbers in them, as `ls -v` and `sort -V` have it ("Version sort" in the manual of the coreutils).

use std::cmp::Ordering;

/// `a2` before `a10`; names with a dot first; what follows the last version number (`.tar.gz`) counts last.
pub fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let hidden = |name: &[u8]| match name {
        b"" => 0,
        b"." => 1,
        b".." => 2,
        [b'.', ..] => 3,
        _ => 4,
    };
    let (one_hidden, other_hidden) = (hidden(one), hidden(other));
    if one_hidden != other_hidden || one_hidden < 3 {
        return one_hidden.cmp(&other_hidden);
    }
    by_parts(stem(one), stem(other)).then_with(|| by_parts(one, other))
}

/// Without endings that are words behind dots.
fn stem(name: &[u8]) -> &[u8] {
    let mut end = name.len();
    loop {
        let word = name[..end]
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'~')
            .count();
        let start = end - word;
        let is_ending = start >= 2
            && name[start - 1] == b'.'
            && name
                .get(start)
                .filter(|_| word > 0)
                .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'~');
        if !is_ending {
            return &name[..end];
        }
        end = start - 1;
    }
}

/// By turns what has no digits, and numbers.
fn by_parts(mut one: &[u8], mut other: &[u8]) -> Ordering {
    while !one.is_empty() || !other.is_empty() {
        let (text, other_text) = (cut(&mut one, false), cut(&mut other, false));
        let (number, other_number) = (cut(&mut one, true), cut(&mut other, true));
        let after = if number.is_empty() && one.is_empty() { END } else { DIGIT };
        let other_after = if other_number.is_empty() && other.is_empty() { END } else { DIGIT };
        let places = 0..text.len().max(other_text.len());
        let order = places
            .clone()
            .map(|place| text.get(place).map_or(after, weight))
            .cmp(places.map(|place| other_text.get(place).map_or(other_after, weight)))
            .then_with(|| value(number).cmp(&value(other_number)));
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// What stands behind a text: the end of the name, more than `~`; or a number, which is less than any letter.
const END: u16 = 1;
const DIGIT: u16 = 2;

fn weight(byte: &u8) -> u16 {
    match byte {
        b'~' => 0,
        byte if byte.is_ascii_alphabetic() => 3 + u16::from(*byte),
        byte => 300 + u16::from(*byte),
    }
}

/// Its size and its digits, however many they are.
fn value(digits: &[u8]) -> (usize, &[u8]) {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    (digits.len() - zeros, &digits[zeros..])
}

/// Takes off what is in front of the next byte of the other kind.
fn cut<'a>(text: &mut &'a [u8], is_number: bool) -> &'a [u8] {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit() == is_number).count();
    let (part, rest) = text.split_at(length);
    *text = rest;
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_the_manual() {
        let sorted: [&[u8]; 25] = [
            b"",
            b".",
            b"..",
            b".a",
            b".a2",
            b".a10",
            b"1",
            b"1.0",
            b"2",
            b"010",
            b"11",
            b"a~",
            b"a",
            b"a.b",
            b"a00001",
            b"a1.tar~",
            b"a1.tar",
            b"a1.tar.gz",
            b"a1.1.tar",
            b"a2",
            b"a10",
            b"ab",
            b"a-1",
            b"b",
            b"\xff",
        ];
        for (at, one) in sorted.iter().enumerate() {
            for (after, other) in sorted.iter().enumerate() {
                assert_eq!(
                    compare(one, other),
                    at.cmp(&after),
                    "{:?} {:?}",
                    one.escape_ascii(),
                    other.escape_ascii()
                );
            }
        }
    }
}
