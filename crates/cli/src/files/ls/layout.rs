use serde_json::{Value, json};
use vector_client::{Attributes, Kind};

use super::TimeStyle;
use super::order::Which;
use super::read::Line;
use crate::files::date;
use crate::files::mode;
use crate::files::people::People;
use crate::files::session::Session;
use crate::files::size::human;

/// How lines look.
pub struct Layout {
    pub json: bool,
    pub long: bool,
    pub numeric: bool,
    pub human: bool,
    pub inode: bool,
    /// How much space it takes.
    pub blocks: bool,
    /// With `long`.
    pub owner: bool,
    /// With `long`.
    pub group: bool,
    pub classify: bool,
    pub slash: bool,
    pub columns: bool,
    pub is_terminal: bool,
    pub time: TimeStyle,
    pub which: Which,
    pub people: Option<People>,
    /// What is to be printed as JSON at the end.
    pub objects: Vec<Value>,
}

/// A cell, and whether it is moved to the right.
struct Cell(String, bool);

impl Layout {
    /// Shows the files that were named, or the entries of a directory and how many blocks of 512 bytes they occupy. Columns are
    /// wide enough for `more`, too.
    pub fn print(
        &mut self,
        session: &mut Session,
        lines: &[Line],
        more: &[Line],
        total: Option<u64>,
        directory: &str,
    ) {
        if self.json {
            return self.objects.extend(lines.iter().map(|line| object(line, directory)));
        }
        if let Some(blocks) = total.filter(|_| self.long || self.blocks) {
            session.say(format_args!("total {}", self.blocks_text(blocks)));
        }
        if self.long {
            self.print_long(session, lines, more);
        } else if self.columns {
            self.print_columns(session, lines, more);
        } else {
            let widths = self.front_widths(lines.iter().chain(more));
            for line in lines {
                let mut text = self.front(line, widths);
                text.extend(self.name(line));
                text.push(b'\n');
                session.print(text);
            }
        }
    }

    pub fn end(&mut self, session: &mut Session) {
        if self.json {
            session.say(format_args!("{:#}", Value::from(std::mem::take(&mut self.objects))));
        }
    }

    /// Number of the file, and space it takes.
    fn front_widths<'a>(&self, lines: impl Iterator<Item = &'a Line>) -> (usize, usize) {
        lines.fold((0, 0), |(inode, blocks), line| {
            (inode.max(inode_text(line).len()), blocks.max(self.blocks_of(line).len()))
        })
    }

    fn front(&self, line: &Line, (inode, blocks): (usize, usize)) -> Vec<u8> {
        let mut text = String::new();
        if self.inode {
            text += &format!("{:>inode$} ", inode_text(line));
        }
        if self.blocks {
            text += &format!("{:>blocks$} ", self.blocks_of(line));
        }
        text.into_bytes()
    }

    fn blocks_of(&self, line: &Line) -> String {
        line.attributes.space_used.map_or("?".into(), |bytes| self.blocks_text(bytes / 512))
    }

    /// Of so many times 512 bytes.
    fn blocks_text(&self, blocks: u64) -> String {
        if self.human { human(blocks * 512) } else { blocks.div_ceil(2).to_string() }
    }

    /// The name with its mark.
    fn name(&self, line: &Line) -> Vec<u8> {
        let mut name = line.name.clone();
        if self.is_terminal {
            // What a name contains must not act on the terminal.
            name.iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b'?');
        }
        if line.link.is_none() {
            name.extend(self.mark(&line.attributes));
        }
        name
    }

    fn mark(&self, attributes: &Attributes) -> Option<u8> {
        match attributes.kind? {
            Kind::Directory if self.classify || self.slash => Some(b'/'),
            _ if !self.classify => None,
            Kind::SymbolicLink => Some(b'@'),
            Kind::Fifo => Some(b'|'),
            Kind::Socket => Some(b'='),
            Kind::File if attributes.mode.unwrap_or(0) & 0o111 != 0 => Some(b'*'),
            _ => None,
        }
    }

    fn print_long(&self, session: &mut Session, lines: &[Line], more: &[Line]) {
        let now = date::now();
        let devices = lines.iter().filter_map(device);
        let digits = devices.map(|(major, minor)| (major.to_string().len(), minor.to_string().len()));
        let digits = digits.fold((0, 0), |widest, it| (widest.0.max(it.0), widest.1.max(it.1)));
        let rows: Vec<Vec<Cell>> = lines.iter().map(|line| self.cells(line, now, digits)).collect();
        let count = rows.first().map_or(0, Vec::len);
        let mut widths = vec![0; count];
        let others: Vec<Vec<Cell>> = more.iter().map(|line| self.cells(line, now, digits)).collect();
        for row in rows.iter().chain(&others) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.0.len().max(*width);
            }
        }
        let front = self.front_widths(lines.iter().chain(more));
        for (line, row) in lines.iter().zip(rows) {
            let mut text = self.front(line, front);
            for (Cell(cell, is_right), width) in row.into_iter().zip(&widths) {
                let padded = match is_right {
                    true => format!("{cell:>width$} "),
                    false => format!("{cell:<width$} "),
                };
                text.extend(padded.into_bytes());
            }
            text.extend(self.name(line));
            if let Some(link) = &line.link {
                text.extend(b" -> ");
                text.extend(link);
                text.extend(line.linked.as_ref().and_then(|linked| self.mark(linked)));
            }
            text.push(b'\n');
            session.print(text);
        }
    }

    fn cells(&self, line: &Line, now: vector_client::Time, digits: (usize, usize)) -> Vec<Cell> {
        let it = &line.attributes;
        let who = |name: Option<Result<String, u32>>| match name {
            Some(Ok(name)) => Cell(name, false),
            Some(Err(id)) => Cell(id.to_string(), true),
            None => Cell("?".into(), true),
        };
        let number = |owner: &Option<vector_client::Owner>| match owner {
            Some(vector_client::Owner::Id(id)) => Some(Err(*id)),
            Some(vector_client::Owner::Name(name)) => Some(Ok(name.clone())),
            None => None,
        };
        let people = self.people.as_ref().filter(|_| !self.numeric);
        let (user, group) = match people {
            Some(people) => (Some(people.user(it.owner.as_ref())), Some(people.group(it.group.as_ref()))),
            None => (number(&it.owner), number(&it.group)),
        };
        let size = match (device(line), it.size, self.human) {
            (Some((major, minor)), ..) => format!("{major:>0$}, {minor:>1$}", digits.0, digits.1),
            (None, Some(size), true) => human(size),
            (None, Some(size), false) => size.to_string(),
            (None, None, _) => "?".into(),
        };
        let time = self.which.of(it).map_or("?".into(), |time| match self.time {
            TimeStyle::Locale => date::short(time, now),
            TimeStyle::FullIso => date::full(time),
            TimeStyle::LongIso => date::formatted(time, "%Y-%m-%d %H:%M"),
        });
        let cells = [
            Some(Cell(mode::text(it.kind, it.mode.unwrap_or(0)), false)),
            Some(Cell(it.links.map_or("?".into(), |links| links.to_string()), true)),
            self.owner.then(|| who(user)),
            self.group.then(|| who(group)),
            Some(Cell(size, true)),
            Some(Cell(time, true)),
        ];
        cells.into_iter().flatten().collect()
    }

    /// As few rows as fit, names one below the other.
    fn print_columns(&self, session: &mut Session, lines: &[Line], more: &[Line]) {
        let front = self.front_widths(lines.iter().chain(more));
        let names: Vec<Vec<u8>> =
            lines.iter().map(|line| [self.front(line, front), self.name(line)].concat()).collect();
        let widths: Vec<usize> =
            names.iter().map(|name| String::from_utf8_lossy(name).chars().count() + 2).collect();
        let screen = std::env::var("COLUMNS").ok().and_then(|it| it.parse().ok());
        let screen = screen.or_else(terminal_width).unwrap_or(80).max(1);
        let columns_of = |rows: usize| {
            let columns = widths.chunks(rows);
            columns.map(|column| column.iter().copied().max().unwrap_or(0)).collect::<Vec<_>>()
        };
        let fits = |rows: &usize| columns_of(*rows).iter().sum::<usize>() < screen + 2;
        let rows = (1..=names.len()).find(fits).unwrap_or(names.len()).max(1);
        let columns = columns_of(rows);
        for row in 0..rows.min(names.len()) {
            let (mut text, mut start) = (Vec::new(), 0);
            for (column, width) in columns.iter().enumerate() {
                let Some(name) = names.get(column * rows + row) else { break };
                text.extend(name);
                if (column + 1) * rows + row < names.len() {
                    indent(&mut text, start + widths[column * rows + row] - 2, start + width);
                    start += width;
                }
            }
            text.push(b'\n');
            session.print(text);
        }
    }
}

/// Of a device node, its numbers.
fn device(line: &Line) -> Option<(u32, u32)> {
    let is_device = matches!(line.attributes.kind, Some(Kind::BlockDevice | Kind::CharacterDevice));
    line.attributes.device.filter(|_| is_device)
}

/// Moves on from one column of the screen to another, by tabs where they lead so far.
fn indent(text: &mut Vec<u8>, mut from: usize, to: usize) {
    while from < to {
        let by_tab = to / 8 > (from + 1) / 8;
        text.push(if by_tab { b'\t' } else { b' ' });
        from += if by_tab { 8 - from % 8 } else { 1 };
    }
}

fn inode_text(line: &Line) -> String {
    line.attributes.file_id.map_or("?".into(), |id| id.to_string())
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

fn object(line: &Line, directory: &str) -> Value {
    let mut object = crate::files::stat::object(&line.attributes);
    object["name"] = String::from_utf8_lossy(&line.name).into();
    if !directory.is_empty() {
        object["directory"] = json!(directory);
    }
    if let Some(link) = &line.link {
        object["link"] = String::from_utf8_lossy(link).into();
    }
    object
}
