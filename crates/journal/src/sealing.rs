use seal::SegmentKey;

/// Bytes that sealing adds behind a piece.
pub(crate) const TAG: usize = seal::TAG_LEN;

/// Opens `sealed` (ciphertext, then tag) in place; the plaintext is what precedes the tag.
pub(crate) fn open_in_place<'a>(
    key: &SegmentKey,
    position: u64,
    aad: &[u8],
    sealed: &'a mut [u8],
) -> Option<&'a mut [u8]> {
    let (data, tag) = sealed.split_last_chunk_mut::<TAG>()?;
    key.open_at(position, aad, data, tag).ok()?;
    Some(data)
}
