use bytes::Bytes;

const LENGTH: usize = 256 << 10;
static ZEROS: [u8; LENGTH] = [0; LENGTH];

/// Appends `length` zero bytes to `out`, as slices of one static buffer.
pub fn zeros(length: u64, out: &mut Vec<Bytes>) {
    let mut left = length;
    while left > 0 {
        let step = left.min(LENGTH as u64);
        out.push(Bytes::from_static(&ZEROS[..step as usize]));
        left -= step;
    }
}
