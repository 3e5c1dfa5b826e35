//! Arithmetic in GF(2^8) with the polynomial 0x11d, in constants.

/// x^8 + x^4 + x^3 + x^2 + 1.
const POLYNOMIAL: u16 = 0x11d;

/// The product of two elements, bit by bit: for making tables, and as their definition.
pub(crate) const fn multiply(a: u8, b: u8) -> u8 {
    let (mut shifted, mut product, mut bit) = (a as u16, 0, 0);
    while bit < 8 {
        if b >> bit & 1 == 1 {
            product ^= shifted;
        }
        shifted <<= 1;
        if shifted & 0x100 != 0 {
            shifted ^= POLYNOMIAL;
        }
        bit += 1;
    }
    product as u8
}

/// The element with which `a` gives 1; 0 for 0, which has none.
pub(crate) fn invert(a: u8) -> u8 {
    INVERSES[usize::from(a)]
}

static INVERSES: [u8; 256] = {
    let mut out = [0; 256];
    // The powers of 2 are all elements but zero, and 2^i * 2^(255 - i) = 1.
    let (mut powers, mut exponent) = ([1; 256], 1);
    while exponent < 256 {
        powers[exponent] = multiply(powers[exponent - 1], 2);
        exponent += 1;
    }
    while exponent > 0 {
        exponent -= 1;
        out[powers[exponent] as usize] = powers[255 - exponent];
    }
    out
};

/// Multiplication by one constant, in the shapes that the kernels want.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Multiplier {
    /// The products with 0 to 15.
    pub(crate) low: [u8; 16],
    /// The products with 0x00, 0x10, ... 0xf0.
    pub(crate) high: [u8; 16],
    /// The multiplication as a bit matrix for `GF2P8AFFINEQB`: byte 7 - i selects the input bits whose sum is
    /// output bit i.
    pub(crate) affine: u64,
}

impl Multiplier {
    /// One product.
    pub(crate) fn apply(&self, byte: u8) -> u8 {
        self.low[usize::from(byte & 15)] ^ self.high[usize::from(byte >> 4)]
    }

    const fn new(constant: u8) -> Multiplier {
        let mut out = Multiplier { low: [0; 16], high: [0; 16], affine: 0 };
        let mut i = 0;
        while i < 16 {
            out.low[i] = multiply(constant, i as u8);
            out.high[i] = multiply(constant, (i as u8) << 4);
            i += 1;
        }
        let mut input = 0;
        while input < 8 {
            let product = multiply(constant, 1 << input);
            let mut output = 0;
            while output < 8 {
                if product >> output & 1 == 1 {
                    out.affine |= 1 << ((7 - output) * 8 + input);
                }
                output += 1;
            }
            input += 1;
        }
        out
    }
}

/// The multiplier of every constant.
pub(crate) static MULTIPLIERS: [Multiplier; 256] = {
    let mut out = [Multiplier::new(0); 256];
    let mut constant = 0;
    while constant < 256 {
        out[constant] = Multiplier::new(constant as u8);
        constant += 1;
    }
    out
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_products() {
        assert_eq!(multiply(2, 0x80), 0x1d);
        assert_eq!(multiply(0x8e, 2), 1);
        assert_eq!(multiply(0, 7), 0);
    }

    #[test]
    fn every_element_but_zero_has_an_inverse() {
        assert_eq!(invert(0), 0);
        for a in 1..=255 {
            assert_eq!(multiply(a, invert(a)), 1, "{a}");
        }
    }

    #[test]
    fn tables_and_bit_matrices_agree_with_the_product() {
        for constant in 0..=255u8 {
            let multiplier = &MULTIPLIERS[usize::from(constant)];
            for byte in 0..=255u8 {
                let product = multiply(constant, byte);
                assert_eq!(multiplier.apply(byte), product);
                let rows = multiplier.affine.to_le_bytes();
                let affine =
                    (0..8).fold(0, |out, i| out | ((rows[7 - i] & byte).count_ones() as u8 & 1) << i);
                assert_eq!(affine, product, "{constant} * {byte}");
            }
        }
    }
}
