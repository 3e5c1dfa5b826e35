//! Formats of `stat -c`.

use vector_client::{Attributes, Kind, Owner};

use super::kind_text;
use crate::files::date;
use crate::files::mode;
use crate::files::people::People;
use crate::files::quote::{quoted, quoted_if_needed};

/// Bytes that are good to read or write at once.
const IO_BLOCK: u64 = 4096;

/// A parsed format.
pub struct Format(Vec<Part>);

enum Part {
    Text(String),
    Value(Directive),
}

struct Directive {
    left: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    /// `H` or `L` before a device number: its major or minor part.
    half: Option<char>,
    letter: char,
}

impl Format {
    /// Fails with the part that is none.
    pub fn parse(text: &str) -> Result<Format, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            parts.push(Part::Text(rest[..at].to_owned()));
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                parts.push(Part::Text("%".to_owned()));
                rest = after;
                continue;
            }
            let end = rest.find(|it: char| it.is_ascii_alphabetic());
            let end = end.filter(|_| !rest.is_empty()).ok_or_else(|| format!("%{rest}"))?;
            let (flags, after) = rest.split_at(end);
            let mut letters = after.chars();
            let first = letters.next().unwrap_or_default();
            let second = letters.next().unwrap_or_default();
            let (half, letter) = match (first, second) {
                ('H' | 'L', 'd' | 'r') => (Some(first), second),
                _ => (None, first),
            };
            let length = end + 1 + usize::from(half.is_some());
            let digits = flags.trim_start_matches(['-', '0', '#', '+', ' ']);
            let (width, precision) = match digits.split_once('.') {
                Some((width, precision)) => (width, precision.parse().ok()),
                None => (digits, None),
            };
            let width = if width.is_empty() { Ok(0) } else { width.parse() };
            let is_known = "aAbBdDfFgGhimnNorRstTuUwWxXyYzZ".contains(letter);
            let (Ok(width @ 0..=4096), true) = (width, is_known) else {
                return Err(format!("%{}", &rest[..length]));
            };
            let flags = &flags[..flags.len() - digits.len()];
            let (left, zeros) = (flags.contains('-'), flags.contains('0'));
            parts.push(Part::Value(Directive { left, zeros, width, precision, half, letter }));
            rest = &rest[length..];
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Format(parts))
    }

    /// With the attributes of a file. Names in quotes always, or only where a shell needs them.
    pub fn of(
        &self,
        name: &[u8],
        link: Option<&[u8]>,
        it: &Attributes,
        people: &People,
        quotes: bool,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend(text.as_bytes()),
                Part::Value(directive) => {
                    let quote = if quotes { quoted } else { quoted_if_needed };
                    let value = match (directive.letter, link) {
                        ('n', _) => name.to_vec(),
                        ('N', Some(link)) => format!("{} -> {}", quote(name), quote(link)).into_bytes(),
                        ('N', None) => quote(name).into_bytes(),
                        _ => directive.value(it, people).into_bytes(),
                    };
                    out.extend(directive.padded(value));
                }
            }
        }
        out
    }
}

impl Directive {
    fn padded(&self, mut value: Vec<u8>) -> Vec<u8> {
        if let Some(most) = self.precision {
            value.truncate(most);
        }
        let missing = self.width.saturating_sub(value.len());
        let is_number = "abBdDfghirRstTuWXYZo".contains(self.letter);
        match (self.left, self.zeros && is_number) {
            (true, _) => value.resize(value.len() + missing, b' '),
            (false, zeros) => {
                let fill = if zeros { b'0' } else { b' ' };
                value.splice(..0, std::iter::repeat_n(fill, missing));
            }
        }
        value
    }

    fn value(&self, it: &Attributes, people: &People) -> String {
        let number = |value: Option<u64>| value.map_or("?".to_owned(), |value| value.to_string());
        let id = |owner: &Option<Owner>| match owner {
            Some(Owner::Id(id)) => id.to_string(),
            Some(Owner::Name(name)) => name.clone(),
            None => "?".into(),
        };
        let name = |name: Result<String, u32>| name.unwrap_or_else(|_| "UNKNOWN".into());
        let seconds = |time: Option<vector_client::Time>| time.map_or(0, |time| time.seconds).to_string();
        let date = |time: Option<vector_client::Time>| time.map_or("-".to_owned(), date::full);
        let mode = it.mode.unwrap_or(0);
        let (major, minor) = it.device.unwrap_or((0, 0));
        let halves = it.file_system.unwrap_or((0, 0));
        match self.letter {
            'a' => format!("{mode:o}"),
            'A' => mode::text(it.kind, mode),
            'b' => number(it.space_used.map(|bytes| bytes / 512)),
            'B' => "512".into(),
            'd' | 'D' => match self.half {
                Some('H') => halves.0.to_string(),
                Some(_) => halves.1.to_string(),
                None if self.letter == 'd' => device(halves).to_string(),
                None => format!("{:x}", device(halves)),
            },
            'f' => format!("{:x}", kind_bits(it.kind) | mode),
            'F' => kind_text(it).into(),
            'g' => id(&it.group),
            'G' => name(people.group(it.group.as_ref())),
            'h' => number(it.links.map(u64::from)),
            'i' => number(it.file_id),
            'o' => IO_BLOCK.to_string(),
            'r' | 'R' => match self.half {
                Some('H') => major.to_string(),
                Some(_) => minor.to_string(),
                None if self.letter == 'r' => device((major.into(), minor.into())).to_string(),
                None => format!("{:x}", device((major.into(), minor.into()))),
            },
            's' => number(it.size),
            't' => format!("{major:x}"),
            'T' => format!("{minor:x}"),
            'u' => id(&it.owner),
            'U' => name(people.user(it.owner.as_ref())),
            'w' => "-".into(),
            'W' => "0".into(),
            'x' => date(it.accessed),
            'X' => seconds(it.accessed),
            'y' => date(it.modified),
            'Y' => seconds(it.modified),
            'z' => date(it.changed),
            'Z' => seconds(it.changed),
            _ => "?".into(),
        }
    }
}

/// One number of two, as the C library makes it (`makedev`).
fn device((major, minor): (u64, u64)) -> u64 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

fn kind_bits(kind: Option<Kind>) -> u32 {
    match kind {
        Some(Kind::Fifo) => 0o010000,
        Some(Kind::CharacterDevice) => 0o020000,
        Some(Kind::Directory) => 0o040000,
        Some(Kind::BlockDevice) => 0o060000,
        Some(Kind::File) => 0o100000,
        Some(Kind::SymbolicLink) => 0o120000,
        Some(Kind::Socket) => 0o140000,
        None => 0,
    }
}

/// With `\n` and its like as the characters that they stand for.
pub fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('0') => out.push('\0'),
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
    }
    out
}
