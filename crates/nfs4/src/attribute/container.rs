//! The container of attribute values on the wire.

use bytes::Bytes;
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::{Attribute, AttributeValues, Bitmap, NfsStatus};

/// Attributes as they travel: which ones, and their values one after the other (`fattr4`). Not yet checked; see
/// [`Fattr::values`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Fattr {
    /// Which attributes follow.
    pub bitmap: Bitmap,
    /// Their XDR forms, ascending by number.
    pub encoded: Bytes,
}

/// Why a [`Fattr`] does not make sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    /// The bitmap has an attribute no RFC defines.
    #[error("attribute {0} is unknown; ask only for what supported_attrs lists")]
    Unknown(u32),
    /// The values are not what the bitmap announces.
    #[error("attribute values are malformed: {0}")]
    Malformed(#[from] DecodeError),
}

impl AttributeError {
    /// The status to answer with: `NFS4ERR_ATTRNOTSUPP` or `NFS4ERR_BADXDR`.
    pub fn status(&self) -> NfsStatus {
        match self {
            AttributeError::Unknown(_) => NfsStatus::AttrNotSupp,
            AttributeError::Malformed(_) => NfsStatus::BadXdr,
        }
    }
}

impl Fattr {
    /// No attributes.
    pub const EMPTY: Fattr = Fattr { bitmap: Bitmap::EMPTY, encoded: Bytes::new() };

    /// The typed values. An unknown attribute is reported before a malformed value.
    pub fn values(&self) -> Result<AttributeValues, AttributeError> {
        if let Some(number) = self.bitmap.iter().find(|number| Attribute::from_number(*number).is_none()) {
            return Err(AttributeError::Unknown(number));
        }
        let mut values = AttributeValues::default();
        let mut input = Decoder::new(self.encoded.clone());
        for attribute in self.bitmap.iter().filter_map(Attribute::from_number) {
            values.decode_value(attribute, &mut input)?;
        }
        input.finish()?;
        Ok(values)
    }
}

impl AttributeValues {
    /// The wire form of all present values.
    pub fn to_fattr(&self) -> Fattr {
        self.select(!Bitmap::EMPTY)
    }

    /// The wire form of those present values that `mask` selects.
    pub fn select(&self, mask: Bitmap) -> Fattr {
        let bitmap = self.bitmap() & mask;
        let mut out = Encoder::new();
        self.encode_values(bitmap, &mut out);
        Fattr { bitmap, encoded: out.into_bytes() }
    }

    /// Writes what [`select`](Self::select) returns straight into `out`, without a buffer in between: for the replies
    /// to GETATTR and READDIR.
    pub fn encode_selected(&self, mask: Bitmap, out: &mut Encoder) {
        let bitmap = self.bitmap() & mask;
        bitmap.encode(out);
        let length_at = out.len();
        out.put_u32(0);
        self.encode_values(bitmap, out);
        let length = out.len() - length_at - 4;
        out.patch_u32(length_at, length as u32);
    }
}

impl From<&AttributeValues> for Fattr {
    fn from(values: &AttributeValues) -> Fattr {
        values.to_fattr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileType, Utf8String};

    fn sample() -> AttributeValues {
        AttributeValues {
            r#type: Some(FileType::Regular),
            size: Some(5),
            mode: Some(0o644),
            owner: Some(Utf8String::from("a@b")),
            xattr_support: Some(true),
            ..AttributeValues::default()
        }
    }

    #[test]
    fn values_are_encoded_ascending_by_number() {
        let fattr = sample().to_fattr();
        assert_eq!(fattr.bitmap, Bitmap::of(&[1, 4, 33, 36, 82]));
        let expected: &[u8] = &[
            0, 0, 0, 1, // type
            0, 0, 0, 0, 0, 0, 0, 5, // size
            0, 0, 1, 0xa4, // mode
            0, 0, 0, 3, b'a', b'@', b'b', 0, // owner
            0, 0, 0, 1, // xattr_support
        ];
        assert_eq!(&fattr.encoded[..], expected);
        assert_eq!(fattr.values().unwrap(), sample());
    }

    #[test]
    fn selection_and_direct_encoding_agree() {
        let mask = Attribute::set(&[Attribute::Size, Attribute::Owner, Attribute::Acl]);
        let fattr = sample().select(mask);
        assert_eq!(fattr.bitmap, Attribute::set(&[Attribute::Size, Attribute::Owner]));
        let mut out = Encoder::new();
        sample().encode_selected(mask, &mut out);
        assert_eq!(out.into_bytes(), xdr::to_bytes(&fattr));
    }

    #[test]
    fn an_unknown_attribute_is_reported_as_such_even_if_the_values_are_malformed() {
        let fattr = Fattr { bitmap: Bitmap::of(&[4, 100]), encoded: Bytes::from_static(&[1]) };
        let error = fattr.values().unwrap_err();
        assert_eq!(error, AttributeError::Unknown(100));
        assert_eq!(error.status(), NfsStatus::AttrNotSupp);
    }

    #[test]
    fn missing_and_surplus_bytes_are_malformed() {
        for len in [0, 4, 12] {
            let fattr = Fattr { bitmap: Bitmap::of(&[4]), encoded: Bytes::from(vec![0; len]) };
            assert_eq!(fattr.values().unwrap_err().status(), NfsStatus::BadXdr, "{len} bytes of a u64");
        }
    }
}
