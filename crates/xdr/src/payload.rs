use bytes::{Bytes, BytesMut};

use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

/// One variable-length opaque whose content may lie in several pieces, such as file data that comes from several
/// cache blocks. Decodes as one piece.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    segments: Vec<Bytes>,
}

impl Payload {
    /// The concatenation of `segments`.
    pub fn new(segments: Vec<Bytes>) -> Payload {
        Payload { segments }
    }

    /// Bytes of content.
    pub fn len(&self) -> usize {
        self.segments.iter().map(Bytes::len).sum()
    }

    /// Whether there is no content.
    pub fn is_empty(&self) -> bool {
        self.segments.iter().all(Bytes::is_empty)
    }

    /// The pieces in order.
    pub fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    /// The content in one piece; copies only if there are several.
    pub fn into_bytes(mut self) -> Bytes {
        if self.segments.len() <= 1 {
            return self.segments.pop().unwrap_or_default();
        }
        let mut whole = BytesMut::with_capacity(self.len());
        for segment in &self.segments {
            whole.extend_from_slice(segment);
        }
        whole.freeze()
    }
}

impl From<Bytes> for Payload {
    fn from(data: Bytes) -> Payload {
        Payload { segments: vec![data] }
    }
}

/// Equal content, however it is cut.
impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        let bytes = |payload: &Payload| payload.segments.clone().into_iter().flatten();
        self.len() == other.len() && bytes(self).eq(bytes(other))
    }
}

impl Eq for Payload {}

impl Encode for Payload {
    fn encode(&self, out: &mut Encoder) {
        out.put_opaque_segments(&self.segments);
    }
}

/// Bounded by the input only.
impl Decode for Payload {
    fn decode(input: &mut Decoder) -> Result<Payload, DecodeError> {
        Ok(Payload::from(Bytes::decode(input)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{from_bytes, to_bytes};

    #[test]
    fn pieces_are_one_opaque_on_the_wire() {
        let pieces = Payload::new(vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"cde")]);
        let wire = to_bytes(&pieces);
        assert_eq!(wire, to_bytes(&Bytes::from_static(b"abcde")));
        let whole: Payload = from_bytes(wire).unwrap();
        assert_eq!(whole.segments().len(), 1);
        assert_eq!(whole, pieces);
        assert_eq!(pieces.into_bytes(), "abcde");
    }
}
