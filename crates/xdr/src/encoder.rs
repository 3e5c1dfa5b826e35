use bytes::{BufMut, Bytes, BytesMut};

/// Payloads of at least this many bytes are kept by reference; shorter ones are cheaper to copy than to carry
/// as a segment of their own.
pub const SPLICE_THRESHOLD: usize = 2048;

/// Collects the XDR form of values as a list of segments, ready for a vectored write.
///
/// Small values go into one growing buffer; payloads of [`SPLICE_THRESHOLD`] bytes and more are spliced in by
/// reference. What was written can be rolled back ([`truncate`](Self::truncate)) and single words can be filled
/// in later ([`patch_u32`](Self::patch_u32)), so replies can be built in one pass.
///
/// ```
/// use xdr::Encoder;
///
/// let mut out = Encoder::new();
/// let count_at = out.len();
/// out.put_u32(0);
/// out.put_opaque_slice(b"one");
/// let before_two = out.mark();
/// out.put_opaque_slice(b"two");
/// out.truncate(before_two); // it did not fit
/// out.patch_u32(count_at, 1);
/// assert_eq!(out.into_bytes()[..], [0, 0, 0, 1, 0, 0, 0, 3, b'o', b'n', b'e', 0]);
/// ```
#[derive(Debug, Default)]
pub struct Encoder {
    /// Everything but the spliced payloads, in order.
    inline: BytesMut,
    splices: Vec<Splice>,
    /// Total bytes of `splices`.
    spliced: usize,
}

/// A payload kept by reference.
#[derive(Debug)]
struct Splice {
    /// Its place in the whole encoding.
    position: usize,
    /// Its place in the inline bytes.
    inline_at: usize,
    payload: Bytes,
}

/// A point to roll an [`Encoder`] back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    inline: usize,
    splices: usize,
    spliced: usize,
}

impl Encoder {
    /// Empty, without memory.
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// Empty, with room for `bytes` bytes of small values.
    pub fn with_capacity(bytes: usize) -> Encoder {
        Encoder { inline: BytesMut::with_capacity(bytes), ..Encoder::default() }
    }

    /// Bytes written so far, spliced payloads included.
    #[allow(clippy::len_without_is_empty)] // a position more than a length
    pub fn len(&self) -> usize {
        self.inline.len() + self.spliced
    }

    /// The present end, for [`truncate`](Self::truncate).
    pub fn mark(&self) -> Mark {
        Mark { inline: self.inline.len(), splices: self.splices.len(), spliced: self.spliced }
    }

    /// Forgets everything written since `mark` was taken from this encoder.
    ///
    /// # Panics
    ///
    /// When the encoder was already rolled back to before `mark`: the mark no longer means anything.
    pub fn truncate(&mut self, mark: Mark) {
        assert!(
            mark.inline <= self.inline.len() && mark.splices <= self.splices.len(),
            "mark lies after the end of the encoder"
        );
        self.inline.truncate(mark.inline);
        self.splices.truncate(mark.splices);
        self.spliced = mark.spliced;
    }

    /// Overwrites the word written at `position`, which was [`len`](Self::len) just before its `put_u32`.
    ///
    /// # Panics
    ///
    /// When no small value was written there: the position is made up.
    pub fn patch_u32(&mut self, position: usize, value: u32) {
        let following = self.splices.partition_point(|splice| splice.position <= position);
        let at = match following.checked_sub(1).map(|last| &self.splices[last]) {
            Some(last) => {
                let end = last.position + last.payload.len();
                assert!(position >= end, "position {position} lies inside a payload");
                last.inline_at + (position - end)
            }
            None => position,
        };
        self.inline[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// An unsigned integer (RFC 4506 §4.2).
    pub fn put_u32(&mut self, value: u32) {
        self.inline.put_u32(value);
    }

    /// An integer (RFC 4506 §4.1).
    pub fn put_i32(&mut self, value: i32) {
        self.inline.put_i32(value);
    }

    /// An unsigned hyper integer (RFC 4506 §4.5).
    pub fn put_u64(&mut self, value: u64) {
        self.inline.put_u64(value);
    }

    /// A hyper integer (RFC 4506 §4.5).
    pub fn put_i64(&mut self, value: i64) {
        self.inline.put_i64(value);
    }

    /// A boolean (RFC 4506 §4.4).
    pub fn put_bool(&mut self, value: bool) {
        self.inline.put_u32(value.into());
    }

    /// The length word of an opaque or an array.
    ///
    /// # Panics
    ///
    /// When `length` does not fit 32 bits: XDR cannot say it.
    pub fn put_length(&mut self, length: usize) {
        self.inline.put_u32(u32::try_from(length).expect("XDR lengths have 32 bits"));
    }

    /// A fixed-length opaque with its padding (RFC 4506 §4.9); always copied.
    pub fn put_fixed(&mut self, data: &[u8]) {
        self.inline.put_slice(data);
        self.pad(data.len());
    }

    /// A variable-length opaque (RFC 4506 §4.10), copied.
    pub fn put_opaque_slice(&mut self, data: &[u8]) {
        self.put_length(data.len());
        self.put_fixed(data);
    }

    /// A variable-length opaque (RFC 4506 §4.10); kept by reference when large.
    pub fn put_opaque(&mut self, data: Bytes) {
        self.put_length(data.len());
        let len = data.len();
        self.put_raw(data);
        self.pad(len);
    }

    /// One variable-length opaque whose content lies in several pieces; large pieces are kept by reference.
    pub fn put_opaque_segments(&mut self, segments: &[Bytes]) {
        let len = segments.iter().map(Bytes::len).sum();
        self.put_length(len);
        for segment in segments {
            self.put_raw(segment.clone());
        }
        self.pad(len);
    }

    /// Bytes that are XDR already, without length or padding; kept by reference when large. The sum of what is
    /// added this way must be a multiple of 4.
    pub fn put_raw(&mut self, data: Bytes) {
        if data.len() < SPLICE_THRESHOLD {
            self.inline.put_slice(&data);
        } else {
            let position = self.len();
            self.spliced += data.len();
            self.splices.push(Splice { position, inline_at: self.inline.len(), payload: data });
        }
    }

    /// The encoding as pieces in order, none empty; the large payloads are those that were put in.
    pub fn into_segments(mut self) -> Vec<Bytes> {
        let mut segments = Vec::with_capacity(2 * self.splices.len() + 1);
        let mut taken = 0;
        for splice in self.splices {
            if splice.inline_at > taken {
                segments.push(self.inline.split_to(splice.inline_at - taken).freeze());
                taken = splice.inline_at;
            }
            segments.push(splice.payload);
        }
        if !self.inline.is_empty() {
            segments.push(self.inline.freeze());
        }
        segments
    }

    /// The encoding in one piece; copies if there are large payloads.
    pub fn into_bytes(self) -> Bytes {
        if self.splices.is_empty() {
            return self.inline.freeze();
        }
        let mut whole = BytesMut::with_capacity(self.len());
        for segment in self.into_segments() {
            whole.put_slice(&segment);
        }
        whole.freeze()
    }

    fn pad(&mut self, len: usize) {
        self.inline.put_bytes(0, len.next_multiple_of(4) - len);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn large(fill: u8, len: usize) -> Bytes {
        Bytes::from(vec![fill; len])
    }

    #[test]
    fn large_payloads_are_not_copied() {
        let (first, second) = (large(1, SPLICE_THRESHOLD), large(2, SPLICE_THRESHOLD + 1));
        let mut out = Encoder::new();
        out.put_opaque_segments(&[first.clone(), Bytes::from_static(b"abc"), second.clone()]);
        let len = out.len();
        let segments = out.into_segments();
        assert_eq!(len, segments.iter().map(Bytes::len).sum());
        assert_eq!(len, 4 + 2 * SPLICE_THRESHOLD + 4);
        assert_eq!(segments[1].as_ptr(), first.as_ptr());
        assert_eq!(&segments[2][..], b"abc");
        assert_eq!(segments[3].as_ptr(), second.as_ptr());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Word(u32),
        Opaque(usize),
        Patch(usize, u32),
        Mark,
        Truncate,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => any::<u32>().prop_map(Step::Word),
            2 => (0usize..20).prop_map(Step::Opaque),
            2 => (SPLICE_THRESHOLD - 2..SPLICE_THRESHOLD + 9).prop_map(Step::Opaque),
            2 => (any::<usize>(), any::<u32>()).prop_map(|(which, value)| Step::Patch(which, value)),
            1 => Just(Step::Mark),
            1 => Just(Step::Truncate),
        ]
    }

    proptest! {
        /// The model is one plain vector.
        #[test]
        fn an_encoder_behaves_like_one_flat_buffer(steps in vec(step(), 0..60)) {
            let mut out = Encoder::new();
            let mut model: Vec<u8> = Vec::new();
            let mut words: Vec<usize> = Vec::new();
            let mut marks: Vec<(Mark, usize)> = Vec::new();
            for (index, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Word(value) => {
                        words.push(out.len());
                        out.put_u32(value);
                        model.extend(value.to_be_bytes());
                    }
                    Step::Opaque(len) => {
                        let data = large(index as u8, len);
                        out.put_opaque(data.clone());
                        model.extend((len as u32).to_be_bytes());
                        model.extend(&data);
                        model.resize(model.len().next_multiple_of(4), 0);
                    }
                    Step::Patch(which, value) => {
                        if !words.is_empty() {
                            let at = words[which % words.len()];
                            out.patch_u32(at, value);
                            model[at..at + 4].copy_from_slice(&value.to_be_bytes());
                        }
                    }
                    Step::Mark => marks.push((out.mark(), model.len())),
                    Step::Truncate => {
                        if let Some((mark, len)) = marks.pop() {
                            out.truncate(mark);
                            model.truncate(len);
                            words.retain(|at| *at < len);
                        }
                    }
                }
                prop_assert_eq!(out.len(), model.len());
            }
            prop_assert_eq!(&out.into_bytes()[..], &model[..]);
        }
    }
}
