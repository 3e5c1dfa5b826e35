//! As much of DER (X.690) as Kerberos needs.

/// What is not the DER that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const GENERAL_STRING: u8 = 0x1b;

/// `[number]`, explicit.
pub(crate) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// `[APPLICATION number]`.
pub(crate) const fn application(number: u8) -> u8 {
    0x60 | number
}

/// Reads values one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    input: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(input: &'a [u8]) -> Reader<'a> {
        Reader { input }
    }

    pub fn is_empty(&self) -> bool {
        self.input.is_empty()
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.input
    }

    /// The next tag; 0, which is none, at the end.
    pub fn peek(&self) -> u8 {
        self.input.first().copied().unwrap_or(0)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.input.split_first().ok_or(Malformed)?;
        self.input = rest;
        Ok(*first)
    }

    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.input.split_at_checked(length).ok_or(Malformed)?;
        self.input = rest;
        Ok(taken)
    }

    /// The content of the next value, which must have this tag.
    pub fn value(&mut self, tag: u8) -> Result<Reader<'a>, Malformed> {
        if self.byte()? != tag {
            return Err(Malformed);
        }
        let length = match self.byte()? {
            short @ 0..=0x7f => short.into(),
            long @ 0x81..=0x83 => {
                let bytes = self.take((long & 0x7f).into())?;
                bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
            }
            _ => return Err(Malformed),
        };
        Ok(Reader::new(self.take(length)?))
    }

    /// The content of `[number] tag`.
    pub fn field(&mut self, number: u8, tag: u8) -> Result<Reader<'a>, Malformed> {
        let mut field = self.value(context(number))?;
        let value = field.value(tag)?;
        if field.is_empty() { Ok(value) } else { Err(Malformed) }
    }

    /// The same, which may be missing.
    pub fn optional(&mut self, number: u8, tag: u8) -> Result<Option<Reader<'a>>, Malformed> {
        if self.peek() == context(number) { self.field(number, tag).map(Some) } else { Ok(None) }
    }

    /// The content as an integer.
    pub fn integer(self) -> Result<i64, Malformed> {
        match self.input {
            [] => Err(Malformed),
            [first, ..] if self.input.len() <= 8 => {
                let sign = if first & 0x80 != 0 { -1 } else { 0 };
                Ok(self.input.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte)))
            }
            _ => Err(Malformed),
        }
    }

    /// The content as a time (`YYYYMMDDHHMMSSZ`), in seconds since 1970.
    pub fn time(self) -> Result<i64, Malformed> {
        let [digits @ .., b'Z'] = self.input else { return Err(Malformed) };
        if digits.len() != 14 || !digits.iter().all(u8::is_ascii_digit) {
            return Err(Malformed);
        }
        let number =
            |from, to| digits[from..to].iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        let (year, month, day) = (number(0, 4), number(4, 6), number(6, 8));
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(Malformed);
        }
        // Days from the civil calendar, years beginning in March (Hinnant, "chrono-compatible low-level date
        // algorithms").
        let year = if month <= 2 { year - 1 } else { year };
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = 365 * year + year / 4 - year / 100 + year / 400 + of_year - 719_468;
        Ok(days * 86_400 + number(8, 10) * 3600 + number(10, 12) * 60 + number(12, 14))
    }

    /// The content as text.
    pub fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.input).map_err(|_| Malformed)
    }
}

/// A value with this tag and the content that follows of one another.
pub(crate) fn value(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let length: usize = content.iter().map(|piece| piece.len()).sum();
    let mut out = vec![tag];
    match length {
        0..=0x7f => out.push(length as u8),
        0x80..=0xff => out.extend([0x81, length as u8]),
        0x100..=0xffff => out.extend([0x82, (length >> 8) as u8, length as u8]),
        _ => out.extend([0x83, (length >> 16) as u8, (length >> 8) as u8, length as u8]),
    }
    content.iter().for_each(|piece| out.extend_from_slice(piece));
    out
}

/// `[number] INTEGER`.
pub(crate) fn integer(number: u8, integer: i64) -> Vec<u8> {
    let bytes = integer.to_be_bytes();
    // As short as the sign allows.
    let redundant =
        |pair: &&[u8]| (pair[0] == 0 && pair[1] & 0x80 == 0) || (pair[0] == 0xff && pair[1] & 0x80 != 0);
    let skipped = bytes.windows(2).take_while(redundant).count();
    value(context(number), &[&value(INTEGER, &[&bytes[skipped..]])])
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        let time = |text: &str| Reader::new(text.as_bytes()).time();
        assert_eq!(time("19700101000000Z"), Ok(0));
        assert_eq!(time("20000229235959Z"), Ok(951_868_799));
        assert_eq!(time("20380119031408Z"), Ok(1 << 31));
        for wrong in ["20000229235959", "2000022923595Z", "20001329235959Z", "2000-229235959Z", "Z", ""] {
            assert_eq!(time(wrong), Err(Malformed), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn integers_survive(number in any::<i64>(), shift in 0u32..64) {
            let number = number >> shift;
            let written = integer(3, number);
            prop_assert_eq!(Reader::new(&written).field(3, INTEGER).unwrap().integer(), Ok(number));
        }

        #[test]
        fn contents_of_every_length_survive(length in prop_oneof![0usize..300, 60_000usize..70_000]) {
            let content = vec![9; length];
            let written = value(OCTET_STRING, &[&content[..length / 3], &content[length / 3..]]);
            let mut reader = Reader::new(&written);
            prop_assert_eq!(reader.value(OCTET_STRING).unwrap().bytes(), &content[..]);
            prop_assert!(reader.is_empty());
            prop_assert!(Reader::new(&written[..written.len() - 1]).value(OCTET_STRING).is_err());
        }

        #[test]
        fn garbage_never_panics(input in vec(any::<u8>(), 0..30)) {
            let mut reader = Reader::new(&input);
            while let Ok(value) = reader.value(reader.peek()) {
                let _ = (value.integer(), value.time(), value.text());
            }
        }
    }
}
