use std::cell::LazyCell;

use crate::gf256::{MULTIPLIERS, invert};

/// The coefficient of data shard `column` in fragment `row` of a code with `data` data shards: the identity, then
/// a Cauchy matrix, as ISA-L's `gf_gen_cauchy1_matrix` makes it.
pub(crate) fn coefficient(data: usize, row: usize, column: usize) -> u8 {
    debug_assert!(row < 256 && column < data);
    if row < data { u8::from(row == column) } else { invert((row ^ column) as u8) }
}

/// The rows `wanted` of the code, expressed by the `data` fragments `given`: fragment `wanted[r]` is the sum over
/// c of `result[r][c]` * fragment `given[c]`.
///
/// `given` holds `data` different rows; every such set determines all fragments.
pub(crate) fn express(data: usize, given: &[usize], wanted: &[usize]) -> Vec<Vec<u8>> {
    assert_eq!(given.len(), data, "as many fragments determine a block as it has data shards");
    let given_rows = || given.iter().map(|&row| row_of(data, row)).collect();
    let inverse = LazyCell::new(|| inverted(given_rows()));
    let expressed = |&wanted: &usize| match given.iter().position(|have| *have == wanted) {
        Some(at) => (0..data).map(|column| u8::from(column == at)).collect(),
        None => {
            let row = row_of(data, wanted);
            let column = |c: usize| (0..data).fold(0, |sum, i| sum ^ multiply(row[i], inverse[i][c]));
            (0..data).map(column).collect()
        }
    };
    wanted.iter().map(expressed).collect()
}

/// By table.
fn multiply(a: u8, b: u8) -> u8 {
    MULTIPLIERS[usize::from(a)].apply(b)
}

fn row_of(data: usize, row: usize) -> Vec<u8> {
    (0..data).map(|column| coefficient(data, row, column)).collect()
}

/// Gauss-Jordan elimination. The matrix is a choice of different rows of the code, so it can be inverted.
fn inverted(mut matrix: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let size = matrix.len();
    let mut inverse: Vec<Vec<u8>> =
        (0..size).map(|i| (0..size).map(|j| u8::from(i == j)).collect()).collect();
    for column in 0..size {
        let pivot = (column..size)
            .find(|&row| matrix[row][column] != 0)
            .expect("every square submatrix of a Cauchy matrix below an identity can be inverted");
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let scale = invert(matrix[column][column]);
        for i in 0..size {
            matrix[column][i] = multiply(matrix[column][i], scale);
            inverse[column][i] = multiply(inverse[column][i], scale);
        }
        let (pivot_row, pivot_inverse) = (matrix[column].clone(), inverse[column].clone());
        for row in (0..size).filter(|&row| row != column) {
            let factor = matrix[row][column];
            for i in 0..size {
                matrix[row][i] ^= multiply(factor, pivot_row[i]);
                inverse[row][i] ^= multiply(factor, pivot_inverse[i]);
            }
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computed by ISA-L's `gf_gen_cauchy1_matrix`: 1 / (row xor column) below the identity.
    #[test]
    fn the_matrix_of_4_plus_2_is_that_of_isa_l() {
        let row = |row| (0..4).map(|column| coefficient(4, row, column)).collect::<Vec<_>>();
        assert_eq!(row(2), [0, 0, 1, 0]);
        assert_eq!(row(4), [invert(4), invert(5), invert(6), invert(7)]);
        assert_eq!(row(4), [0x47, 0xa7, 0x7a, 0xba]);
        assert_eq!(row(5), [0xa7, 0x47, 0xba, 0x7a]);
    }

    #[test]
    fn every_choice_of_rows_of_small_codes_can_be_inverted() {
        for (data, total) in [(1, 6), (2, 6), (3, 7), (4, 8)] {
            for choice in 0u32..1 << total {
                let given: Vec<usize> = (0..total).filter(|row| choice >> row & 1 == 1).collect();
                if given.len() == data {
                    let all: Vec<usize> = (0..total).collect();
                    for (wanted, row) in express(data, &given, &all).iter().enumerate() {
                        let term = |c: usize, at: usize| multiply(row[at], coefficient(data, given[at], c));
                        let back = (0..data).map(|c| (0..data).fold(0, |sum, at| sum ^ term(c, at)));
                        assert!(back.eq(row_of(data, wanted)), "{wanted} from {given:?}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn fragments_expressed_by_others_equal_the_code(
            data in 1usize..=16,
            order in Just((0..32usize).collect::<Vec<_>>()).prop_shuffle(),
            shards in prop::array::uniform16(any::<u8>()),
        ) {
            let fragment = |row| (0..data).fold(0, |sum, c| sum ^ multiply(coefficient(data, row, c), shards[c]));
            let (given, wanted) = order.split_at(data);
            for (row, coefficients) in wanted.iter().zip(express(data, given, wanted)) {
                let sum = given.iter().zip(coefficients).fold(0, |sum, (&g, c)| sum ^ multiply(c, fragment(g)));
                prop_assert_eq!(sum, fragment(*row));
            }
        }
    }
}
