//! The values in `wire.txt`.

use bytes::Bytes;

/// One value of the RFC's own text.
pub struct Vector {
    /// `args`, `res`, `cb_args`, `cb_res` or `attribute`.
    pub kind: &'static str,
    /// The operation, or the number of the attribute.
    pub name: &'static str,
    /// The XDR form.
    pub wire: Bytes,
}

/// All of them.
pub fn all() -> impl Iterator<Item = Vector> {
    let lines = include_str!("wire.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let mut fields = line.split(' ');
        let mut next = || fields.next().expect("three fields a line");
        Vector { kind: next(), name: next(), wire: bytes(next()) }
    })
}

/// Those of one kind.
pub fn of(kind: &str) -> impl Iterator<Item = Vector> {
    all().filter(move |vector| vector.kind == kind)
}

fn bytes(hex: &str) -> Bytes {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("hexadecimal") as u8;
    hex.trim_start_matches('-')
        .as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}
