//! Valid encodings of every operation, callback and attribute of NFS: those that crate `nfs4` is tested with.

use bytes::Bytes;

pub(crate) struct Vector {
    /// `args`, `res`, `cb_args`, `cb_res` or `attribute`.
    kind: &'static str,
    /// Name of the operation, or number of the attribute.
    pub name: &'static str,
    pub wire: Bytes,
}

pub(crate) fn of(kind: &str) -> impl Iterator<Item = Vector> {
    let lines = include_str!("../../nfs4/tests/vectors/wire.txt").lines();
    let vectors = lines.filter(|line| !line.starts_with('#')).map(|line| {
        let mut fields = line.split(' ');
        let mut next = || fields.next().expect("three fields a line");
        Vector { kind: next(), name: next(), wire: bytes(next()) }
    });
    vectors.filter(move |vector| vector.kind == kind)
}

fn bytes(hex: &str) -> Bytes {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("hexadecimal") as u8;
    let pairs = hex.trim_start_matches('-').as_bytes().chunks(2);
    pairs.map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
