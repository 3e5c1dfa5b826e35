use bytes::{Bytes, BytesMut};
use journal::Lsn;

use crate::MetaError;
use crate::engine::Write;

/// The first byte of a batch.
const FORMAT: u8 = 1;

/// The writes of a transaction as a journal record's body:
///
/// `1`, number of writes 4, then for each: key length 2, value length 4 (all ones: the key is removed), key, value.
/// Numbers are big-endian.
pub(crate) fn encode<'a>(
    writes: impl ExactSizeIterator<Item = (&'a Bytes, &'a Option<Bytes>)> + Clone,
) -> Bytes {
    let length =
        |(key, value): (&Bytes, &Option<Bytes>)| 6 + key.len() + value.as_ref().map_or(0, Bytes::len);
    let mut out = BytesMut::with_capacity(5 + writes.clone().map(length).sum::<usize>());
    out.extend_from_slice(&[FORMAT]);
    out.extend_from_slice(&(writes.len() as u32).to_be_bytes());
    for (key, value) in writes {
        out.extend_from_slice(&(key.len() as u16).to_be_bytes());
        out.extend_from_slice(&value.as_ref().map_or(u32::MAX, |value| value.len() as u32).to_be_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    out.freeze()
}

/// Takes a batch apart, without copying.
pub(crate) fn decode(lsn: Lsn, body: &Bytes) -> Result<Vec<Write>, MetaError> {
    let bad = |what| MetaError::BadBatch { lsn, what };
    let truncated = || bad("it ends too early");
    if body.first() != Some(&FORMAT) {
        return Err(bad("its format is unknown; run the version that wrote it"));
    }
    let number = |at: usize, length: usize| {
        let bytes = body.get(at..at + length)?;
        Some(bytes.iter().fold(0usize, |number, &byte| number << 8 | usize::from(byte)))
    };
    let count = number(1, 4).ok_or_else(truncated)?;
    if count > body.len() / 6 {
        return Err(bad("it has more writes than bytes for them"));
    }
    let mut writes = Vec::with_capacity(count);
    let mut at = 5;
    for _ in 0..count {
        let key = number(at, 2).ok_or_else(truncated)?;
        let value = number(at + 2, 4).ok_or_else(truncated)?;
        let key = at + 6..at + 6 + key;
        let (value, end) = match value {
            0xffff_ffff => (None, key.end),
            length => (Some(key.end..key.end + length), key.end + length),
        };
        if end > body.len() {
            return Err(truncated());
        }
        writes.push((body.slice(key), value.map(|value| body.slice(value))));
        at = end;
    }
    if at != body.len() {
        return Err(bad("bytes follow its last write"));
    }
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(limit: usize) -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..limit).prop_map(Bytes::from)
    }

    proptest! {
        #[test]
        fn a_batch_comes_back(writes in prop::collection::vec((bytes(40), prop::option::of(bytes(60))), 0..20)) {
            let body = encode(writes.iter().map(|(key, value)| (key, value)));
            prop_assert_eq!(decode(Lsn(1), &body).unwrap(), writes);
            for cut in 0..body.len() {
                prop_assert!(decode(Lsn(1), &body.slice(..cut)).is_err());
            }
        }

        #[test]
        fn decoding_anything_never_panics(mut body in prop::collection::vec(any::<u8>(), 0..80), valid: bool) {
            if valid && !body.is_empty() {
                body[0] = FORMAT;
            }
            let _ = decode(Lsn(1), &Bytes::from(body));
        }
    }
}
