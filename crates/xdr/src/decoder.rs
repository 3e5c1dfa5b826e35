use bytes::Bytes;

use crate::DecodeError;

/// How deep boxes and arrays may be nested in what is decoded; keeps the stack bounded.
pub const MAX_DEPTH: u32 = 64;

/// Reads XDR values one after the other from a buffer.
///
/// Every length is checked against the rest of the buffer before it is used. Padding is skipped, not verified:
/// RFC 4506 wants it zero, but old implementations send what was in memory and nothing depends on it.
///
/// ```
/// use bytes::Bytes;
/// use xdr::Decoder;
///
/// let mut input = Decoder::new(Bytes::from_static(&[0, 0, 0, 9, 0, 0, 0, 1, b'x', 0, 0, 0]));
/// assert_eq!(input.u32()?, 9);
/// assert_eq!(input.opaque(255)?, "x");
/// input.finish()?;
/// # Ok::<(), xdr::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    input: Bytes,
    position: usize,
    depth: u32,
}

impl Decoder {
    /// Reads from the start of `input`.
    pub fn new(input: Bytes) -> Decoder {
        Decoder { input, position: 0, depth: 0 }
    }

    /// Bytes that are not yet read.
    pub fn remaining(&self) -> usize {
        self.input.len() - self.position
    }

    /// Bytes that are read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Succeeds when everything is read.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(DecodeError::TrailingBytes { position: self.position, count }),
        }
    }

    /// The bytes already read since `position`, an earlier value of [`position`](Self::position); without copying.
    /// Empty when `position` lies ahead.
    pub fn since(&self, position: usize) -> Bytes {
        self.input.slice(position.min(self.position)..self.position)
    }

    /// Everything that is not yet read, without copying; the decoder is at its end afterwards.
    pub fn rest(&mut self) -> Bytes {
        let rest = self.input.slice(self.position..);
        self.position = self.input.len();
        rest
    }

    /// `len` bytes of opaque data and the padding that follows them (RFC 4506 §4.9), without copying.
    pub fn take(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        let start = self.advance_padded(len)?;
        Ok(self.input.slice(start..start + len))
    }

    /// A fixed-length opaque of `N` bytes (RFC 4506 §4.9).
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let start = self.advance_padded(N)?;
        let mut out = [0; N];
        out.copy_from_slice(&self.input[start..start + N]);
        Ok(out)
    }

    /// A variable-length opaque of at most `limit` bytes (RFC 4506 §4.10), without copying.
    pub fn opaque(&mut self, limit: usize) -> Result<Bytes, DecodeError> {
        let position = self.position;
        let length = self.u32()? as usize;
        if length > limit {
            return Err(DecodeError::TooLong { position, length, limit });
        }
        self.take(length)
    }

    /// The element count of a variable-length array (RFC 4506 §4.13): at most `limit`, and at most what the rest
    /// of the input can hold when every element takes at least 4 bytes.
    pub fn array_length(&mut self, limit: usize) -> Result<usize, DecodeError> {
        let position = self.position;
        let length = self.u32()? as usize;
        let limit = limit.min(self.remaining() / 4);
        if length > limit {
            return Err(DecodeError::TooLong { position, length, limit });
        }
        Ok(length)
    }

    /// An unsigned integer (RFC 4506 §4.2); also the raw value of an enumeration.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        let value = self.peek_u32()?;
        self.position += 4;
        Ok(value)
    }

    /// What [`u32`](Self::u32) would return, without moving on.
    pub fn peek_u32(&self) -> Result<u32, DecodeError> {
        match self.input[self.position..].first_chunk::<4>() {
            Some(word) => Ok(u32::from_be_bytes(*word)),
            None => Err(self.too_short(4)),
        }
    }

    /// An unsigned hyper integer (RFC 4506 §4.5).
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        let rest = &self.input[self.position..];
        let Some(words) = rest.first_chunk::<8>() else { return Err(self.too_short(8)) };
        let value = u64::from_be_bytes(*words);
        self.position += 8;
        Ok(value)
    }

    /// An integer (RFC 4506 §4.1).
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(self.u32()? as i32)
    }

    /// A hyper integer (RFC 4506 §4.5).
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(self.u64()? as i64)
    }

    /// A boolean (RFC 4506 §4.4).
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        let position = self.position;
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::InvalidBool { position, value }),
        }
    }

    /// Runs `read` one level deeper; every type that can contain itself goes through here.
    pub fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Decoder) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if self.depth == MAX_DEPTH {
            return Err(DecodeError::TooDeep { position: self.position, limit: MAX_DEPTH });
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Steps over `len` bytes and their padding; returns where they start.
    fn advance_padded(&mut self, len: usize) -> Result<usize, DecodeError> {
        let start = self.position;
        match len.checked_next_multiple_of(4) {
            Some(padded) if padded <= self.remaining() => {
                self.position += padded;
                Ok(start)
            }
            padded => Err(self.too_short(padded.unwrap_or(len))),
        }
    }

    #[cold]
    fn too_short(&self, needed: usize) -> DecodeError {
        DecodeError::UnexpectedEnd { position: self.position, needed, remaining: self.remaining() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_data_is_a_slice_of_the_input() {
        let wire = Bytes::from(vec![0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0]);
        let mut input = Decoder::new(wire.clone());
        let data = input.opaque(5).unwrap();
        assert_eq!(data.as_ptr(), wire[4..].as_ptr());
        assert_eq!(&data[..], [1, 2, 3, 4, 5]);
        assert_eq!(input.since(4), wire.slice(4..));
        input.finish().unwrap();
    }

    #[test]
    fn a_length_above_the_limit_or_the_input_is_refused_where_it_stands() {
        let wire = Bytes::from_static(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4]);
        let at_length = || {
            let mut input = Decoder::new(wire.clone());
            input.u32().unwrap();
            input
        };
        assert_eq!(
            at_length().opaque(1024),
            Err(DecodeError::TooLong { position: 4, length: 0xffff_ffff, limit: 1024 })
        );
        assert_eq!(
            at_length().opaque(usize::MAX),
            Err(DecodeError::UnexpectedEnd { position: 8, needed: 0x1_0000_0000, remaining: 4 })
        );
        assert_eq!(
            at_length().array_length(usize::MAX),
            Err(DecodeError::TooLong { position: 4, length: 0xffff_ffff, limit: 1 })
        );
    }

    #[test]
    fn data_without_its_padding_is_cut_short() {
        let mut input = Decoder::new(Bytes::from_static(&[0, 0, 0, 1, 7, 0, 0]));
        assert_eq!(input.opaque(8), Err(DecodeError::UnexpectedEnd { position: 4, needed: 4, remaining: 3 }));
        let mut input = Decoder::new(Bytes::new());
        assert_eq!(
            input.take(usize::MAX),
            Err(DecodeError::UnexpectedEnd { position: 0, needed: usize::MAX, remaining: 0 })
        );
    }

    #[test]
    fn a_boolean_is_zero_or_one() {
        let mut input = Decoder::new(Bytes::from_static(&[0, 0, 0, 1, 0, 0, 0, 2]));
        assert!(input.bool().unwrap());
        assert_eq!(input.bool(), Err(DecodeError::InvalidBool { position: 4, value: 2 }));
    }
}
