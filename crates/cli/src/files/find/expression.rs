//! The tests of `find`, and how they are combined.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use vector_client::{AttributeSet, Attributes, Kind, Owner, Time};

use super::printf::Format;
use crate::files::people::People;
use crate::files::{date, mode, pattern};

/// Letters of -type, and of %y.
pub const KINDS: [(&str, Kind); 7] = [
    ("f", Kind::File),
    ("d", Kind::Directory),
    ("l", Kind::SymbolicLink),
    ("b", Kind::BlockDevice),
    ("c", Kind::CharacterDevice),
    ("p", Kind::Fifo),
    ("s", Kind::Socket),
];

/// Parentheses and negations within each other.
const DEPTH: u32 = 100;

/// An object that was found.
pub struct Candidate<'a> {
    /// As it is shown.
    pub path: &'a [u8],
    pub name: &'a [u8],
    pub attributes: &'a Attributes,
    /// Where the search began, as it is shown, and how far below this is.
    pub start: &'a [u8],
    pub depth: u32,
    /// Of a directory, whether nothing is in it, if that was asked for.
    pub is_empty: bool,
}

/// What is to be done with an object.
pub enum Act<'a> {
    /// Print the path, and this after it.
    Print(u8),
    /// Print it like this.
    Format(&'a Format),
    /// Look for nothing in it.
    Prune,
    Delete,
    /// Look no further.
    Quit,
}

/// What was written after the directories.
pub struct Expression {
    root: Node,
    pub min_depth: u32,
    pub max_depth: u32,
    /// What is in a directory comes before it.
    pub is_depth_first: bool,
    now: Time,
    /// If somebody is asked for.
    people: Option<People>,
    /// The files of -newer, and when they were modified, in order.
    files: Vec<OsString>,
    times: Vec<Time>,
}

enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Name { pattern: Vec<u8>, any_case: bool, whole_path: bool },
    Kinds(Vec<Kind>),
    Size { count: Count, unit: u64 },
    Age { count: Count, unit: i64 },
    Newer(usize),
    Empty,
    Permissions { bits: u32, how: Bits },
    User(Who),
    Group(Who),
    UserId(Count),
    GroupId(Count),
    Links(Count),
    FileId(Count),
    True,
    False,
    Print(u8),
    Format(Format),
    Prune,
    Delete,
    Quit,
}

/// Which of the permission bits have to be set.
enum Bits {
    /// These and no others.
    Just,
    All,
    Any,
}

/// A name, and the number that it has on this machine.
struct Who {
    name: String,
    id: u32,
}

impl Who {
    fn is(&self, owner: Option<&Owner>) -> bool {
        match owner {
            Some(Owner::Id(id)) => *id == self.id,
            Some(Owner::Name(name)) => name.split('@').next() == Some(self.name.as_str()),
            None => false,
        }
    }
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
            | b"-perm"
            | b"-user"
            | b"-group"
            | b"-uid"
            | b"-gid"
            | b"-links"
            | b"-inum"
            | b"-printf"
    )
}

impl Expression {
    /// Fails with what is wrong.
    pub fn parse(words: &[OsString]) -> Result<Expression, String> {
        let expression = Expression {
            root: Node::True,
            min_depth: 0,
            max_depth: u32::MAX,
            is_depth_first: false,
            now: date::now(),
            people: None,
            files: Vec::new(),
            times: Vec::new(),
        };
        let mut parser = Parser { words, at: 0, depth: 0, acts: false, says_depth: false, expression };
        let root = if words.is_empty() { Node::True } else { parser.either()? };
        if let Some(word) = words.get(parser.at) {
            return Err(format!("paths must precede expression: `{}'", word.to_string_lossy()));
        }
        let Parser { acts, says_depth, mut expression, .. } = parser;
        expression.root = if acts { root } else { Node::And(vec![root, Node::Print(b'\n')]) };
        let has = |what: fn(&Node) -> bool| expression.root.has(what);
        let deletes = has(|node| matches!(node, Node::Delete));
        if deletes && !says_depth && has(|node| matches!(node, Node::Prune)) {
            return Err(
                "-delete turns on -depth, and -prune does nothing then; say -depth to carry on anyway".into(),
            );
        }
        if deletes && expression.root.depends_on_deletion() {
            return Err("names are deleted by the hundred, after the tests: nothing but -print and -printf may depend on -delete".into());
        }
        expression.is_depth_first = says_depth || deletes;
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

    /// Whether it asks if a directory is empty.
    pub fn asks_if_empty(&self) -> bool {
        self.root.has(|node| matches!(node, Node::Empty))
    }

    /// Attributes that it asks for.
    pub fn wanted(&self) -> AttributeSet {
        self.root.wanted()
    }

    /// Whether it holds; tells what is to be done on the way.
    pub fn run<'a>(&'a self, candidate: &Candidate, act: &mut dyn FnMut(Act<'a>)) -> bool {
        self.holds(&self.root, candidate, act)
    }

    fn holds<'a>(&self, node: &'a Node, it: &Candidate, act: &mut dyn FnMut(Act<'a>)) -> bool {
        match node {
            Node::And(all) => all.iter().all(|node| self.holds(node, it, act)),
            Node::Or(any) => any.iter().any(|node| self.holds(node, it, act)),
            Node::Not(node) => !self.holds(node, it, act),
            Node::Name { pattern, any_case, whole_path } => {
                let text = if *whole_path { it.path } else { it.name };
                match any_case {
                    true => pattern::fits(&pattern.to_ascii_lowercase(), &text.to_ascii_lowercase()),
                    false => pattern::fits(pattern, text),
                }
            }
            Node::Kinds(kinds) => it.attributes.kind.is_some_and(|kind| kinds.contains(&kind)),
            Node::Size { count, unit } => {
                it.attributes.size.is_some_and(|size| count.fits(size.div_ceil(*unit)))
            }
            Node::Age { count, unit } => {
                let Some(modified) = it.attributes.modified else { return false };
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
            Node::Newer(index) => {
                self.times.get(*index).is_some_and(|time| it.attributes.modified > Some(*time))
            }
            Node::Empty => it.is_empty || it.attributes.is(Kind::File) && it.attributes.size == Some(0),
            Node::Permissions { bits, how } => {
                let Some(set) = it.attributes.mode else { return false };
                match how {
                    Bits::Just => set == *bits,
                    Bits::All => set & bits == *bits,
                    Bits::Any => *bits == 0 || set & bits != 0,
                }
            }
            Node::User(who) => who.is(it.attributes.owner.as_ref()),
            Node::Group(who) => who.is(it.attributes.group.as_ref()),
            Node::UserId(count) => {
                let id =
                    self.people.as_ref().and_then(|people| people.id_of_user(it.attributes.owner.as_ref()));
                id.is_some_and(|id| count.fits(u64::from(id)))
            }
            Node::GroupId(count) => {
                let id =
                    self.people.as_ref().and_then(|people| people.id_of_group(it.attributes.group.as_ref()));
                id.is_some_and(|id| count.fits(u64::from(id)))
            }
            Node::Links(count) => it.attributes.links.is_some_and(|links| count.fits(u64::from(links))),
            Node::FileId(count) => it.attributes.file_id.is_some_and(|id| count.fits(id)),
            Node::True => true,
            Node::False => false,
            action => {
                act(match action {
                    Node::Print(end) => Act::Print(*end),
                    Node::Format(format) => Act::Format(format),
                    Node::Prune => Act::Prune,
                    Node::Delete => Act::Delete,
                    _ => Act::Quit,
                });
                true
            }
        }
    }
}

impl Node {
    /// Whether this or a part of it is such a one.
    fn has(&self, what: fn(&Node) -> bool) -> bool {
        what(self)
            || match self {
                Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(|node| node.has(what)),
                Node::Not(node) => node.has(what),
                _ => false,
            }
    }

    /// Whether it makes a difference if something could be deleted.
    fn depends_on_deletion(&self) -> bool {
        let deletes = |node: &Node| node.has(|node| matches!(node, Node::Delete));
        let prints = |node: &Node| matches!(node, Node::Print(_) | Node::Format(_));
        match self {
            Node::Not(node) => deletes(node),
            Node::And(nodes) => {
                let after = nodes.iter().skip_while(|node| !deletes(node)).skip(1);
                !after.into_iter().all(prints) || nodes.iter().any(Node::depends_on_deletion)
            }
            Node::Or(nodes) => {
                let before = nodes.len().saturating_sub(1);
                nodes.iter().take(before).any(deletes) || nodes.iter().any(Node::depends_on_deletion)
            }
            _ => false,
        }
    }

    fn wanted(&self) -> AttributeSet {
        match self {
            Node::And(nodes) | Node::Or(nodes) => {
                nodes.iter().fold(AttributeSet::NONE, |wanted, node| wanted | node.wanted())
            }
            Node::Not(node) => node.wanted(),
            Node::Kinds(_) => AttributeSet::KIND,
            Node::Size { .. } | Node::Empty => AttributeSet::SIZE | AttributeSet::KIND,
            Node::Age { .. } | Node::Newer(_) => AttributeSet::MODIFIED,
            Node::Permissions { .. } => AttributeSet::MODE,
            Node::User(_) | Node::UserId(_) => AttributeSet::OWNER,
            Node::Group(_) | Node::GroupId(_) => AttributeSet::GROUP,
            Node::Links(_) => AttributeSet::LINKS,
            Node::FileId(_) => AttributeSet::FILE_ID,
            Node::Format(_) => AttributeSet::STAT,
            Node::Name { .. } | Node::True | Node::False => AttributeSet::NONE,
            Node::Print(_) | Node::Prune | Node::Delete | Node::Quit => AttributeSet::NONE,
        }
    }
}

struct Parser<'a> {
    words: &'a [OsString],
    at: usize,
    depth: u32,
    /// Whether it says what is to be done.
    acts: bool,
    says_depth: bool,
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
            "-print" => Ok(self.action(Node::Print(b'\n'))),
            "-print0" => Ok(self.action(Node::Print(0))),
            "-delete" => Ok(self.action(Node::Delete)),
            "-quit" => Ok(Node::Quit),
            "-printf" => {
                let format = self.argument(&word)?.to_str().ok_or("-printf: the format is not UTF-8")?;
                let format = Format::parse(format)?;
                Ok(self.action(Node::Format(format)))
            }
            // With these alone, what is found is printed.
            "-prune" => Ok(Node::Prune),
            "-depth" | "-d" => {
                self.says_depth = true;
                Ok(Node::True)
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => Err(format!(
                "{word}: programs are not run, for they do not know the files of servers; use -print0 | xargs -0"
            )),
            "-true" => Ok(Node::True),
            "-false" => Ok(Node::False),
            "-perm" => permissions(&self.text(&word)?),
            "-user" => {
                let name = self.text(&word)?;
                let id = self.people().user_id(&name).or_else(|| name.parse().ok());
                let id = id.ok_or_else(|| format!("'{name}' is not the name of a known user"))?;
                Ok(Node::User(Who { name, id }))
            }
            "-group" => {
                let name = self.text(&word)?;
                let id = self.people().group_id(&name).or_else(|| name.parse().ok());
                let id = id.ok_or_else(|| format!("'{name}' is not the name of an existing group"))?;
                Ok(Node::Group(Who { name, id }))
            }
            "-uid" | "-gid" => {
                self.people();
                let node = if word == "-uid" { Node::UserId } else { Node::GroupId };
                self.count(&word).map(node)
            }
            "-links" => self.count(&word).map(Node::Links),
            "-inum" => self.count(&word).map(Node::FileId),
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
                let unit = if word == "-mmin" { 60 } else { 86_400 };
                self.count(&word).map(|count| Node::Age { count, unit })
            }
            _ if word.starts_with('-') => Err(format!("unknown predicate `{word}'")),
            _ => Err(format!("paths must precede expression: `{word}'")),
        }
    }

    fn action(&mut self, node: Node) -> Node {
        self.acts = true;
        node
    }

    fn people(&mut self) -> &People {
        self.expression.people.get_or_insert_with(People::known)
    }

    fn count(&mut self, word: &str) -> Result<Count, String> {
        let text = self.text(word)?;
        Count::parse(&text).ok_or_else(|| format!("invalid argument `{text}' to `{word}'"))
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
    let kind = |letter: &str| {
        let known = KINDS.iter().find(|(known, _)| *known == letter);
        known.map(|(_, kind)| *kind).ok_or_else(|| format!("Unknown argument to -type: {letter}"))
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

fn permissions(text: &str) -> Result<Node, String> {
    let (how, bits) = match text.as_bytes().first() {
        Some(b'-') => (Bits::All, &text[1..]),
        Some(b'/') => (Bits::Any, &text[1..]),
        _ => (Bits::Just, text),
    };
    let bits = mode::parsed(bits, 0, 0).ok_or_else(|| format!("invalid mode '{text}'"))?;
    Ok(Node::Permissions { bits, how })
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
        attributes.mode = Some(0o640);
        let (path, name, start) = (path.as_bytes(), name.as_bytes(), &b"dir"[..]);
        let candidate = Candidate {
            path,
            name,
            attributes: &attributes,
            start,
            depth: 1,
            is_empty: kind == Kind::Directory,
        };
        Expression::parse(&words)
            .unwrap()
            .run(&candidate, &mut |act| printed |= matches!(act, Act::Print(_)));
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
        assert!(file(&["-perm", "640"], "a") && !file(&["-perm", "600"], "a"));
        assert!(file(&["-perm", "-u+w"], "a") && !file(&["-perm", "-644"], "a"));
        assert!(
            file(&["-perm", "/go+r"], "a") && !file(&["-perm", "/111"], "a") && file(&["-perm", "/0"], "a")
        );
        assert!(
            !file(&["-false"], "a") && !file(&["-empty"], "a") && shown(&["-empty"], "a", Kind::Directory, 0)
        );
        assert!(
            file(&["-prune"], "a") && !file(&["-prune", "-o", "-print"], "a") && !file(&["-delete"], "a")
        );
        assert!(file(&["-type", "d", "-o", "-print"], "a") && !file(&["-type", "d", "-print"], "a"));
    }

    #[test]
    fn a_word_takes_an_argument_if_it_is_refused_without_one() {
        let words = "-name -iname -path -ipath -wholename -newer -maxdepth -mindepth -type -size -mtime -mmin \
                     -perm -user -group -uid -gid -links -inum -printf -delete -prune -quit -depth -false \
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
            &["-perm", "u"],
            &["-user", "nobody knows him"],
            &["-links", "many"],
            &["-printf", "%l"],
            &["-prune", "-o", "-delete"],
            &["!", "-delete"],
            &["-delete", "-o", "-quit"],
            &["(", "-name", "a", "-delete", ")", "-quit"],
            &["-printf", "%#m"],
            &["-printf", r"\q"],
            &["-exec", "rm", "{}", ";"],
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert!(Expression::parse(&words).is_err(), "{words:?}");
        }
    }
}
