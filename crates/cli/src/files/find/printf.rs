//! Formats of `-printf`.

use vector_client::{Attributes, Time};

use super::expression::{Candidate, KINDS};
use crate::files::people::People;
use crate::files::place::trimmed;
use crate::files::{date, mode};

/// A parsed format.
pub struct Format(Vec<Part>);

enum Part {
    Text(Vec<u8>),
    Value(Directive),
}

struct Directive {
    left: bool,
    zeros: bool,
    width: usize,
    letter: char,
    /// After `A`, `C` or `T`: the part of the time.
    part: char,
}

impl Format {
    /// Fails with what is wrong.
    pub fn parse(text: &str) -> Result<Format, String> {
        let mut parts = Vec::new();
        let mut letters = text.chars().peekable();
        let mut plain = Vec::new();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => plain.push(match letters.next() {
                    Some('a') => 7,
                    Some('b') => 8,
                    Some('f') => 12,
                    Some('n') => b'\n',
                    Some('r') => b'\r',
                    Some('t') => b'\t',
                    Some('v') => 11,
                    Some('\\') | None => b'\\',
                    Some(digit @ '0'..='7') => {
                        let mut value = digit.to_digit(8).unwrap_or(0);
                        for _ in 0..2 {
                            let Some(digit) = letters.peek().and_then(|it| it.to_digit(8)) else { break };
                            value = value * 8 + digit;
                            letters.next();
                        }
                        value as u8
                    }
                    Some(other) => return Err(format!("-printf: \\{other} has no meaning")),
                }),
                '%' if letters.peek() == Some(&'%') => {
                    letters.next();
                    plain.push(b'%');
                }
                '%' => {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                    parts.push(Part::Value(Directive::parse(&mut letters)?));
                }
                _ => plain.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        parts.push(Part::Text(plain));
        Ok(Format(parts))
    }

    /// What it shows of an object.
    pub fn of(&self, it: &Candidate, people: &People) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend(text),
                Part::Value(directive) => out.extend(directive.padded(directive.value(it, people))),
            }
        }
        out
    }
}

impl Directive {
    fn parse(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Directive, String> {
        let mut flags = String::new();
        while let Some(flag) = letters.next_if(|it| matches!(it, '-' | '0')) {
            flags.push(flag);
        }
        let mut digits = String::new();
        while let Some(digit) = letters.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let width = if digits.is_empty() { Ok(0) } else { digits.parse() };
        let (Ok(width @ 0..=4096), Some(letter)) = (width, letters.next()) else {
            return Err(format!("-printf: %{flags}{digits} is no directive"));
        };
        let part = match letter {
            'A' | 'C' | 'T' => letters.next().unwrap_or(' '),
            _ => ' ',
        };
        let is_known = match part {
            ' ' => "abcdfgGhHikmMnpPstuUy".contains(letter),
            _ => "@+aAbBdDFHIjklmMpSTYy".contains(part),
        };
        if !is_known {
            return Err(format!("-printf: %{letter}{} is not known here", part.to_string().trim_end()));
        }
        Ok(Directive { left: flags.contains('-'), zeros: flags.contains('0'), width, letter, part })
    }

    fn padded(&self, mut value: Vec<u8>) -> Vec<u8> {
        let missing = self.width.saturating_sub(value.len());
        let fill = if self.zeros && "dm".contains(self.letter) { b'0' } else { b' ' };
        match self.left {
            true => value.resize(value.len() + missing, b' '),
            false => drop(value.splice(..0, std::iter::repeat_n(fill, missing))),
        }
        value
    }

    fn value(&self, it: &Candidate, people: &People) -> Vec<u8> {
        let attributes = it.attributes;
        match self.letter {
            'p' => it.path.to_vec(),
            'f' => it.name.to_vec(),
            'h' => directory(it.path).to_vec(),
            'H' => it.start.to_vec(),
            'P' => {
                let below = it.path.strip_prefix(it.start).unwrap_or(it.path);
                below.strip_prefix(b"/").unwrap_or(below).to_vec()
            }
            _ => self.text(it.depth, attributes, people).into_bytes(),
        }
    }

    fn text(&self, depth: u32, it: &Attributes, people: &People) -> String {
        let number = |value: Option<u64>| value.map_or("?".to_owned(), |value| value.to_string());
        let id = |id: Option<u32>| number(id.map(u64::from));
        let name = |name: Result<String, u32>| name.unwrap_or_else(|id| id.to_string());
        match self.letter {
            'a' => whole(it.accessed),
            'b' => number(it.space_used.map(|bytes| bytes.div_ceil(512))),
            'c' => whole(it.changed),
            'd' => depth.to_string(),
            'g' => name(people.group(it.group.as_ref())),
            'G' => id(people.id_of_group(it.group.as_ref())),
            'i' => number(it.file_id),
            'k' => number(it.space_used.map(|bytes| bytes.div_ceil(1024))),
            'm' => format!("{:o}", it.mode.unwrap_or(0)),
            'M' => mode::text(it.kind, it.mode.unwrap_or(0)),
            'n' => number(it.links.map(u64::from)),
            's' => number(it.size),
            't' => whole(it.modified),
            'u' => name(people.user(it.owner.as_ref())),
            'U' => id(people.id_of_user(it.owner.as_ref())),
            'y' => KINDS.iter().find(|(_, kind)| it.is(*kind)).map_or("U", |(letter, _)| letter).into(),
            'A' => self.part_of(it.accessed),
            'C' => self.part_of(it.changed),
            _ => self.part_of(it.modified),
        }
    }

    /// Seconds have ten places.
    fn part_of(&self, time: Option<Time>) -> String {
        let Some(time) = time else { return "?".into() };
        match self.part {
            '@' => format!("{}.{:09}0", time.seconds, time.nanoseconds),
            '+' => date::formatted(time, "%Y-%m-%d+%H:%M:%S.%f0"),
            'S' => date::formatted(time, "%S.%f0"),
            'T' => date::formatted(time, "%H:%M:%S.%f0"),
            part => date::formatted(time, &format!("%{part}")),
        }
    }
}

/// As ctime writes it, with the fraction.
fn whole(time: Option<Time>) -> String {
    time.map_or("?".into(), |time| date::formatted(time, "%a %b %e %H:%M:%S.%f0 %Y"))
}

/// The path without its last name.
fn directory(path: &[u8]) -> &[u8] {
    let path = if trimmed(path).is_empty() { path } else { trimmed(path) };
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => b"",
        Some(at) => &path[..at],
        None => b".",
    }
}
