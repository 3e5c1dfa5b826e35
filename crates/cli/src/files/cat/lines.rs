use std::borrow::Cow;

/// How lines are shown.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Number the lines
    #[arg(short = 'n', long)]
    number: bool,
    /// Number the lines that are not empty
    #[arg(short = 'b', long)]
    number_nonblank: bool,
    /// No more than one empty line in a row
    #[arg(short = 's', long)]
    squeeze_blank: bool,
    /// Show $ at the end of each line
    #[arg(short = 'E', long)]
    show_ends: bool,
    /// Show tabs as ^I
    #[arg(short = 'T', long)]
    show_tabs: bool,
    /// Show control characters as ^X, and bytes above 127 as M-x
    #[arg(short = 'v', long)]
    show_nonprinting: bool,
    /// As -vET
    #[arg(short = 'A', long)]
    show_all: bool,
    /// As -vE
    #[arg(short = 'e')]
    ends_and_nonprinting: bool,
    /// As -vT
    #[arg(short = 't')]
    tabs_and_nonprinting: bool,
    /// Accepted, and makes no difference
    #[arg(short = 'u')]
    unbuffered: bool,
}

/// Lines as they are shown, piece by piece: a line may go on in the next piece, and in the next file.
pub struct Lines {
    manner: Manner,
    ends: bool,
    tabs: bool,
    nonprinting: bool,
    number: u64,
    is_at_start: bool,
    was_empty: bool,
    /// A carriage return came last, which is shown if the line ends here.
    has_return: bool,
}

impl Lines {
    pub fn new(manner: Manner) -> Lines {
        let Manner { show_all, ends_and_nonprinting, tabs_and_nonprinting, .. } = manner;
        Lines {
            manner,
            ends: manner.show_ends || show_all || ends_and_nonprinting,
            tabs: manner.show_tabs || show_all || tabs_and_nonprinting,
            nonprinting: manner.show_nonprinting || show_all || ends_and_nonprinting || tabs_and_nonprinting,
            number: 1,
            is_at_start: true,
            was_empty: false,
            has_return: false,
        }
    }

    /// What is shown of the next bytes.
    pub fn shown<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.manner == Manner::default() {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 8);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, has_end) = match line.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (line, false),
            };
            if self.is_at_start {
                let is_empty = text.is_empty();
                let is_repeated = is_empty && self.was_empty;
                self.was_empty = is_empty;
                if is_repeated && self.manner.squeeze_blank {
                    continue;
                }
                if self.manner.number_nonblank && !is_empty
                    || self.manner.number && !self.manner.number_nonblank
                {
                    out.extend(format!("{:6}\t", self.number).into_bytes());
                    self.number += 1;
                }
            }
            self.is_at_start = has_end;
            self.text(text, has_end, &mut out);
            if has_end {
                if self.ends {
                    out.push(b'$');
                }
                out.push(b'\n');
            }
        }
        Cow::Owned(out)
    }

    /// What is left at the end of all.
    pub fn end(&mut self) -> &'static [u8] {
        if std::mem::take(&mut self.has_return) { b"\r" } else { b"" }
    }

    fn text(&mut self, mut text: &[u8], has_end: bool, out: &mut Vec<u8>) {
        if !(self.ends || self.tabs || self.nonprinting) {
            return out.extend(text);
        }
        if self.ends && !self.nonprinting {
            let is_end = text.is_empty() && has_end;
            if std::mem::take(&mut self.has_return) {
                out.extend(if is_end { &b"^M"[..] } else { b"\r" });
            }
            if let Some((b'\r', before)) = text.split_last() {
                text = before;
                self.has_return = true;
            }
        }
        for &byte in text {
            match byte {
                b'\t' if self.tabs => out.extend(b"^I"),
                b'\t' => out.push(b'\t'),
                _ if self.nonprinting => nonprinting(byte, out),
                _ => out.push(byte),
            }
        }
        if has_end && std::mem::take(&mut self.has_return) {
            out.extend(b"^M");
        }
    }
}

fn nonprinting(byte: u8, out: &mut Vec<u8>) {
    let low = byte & 0x7f;
    if byte >= 0x80 {
        out.extend(b"M-");
    }
    match low {
        0x7f => out.extend(b"^?"),
        0x20.. => out.push(low),
        _ => out.extend([b'^', low + 64]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_numbered_squeezed_and_marked() {
        let shown = |manner, text: &[u8]| {
            let mut lines = Lines::new(manner);
            let mut out = lines.shown(text).into_owned();
            out.extend(lines.end());
            String::from_utf8(out).unwrap()
        };
        let text = b"a\n\n\n\tb\r\n\x01\xe4";
        let manner = Manner::default();
        assert_eq!(
            shown(Manner { number: true, squeeze_blank: true, ..manner }, b"a\n\n\nb\n"),
            "     1\ta\n     2\t\n     3\tb\n"
        );
        let nonblank = Manner { number: true, number_nonblank: true, ..manner };
        assert_eq!(shown(nonblank, b"a\n\nb"), "     1\ta\n\n     2\tb");
        assert_eq!(shown(Manner { show_all: true, ..manner }, text), "a$\n$\n$\n^Ib^M$\n^AM-d");
        assert_eq!(shown(Manner { show_ends: true, ..manner }, b"a\r\n\rb\r"), "a^M$\n\rb\r");
    }

    proptest! {
        /// Wherever a read ends.
        #[test]
        fn pieces_make_no_difference(
            text in prop::collection::vec(prop::sample::select(b"a\n\t\r\x01\xff".to_vec()), 0..60),
            at in any::<prop::sample::Index>(),
            flags in prop::array::uniform9(any::<bool>()),
        ) {
            let [number, number_nonblank, squeeze_blank, show_ends, show_tabs, show_nonprinting, show_all,
                ends_and_nonprinting, tabs_and_nonprinting] = flags;
            let manner = Manner { number, number_nonblank, squeeze_blank, show_ends, show_tabs, show_nonprinting,
                show_all, ends_and_nonprinting, tabs_and_nonprinting, ..Manner::default() };
            let all = |pieces: &[&[u8]]| {
                let mut lines = Lines::new(manner);
                let mut out: Vec<u8> = pieces.iter().flat_map(|piece| lines.shown(piece).into_owned()).collect();
                out.extend(lines.end());
                out
            };
            let (start, rest) = text.split_at(at.index(text.len() + 1));
            prop_assert_eq!(all(&[start, rest]), all(&[&text]));
        }
    }
}
