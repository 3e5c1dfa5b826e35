/// Stretches or folds a constant to `N` bytes (n-fold, RFC 3961 §5.1): copies of the input, each rotated by 13 bits
/// more than the one before, added up in ones' complement.
pub(crate) fn fold<const N: usize>(input: &[u8]) -> [u8; N] {
    let bits = input.len() * 8;
    let total = input.len() / greatest_common_divisor(input.len(), N) * N;
    // The copies one after the other, as bytes.
    let byte = |index: usize| {
        let rotation = 13 * (index / input.len());
        (0..8).fold(0u8, |byte, bit| {
            let from = (index % input.len() * 8 + bit + bits - rotation % bits) % bits;
            byte << 1 | (input[from / 8] >> (7 - from % 8) & 1)
        })
    };
    let mut sum = [0u8; N];
    for start in (0..total).step_by(N) {
        let mut carry = 0;
        for at in (0..N).rev() {
            let value = u16::from(sum[at]) + u16::from(byte(start + at)) + carry;
            sum[at] = value as u8;
            carry = value >> 8;
        }
        // The end-around carry.
        for at in (0..N).rev() {
            let value = u16::from(sum[at]) + carry;
            sum[at] = value as u8;
            carry = value >> 8;
        }
    }
    sum
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;

    use super::*;

    #[test]
    fn the_examples_of_rfc_3961_come_out() {
        assert_eq!(HEXLOWER.encode(&fold::<8>(b"012345")), "be072631276b1955");
        assert_eq!(HEXLOWER.encode(&fold::<7>(b"password")), "78a07b6caf85fa");
        assert_eq!(HEXLOWER.encode(&fold::<8>(b"Rough Consensus, and Running Code")), "bb6ed30870b7f0e0");
        assert_eq!(HEXLOWER.encode(&fold::<16>(b"kerberos")), "6b65726265726f737b9b5b2b93132b93");
    }
}
