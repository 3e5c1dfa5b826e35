use bytes::{Bytes, BytesMut};

/// Longest key, in bytes.
pub const MAX_KEY: usize = 4096;

/// Builds keys whose byte order is the order of their parts.
///
/// Numbers are big-endian. Text that other parts follow is escaped (0 becomes 0 255) and ends with 0 0, so that
/// a shorter text sorts before its extensions; text at the end of a key is stored as it is.
///
/// ```
/// use meta::KeyBuilder;
/// let a = KeyBuilder::new(b'd').number(7).text(b"a").number(9).build();
/// let b = KeyBuilder::new(b'd').number(7).text(b"a\0").number(1).build();
/// assert!(a < b);
/// ```
#[derive(Debug, Clone)]
pub struct KeyBuilder {
    bytes: BytesMut,
}

impl KeyBuilder {
    /// A key that begins with the byte of its table.
    pub fn new(table: u8) -> KeyBuilder {
        let mut bytes = BytesMut::with_capacity(64);
        bytes.extend_from_slice(&[table]);
        KeyBuilder { bytes }
    }

    /// Appends one byte.
    pub fn tag(mut self, tag: u8) -> KeyBuilder {
        self.bytes.extend_from_slice(&[tag]);
        self
    }

    /// Appends a number.
    pub fn number(mut self, number: u64) -> KeyBuilder {
        self.bytes.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Appends a wide number.
    pub fn wide(mut self, number: u128) -> KeyBuilder {
        self.bytes.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Appends bytes of a fixed length.
    pub fn fixed(mut self, bytes: &[u8]) -> KeyBuilder {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends text that other parts may follow.
    pub fn text(mut self, text: &[u8]) -> KeyBuilder {
        for &byte in text {
            self.bytes.extend_from_slice(if byte == 0 { &[0, 255] } else { std::slice::from_ref(&byte) });
        }
        self.bytes.extend_from_slice(&[0, 0]);
        self
    }

    /// Appends text that ends the key.
    pub fn last_text(mut self, text: &[u8]) -> KeyBuilder {
        self.bytes.extend_from_slice(text);
        self
    }

    /// The key.
    pub fn build(self) -> Bytes {
        self.bytes.freeze()
    }

    /// The range of all keys that begin with what has been appended: first key, and first key beyond.
    pub fn prefix_range(self) -> (Bytes, Bytes) {
        let start = self.bytes.freeze();
        let end = prefix_end(&start);
        (start, end)
    }
}

/// The first key that is greater than all keys which begin with `prefix`. For a prefix of nothing but 255 there
/// is no such key within the prefix's length; the longest possible key of 255s stands in.
pub fn prefix_end(prefix: &[u8]) -> Bytes {
    match prefix.iter().rposition(|&byte| byte != u8::MAX) {
        Some(at) => {
            let mut end = prefix[..=at].to_vec();
            end[at] += 1;
            end.into()
        }
        None => vec![u8::MAX; MAX_KEY + 1].into(),
    }
}

/// Takes keys apart that [`KeyBuilder`] made. Every call returns `None` when the key does not continue that way.
#[derive(Debug, Clone)]
pub struct KeyReader<'a> {
    rest: &'a [u8],
}

impl<'a> KeyReader<'a> {
    /// Reads `key` from its start.
    pub fn new(key: &'a [u8]) -> KeyReader<'a> {
        KeyReader { rest: key }
    }

    /// The next byte: the table or a tag.
    pub fn tag(&mut self) -> Option<u8> {
        Some(self.fixed(1)?[0])
    }

    /// The next number.
    pub fn number(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.fixed(8)?.try_into().ok()?))
    }

    /// The next wide number.
    pub fn wide(&mut self) -> Option<u128> {
        Some(u128::from_be_bytes(self.fixed(16)?.try_into().ok()?))
    }

    /// The next `length` bytes.
    pub fn fixed(&mut self, length: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(part)
    }

    /// The next text that other parts may follow.
    pub fn text(&mut self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        loop {
            let zero = self.rest.iter().position(|&byte| byte == 0)?;
            text.extend_from_slice(&self.rest[..zero]);
            let mark = *self.rest.get(zero + 1)?;
            self.rest = &self.rest[zero + 2..];
            match mark {
                0 => return Some(text),
                255 => text.push(0),
                _ => return None,
            }
        }
    }

    /// Everything that is left.
    pub fn last_text(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts() -> impl Strategy<Value = (u64, Vec<u8>, u128, Vec<u8>)> {
        // Few distinct bytes, so that zeros, extremes and shared prefixes are common.
        let text = || prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(254), Just(255)], 0..6);
        (0u64..3, text(), 0u128..3, text())
    }

    fn key((number, text, wide, last): &(u64, Vec<u8>, u128, Vec<u8>)) -> Bytes {
        KeyBuilder::new(b't').number(*number).text(text).wide(*wide).last_text(last).build()
    }

    proptest! {
        #[test]
        fn keys_sort_like_their_parts_and_come_back(a in parts(), b in parts()) {
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
            let bytes = key(&a);
            let mut reader = KeyReader::new(&bytes);
            prop_assert_eq!(reader.tag(), Some(b't'));
            let back = (reader.number().unwrap(), reader.text().unwrap(), reader.wide().unwrap(), reader.last_text().to_vec());
            prop_assert_eq!(back, a);
        }

        #[test]
        fn a_prefix_range_holds_exactly_the_extensions(prefix in prop::collection::vec(250u8.., 1..4), key in prop::collection::vec(250u8.., 0..6)) {
            let end = prefix_end(&prefix);
            prop_assert_eq!(key >= prefix && key[..] < end[..], key.starts_with(&prefix));
        }

        #[test]
        fn reading_a_foreign_key_never_panics(key in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = KeyReader::new(&key);
            let _ = (reader.tag(), reader.text(), reader.number(), reader.wide(), reader.fixed(3));
        }
    }
}
