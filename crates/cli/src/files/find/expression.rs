//! The tests of `find`, and how they are combined.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use vector_client::{AttributeSet, Attributes, Kind, Time};

use super::pattern;
use crate::files::date;

/// Parentheses and negations within each other.
const DEPTH: u32 = 100;

/// An object that was found.
pub struct Candidate<'a> {
    pub path: &'a [u8],
    pub name: &'a [u8],
    pub attributes: &'a Attributes,
}

/// What was written after the directories.
pub struct Expression {
    root: Node,
    pub min_depth: u32,
    pub max_depth: u32,
    now: Time,
    /// The files of -newer, and when they were modified, in order.
    files: Vec<OsString>,
    times: Vec<Time>,
}

enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Name {
        pattern: Vec<u8>,
        any_case: bool,
        whole_path: bool,
    },
    Kinds(Vec<Kind>),
    Size {
        count: Count,
        unit: u64,
    },
    Age {
        count: Count,
        unit: i64,
    },
    Newer(usize),
    Empty,
    True,
    /// Prints the path, and this after it.
    Print(u8),
}

/// `+N`: more, `-N`: less, `N`: just.
struct Count {
    number: u64,
    order: std::cmp::Ordering,
}

impl Count {
    fn parse(text: &str) -> Option<Count> {
        let (order, digits) = match text.as_bytes().first()? {
            b'+' => (std::cmp::Ordering::Greater, &text[1..]),
            b'-' => (std::cmp::Ordering::Less, &text[1..]),
            _ => (std::cmp::Ordering::Equal, text),
        };
        Some(Count { number: digits.parse().ok()?, order })
    }

    fn fits(&self, number: u64) -> bool {
        number.cmp(&self.number) == self.order
    }
}

/// Whether the word after this one belongs to it.
pub fn takes_argument(word: &OsStr) -> bool {
    matches!(
        word.as_bytes(),
        b"-name"
            | b"-iname"
            | b"-path"
            | b"-ipath"
            | b"-wholename"
            | b"-newer"
            | b"-maxdepth"
            | b"-mindepth"
            | b"-type"
            | b"-size"
            | b"-mtime"
            | b"-mmin"
    )
}

impl Expression {
    /// Fails with what is wrong.
    pub fn parse(words: &[OsString]) -> Result<Expression, String> {
        let expression = Expression {
            root: Node::True,
            min_depth: 0,
            max_depth: u32::MAX,
            now: date::now(),
            files: Vec::new(),
            times: Vec::new(),
        };
        let mut parser = Parser { words, at: 0, depth: 0, prints: false, expression };
        let root = if words.is_empty() { Node::True } else { parser.either()? };
        if let Some(word) = words.get(parser.at) {
            return Err(format!("paths must precede expression: `{}'", word.to_string_lossy()));
        }
        let Parser { prints, mut expression, .. } = parser;
        expression.root = if prints { root } else { Node::And(vec![root, Node::Print(b'\n')]) };
        Ok(expression)
    }

    /// The files that others have to be newer than.
    pub fn files(&self) -> Vec<OsString> {
        self.files.clone()
    }

    /// When the next of those was modified.
    pub fn know(&mut self, time: Time) {
        self.times.push(time);
    }

    /// Attributes that it asks for.
    pub fn wanted(&self) -> AttributeSet {
        self.root.wanted()
    }

    /// Whether it holds; prints on the way.
    pub fn run(&self, candidate: &Candidate, print: &mut dyn FnMut(u8)) -> bool {
        self.holds(&self.root, candidate, print)
    }

    fn holds(&self, node: &Node, it: &Candidate, print: &mut dyn FnMut(u8)) -> bool {
        let modified = it.attributes.modified.unwrap_or_default();
        match node {
            Node::And(all) => all.iter().all(|node| self.holds(node, it, print)),
            Node::Or(any) => any.iter().any(|node| self.holds(node, it, print)),
            Node::Not(node) => !self.holds(node, it, print),
            Node::Name { pattern, any_case, whole_path } => {
                let text = if *whole_path { it.path } else { it.name };
                match any_case {
                    true => pattern::fits(&pattern.to_ascii_lowercase(), &text.to_ascii_lowercase()),
                    false => pattern::fits(pattern, text),
                }
            }
            Node::Kinds(kinds) => it.attributes.kind.is_some_and(|kind| kinds.contains(&kind)),
            Node::Size { count, unit } => count.fits(it.attributes.size.unwrap_or(0).div_ceil(*unit)),
            Node::Age { count, unit } => {
                let nanoseconds = i128::from(self.now.nanoseconds) - i128::from(modified.nanoseconds);
                let age = (i128::from(self.now.seconds) - i128::from(modified.seconds)) * 1_000_000_000;
                let age = (age + nanoseconds) as f64 / 1e9 / *unit as f64;
                // Minutes are rounded up, days down.
                let age = if *unit == 60 { age.ceil() } else { age.floor() };
                match count.order {
                    _ if age < 0.0 => count.order == std::cmp::Ordering::Less,
                    _ => count.fits(age as u64),
                }
            }
            Node::Newer(index) => self.times.get(*index).is_some_and(|time| modified > *time),
            Node::Empty => it.attributes.is(Kind::File) && it.attributes.size == Some(0),
            Node::True => true,
            Node::Print(end) => {
                print(*end);
                true
            }
        }
    }
}

impl Node {
    fn wanted(&self) -> AttributeSet {
        match self {
            Node::And(nodes) | Node::Or(nodes) => {
                nodes.iter().fold(AttributeSet::NONE, |wanted, node| wanted | node.wanted())
            }
            Node::Not(node) => node.wanted(),
            Node::Kinds(_) => AttributeSet::KIND,
            Node::Size { .. } | Node::Empty => AttributeSet::SIZE | AttributeSet::KIND,
            Node::Age { .. } | Node::Newer(_) => AttributeSet::MODIFIED,
            Node::Name { .. } | Node::True | Node::Print(_) => AttributeSet::NONE,
        }
    }
}

struct Parser<'a> {
    words: &'a [OsString],
    at: usize,
    depth: u32,
    prints: bool,
    expression: Expression,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at)?.to_str()
    }

    fn either(&mut self) -> Result<Node, String> {
        let mut any = vec![self.all()?];
        while matches!(self.peek(), Some("-o" | "-or")) {
            self.at += 1;
            any.push(self.all()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Node::Or(any) })
    }

    fn all(&mut self) -> Result<Node, String> {
        let mut all = vec![self.one()?];
        loop {
            match self.peek() {
                None | Some("-o" | "-or" | ")") => break,
                Some("-a" | "-and") => {
                    self.at += 1;
                    all.push(self.one()?);
                }
                Some(_) => all.push(self.one()?),
            }
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Node::And(all) })
    }

    fn one(&mut self) -> Result<Node, String> {
        let Some(word) = self.words.get(self.at) else {
            return Err("expected an expression at the end".into());
        };
        let word = word.to_string_lossy().into_owned();
        self.at += 1;
        match &word[..] {
            "!" | "-not" | "(" => {
                self.depth += 1;
                if self.depth > DEPTH {
                    return Err("the expression is nested too deeply".into());
                }
                let node = if word == "(" { self.parenthesis()? } else { Node::Not(Box::new(self.one()?)) };
                self.depth -= 1;
                Ok(node)
            }
            "-print" | "-print0" => {
                self.prints = true;
                Ok(Node::Print(if word == "-print" { b'\n' } else { 0 }))
            }
            "-true" => Ok(Node::True),
            "-empty" => Ok(Node::Empty),
            "-name" | "-iname" | "-path" | "-ipath" | "-wholename" => {
                let pattern = self.argument(&word)?.as_bytes().to_vec();
                let any_case = word.starts_with("-i");
                let whole_path = !matches!(&word[..], "-name" | "-iname");
                Ok(Node::Name { pattern, any_case, whole_path })
            }
            "-newer" => {
                let file = self.argument(&word)?.clone();
                self.expression.files.push(file);
                Ok(Node::Newer(self.expression.files.len() - 1))
            }
            "-maxdepth" | "-mindepth" => {
                let text = self.text(&word)?;
                let depth = text.parse().map_err(|_| {
                    format!("Expected a positive decimal integer argument to {word}, but got '{text}'")
                })?;
                match &word[..] {
                    "-maxdepth" => self.expression.max_depth = depth,
                    _ => self.expression.min_depth = depth,
                }
                Ok(Node::True)
            }
            "-type" => kinds(&self.text(&word)?),
            "-size" => size(&self.text(&word)?),
            "-mtime" | "-mmin" => {
                let text = self.text(&word)?;
                let unit = if word == "-mmin" { 60 } else { 86_400 };
                match Count::parse(&text) {
                    Some(count) => Ok(Node::Age { count, unit }),
                    None => Err(format!("invalid argument `{text}' to `{word}'")),
                }
            }
            _ if word.starts_with('-') => Err(format!("unknown predicate `{word}'")),
            _ => Err(format!("paths must precede expression: `{word}'")),
        }
    }

    fn parenthesis(&mut self) -> Result<Node, String> {
        let node = self.either()?;
        if self.peek() != Some(")") {
            return Err("a ( has no )".into());
        }
        self.at += 1;
        Ok(node)
    }

    fn argument(&mut self, word: &str) -> Result<&OsString, String> {
        let argument = self.words.get(self.at).ok_or_else(|| format!("missing argument to `{word}'"))?;
        self.at += 1;
        Ok(argument)
    }

    fn text(&mut self, word: &str) -> Result<String, String> {
        Ok(self.argument(word)?.to_string_lossy().into_owned())
    }
}

fn kinds(text: &str) -> Result<Node, String> {
    let kind = |letter: &str| match letter {
        "f" => Ok(Kind::File),
        "d" => Ok(Kind::Directory),
        "l" => Ok(Kind::SymbolicLink),
        "b" => Ok(Kind::BlockDevice),
        "c" => Ok(Kind::CharacterDevice),
        "p" => Ok(Kind::Fifo),
        "s" => Ok(Kind::Socket),
        _ => Err(format!("Unknown argument to -type: {letter}")),
    };
    text.split(',').map(kind).collect::<Result<_, _>>().map(Node::Kinds)
}

fn size(text: &str) -> Result<Node, String> {
    let (digits, unit) = match text.chars().last() {
        Some('c') => (&text[..text.len() - 1], 1),
        Some('w') => (&text[..text.len() - 1], 2),
        Some('b') => (&text[..text.len() - 1], 512),
        Some('k') => (&text[..text.len() - 1], 1 << 10),
        Some('M') => (&text[..text.len() - 1], 1 << 20),
        Some('G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 512),
    };
    let count = Count::parse(digits).ok_or_else(|| format!("Invalid argument `{text}' to -size"))?;
    Ok(Node::Size { count, unit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str], name: &str, kind: Kind, size: u64) -> bool {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut attributes = Attributes::default();
        (attributes.kind, attributes.size) = (Some(kind), Some(size));
        let mut printed = false;
        let path = format!("dir/{name}");
        let candidate = Candidate { path: path.as_bytes(), name: name.as_bytes(), attributes: &attributes };
        Expression::parse(&words).unwrap().run(&candidate, &mut |_| printed = true);
        printed
    }

    #[test]
    fn tests_are_combined_as_they_are_written() {
        let file = |words: &[&str], name| shown(words, name, Kind::File, 1500);
        assert!(file(&[], "a"));
        assert!(file(&["-name", "*.c", "-o", "-name", "*.h"], "x.h"));
        assert!(!file(&["-name", "*.c", "-name", "*.h"], "x.h"));
        assert!(file(&["!", "-name", "*.c"], "x.h"));
        assert!(!file(&["-not", "(", "-name", "*.c", "-o", "-type", "f", ")"], "x.h"));
        assert!(file(&["-path", "dir/*"], "a") && !file(&["-name", "dir/*"], "a"));
        assert!(file(&["-iname", "A*"], "abc") && !file(&["-name", "A*"], "abc"));
        assert!(
            file(&["-size", "2k"], "a") && file(&["-size", "+1k"], "a") && file(&["-size", "-2000c"], "a")
        );
        assert!(file(&["-type", "d,f"], "a") && !file(&["-type", "d"], "a"));
        assert!(file(&["-type", "d", "-o", "-print"], "a") && !file(&["-type", "d", "-print"], "a"));
    }

    #[test]
    fn a_word_takes_an_argument_if_it_is_refused_without_one() {
        let words = "-name -iname -path -ipath -wholename -newer -maxdepth -mindepth -type -size -mtime -mmin \
                     -print -print0 -true -empty -a -and -o -or ! -not ( ) -- - name -newname";
        for word in words.split_whitespace().map(OsString::from) {
            let parsed = Expression::parse(std::slice::from_ref(&word));
            let misses = parsed.is_err_and(|wrong| wrong.starts_with("missing argument"));
            assert_eq!(takes_argument(&word), misses, "{word:?}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for words in [
            &["-nme", "a"][..],
            &["-name"],
            &["(", "-name", "a"],
            &["-name", "a", ")"],
            &["-o"],
            &["-type", "q"],
            &["-size", "x"],
            &["-maxdepth", "-1"],
            &["-name", "a", "b"],
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert!(Expression::parse(&words).is_err(), "{words:?}");
        }
    }
}
