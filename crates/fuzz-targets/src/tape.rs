/// Turns bytes into choices, one byte after the other, so that a fuzzer's small change is a small change of what
/// happens. Beyond its end it gives zeros.
pub(crate) struct Tape<'a> {
    rest: &'a [u8],
}

/// Numbers at the edges of what decoders and servers compute with.
const EDGES: [u64; 16] = [
    u64::MAX,
    u64::MAX - 1,
    1 << 63,
    (1 << 63) - 1,
    u32::MAX as u64,
    u32::MAX as u64 + 1,
    1 << 31,
    (1 << 31) - 1,
    1 << 40,
    1 << 24,
    (1 << 16) - 1,
    1 << 16,
    4096,
    4095,
    512,
    256,
];

impl<'a> Tape<'a> {
    pub fn new(bytes: &'a [u8]) -> Tape<'a> {
        Tape { rest: bytes }
    }

    pub fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    pub fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// A small number, or one that is close to an edge.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            edge @ 0xf0.. => EDGES[usize::from(edge & 0x0f)],
            small => small.into(),
        }
    }

    pub fn number32(&mut self) -> u32 {
        self.number() as u32
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let at = usize::from(self.byte());
        from.get(at % from.len().max(1)).cloned()
    }

    /// Up to 255 bytes, preceded by their number.
    pub fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.rest.len());
        let (bytes, rest) = self.rest.split_at(length);
        self.rest = rest;
        bytes
    }
}
