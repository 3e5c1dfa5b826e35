//! Loads after the personalities of Filebench: so many rounds for each thread, not so many minutes (kurma.md §2.7, §3.12, §4.9). Each
//! thread has files of its own; what is appended to by all is the log.

/// One load. A round of a thread is so many acts with so many files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Personality {
    pub name: &'static str,
    pub threads: usize,
    /// Files at the beginning, of all threads.
    pub files: usize,
    /// Files of a directory; 0: all are in one.
    pub width: usize,
    /// Bytes of a file, on average.
    pub mean: usize,
    /// Every round makes a file, appends to one, and removes that which the round before has made.
    pub makes: bool,
    /// Bytes appended.
    pub append: usize,
    /// Whole files read in a round.
    pub reads: usize,
    /// Whether files are appended to after they are read, or other ones.
    pub append_to_read: bool,
    /// Files asked for in a round.
    pub stats: usize,
    /// Bytes appended to the log in a round; 0: there is none.
    pub log: usize,
    /// Rounds of each thread.
    pub rounds: usize,
}

/// Small, for lines with a delay.
pub const PERSONALITIES: [Personality; 3] = [
    Personality {
        name: "file server, 50 threads",
        threads: 50,
        files: 1000,
        width: 0,
        mean: 128 << 10,
        makes: true,
        append: 16 << 10,
        reads: 1,
        append_to_read: false,
        stats: 1,
        log: 0,
        rounds: 4,
    },
    Personality {
        name: "NFS server, 1 thread",
        threads: 1,
        files: 200,
        width: 0,
        mean: 128 << 10,
        makes: true,
        append: 8 << 10,
        reads: 4,
        append_to_read: false,
        stats: 1,
        log: 0,
        rounds: 40,
    },
    Personality {
        name: "mail server, 16 threads",
        threads: 16,
        files: 1000,
        width: 0,
        mean: 16 << 10,
        makes: true,
        append: 16 << 10,
        reads: 2,
        append_to_read: true,
        stats: 0,
        log: 0,
        rounds: 10,
    },
];

/// With the numbers and sizes of files that the literature has.
pub const FULL: [Personality; 5] = [
    Personality { files: 10_000, rounds: 40, ..PERSONALITIES[0] },
    Personality { files: 10_000, mean: 250 << 10, append: 16 << 10, rounds: 300, ..PERSONALITIES[1] },
    Personality {
        name: "web server, 100 threads",
        threads: 100,
        files: 1000,
        width: 0,
        mean: 16 << 10,
        makes: false,
        append: 0,
        reads: 10,
        append_to_read: false,
        stats: 0,
        log: 16 << 10,
        rounds: 20,
    },
    Personality {
        name: "web proxy, 100 threads",
        threads: 100,
        files: 10_000,
        width: 20,
        mean: 256 << 10,
        makes: true,
        append: 16 << 10,
        reads: 5,
        append_to_read: false,
        stats: 0,
        log: 16 << 10,
        rounds: 10,
    },
    Personality { name: "varmail, 16 threads", files: 10_000, rounds: 60, ..PERSONALITIES[2] },
];

/// The name of the log.
pub const LOG: &str = "log";

/// Sizes of files, in eighths of the mean: long-tailed, as the gamma distribution is.
const SIZES: [usize; 8] = [1, 2, 4, 5, 7, 10, 14, 21];

/// One thing that is done with one file.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    Create { name: String, size: usize },
    Append { name: String, size: usize },
    Delete { name: String },
    Read { name: String },
    Stat { name: String },
}

impl Act {
    pub fn name(&self) -> &str {
        match self {
            Act::Create { name, .. } | Act::Append { name, .. } | Act::Delete { name } => name,
            Act::Read { name } | Act::Stat { name } => name,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Act::Create { .. } => "create",
            Act::Append { name, .. } if name == LOG => "append to the log",
            Act::Append { .. } => "append",
            Act::Delete { .. } => "delete",
            Act::Read { .. } => "read",
            Act::Stat { .. } => "stat",
        }
    }
}

impl Personality {
    pub fn shrunk(self, shrink: usize) -> Personality {
        let files = (self.files / shrink).max(self.threads * 8);
        Personality { files, rounds: (self.rounds / shrink).max(2), ..self }
    }

    /// Files of one thread at the beginning, and at the end.
    fn own(self) -> usize {
        self.files / self.threads
    }

    fn size(self, n: usize) -> usize {
        self.mean * SIZES[n % SIZES.len()] / 8
    }

    /// The largest file that there may be.
    pub fn largest(self) -> usize {
        self.mean * SIZES[SIZES.len() - 1] / 8 + self.rounds * self.append
    }

    /// Directories of the set of files.
    pub fn directories(self) -> usize {
        self.files.checked_div(self.width).unwrap_or(0)
    }

    /// Where in the set a file of this name is: files that are made later lie among the others.
    pub fn place(self, name: &str) -> String {
        let sum = name.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        match sum.checked_rem(self.directories()) {
            Some(directory) => format!("{directory}/{name}"),
            None => name.to_owned(),
        }
    }

    /// Acts of all threads in all rounds.
    pub fn acts(self) -> usize {
        let made = if self.makes { 3 } else { 0 };
        self.threads * self.rounds * (made + self.reads + self.stats + usize::from(self.log > 0))
    }

    /// Files at the beginning: name and size.
    pub fn set(self) -> Vec<(String, usize)> {
        let name = |thread: usize, n: usize| (format!("{thread}-{n}"), self.size(n));
        let own = (0..self.threads).flat_map(|thread| (0..self.own()).map(move |n| name(thread, n)));
        own.chain((self.log > 0).then(|| (LOG.to_owned(), self.log))).collect()
    }

    /// After all rounds, of each thread: the file that the last one has made, and that which the first one has removed.
    pub fn turns(self) -> Vec<(String, String)> {
        let turn = |thread| (format!("{thread}-new-{}", self.rounds), format!("{thread}-0"));
        (0..if self.makes { self.threads } else { 0 }).map(turn).collect()
    }

    /// The rounds of a thread. Nothing in a round depends on another thing in it.
    pub fn rounds(self, thread: usize) -> Vec<Vec<Act>> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ (thread as u64 + 1);
        let mut pick = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // The first one is removed in the first round.
            format!("{thread}-{}", 1 + state as usize % (self.own() - 1))
        };
        let made = |round: usize| match round {
            0 => format!("{thread}-0"),
            round => format!("{thread}-new-{round}"),
        };
        let round = |round: usize| {
            let read: Vec<String> = (0..self.reads).map(|_| pick()).collect();
            let mut acts = Vec::new();
            if self.makes {
                let appended = if self.append_to_read { read[0].clone() } else { pick() };
                acts.extend([
                    Act::Create { name: made(round), size: self.size(round) },
                    Act::Append { name: appended, size: self.append },
                    Act::Delete { name: made(round - 1) },
                ]);
            }
            acts.extend(read.into_iter().map(|name| Act::Read { name }));
            if self.log > 0 {
                acts.push(Act::Append { name: LOG.to_owned(), size: self.log });
            }
            acts.extend((0..self.stats).map(|_| Act::Stat { name: pick() }));
            acts
        };
        (1..=self.rounds).map(round).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn all() -> impl Iterator<Item = Personality> {
        let all = PERSONALITIES.into_iter().chain(FULL);
        all.flat_map(|it| [it, it.shrunk(8)])
    }

    #[test]
    fn every_act_is_of_a_file_that_is_there() {
        for personality in all() {
            for thread in 0..personality.threads {
                let mut there: HashSet<String> =
                    personality.set().into_iter().map(|(name, _)| name).collect();
                let before = there.len();
                for act in personality.rounds(thread).into_iter().flatten() {
                    match act {
                        Act::Create { name, .. } => assert!(there.insert(name)),
                        Act::Delete { name } => assert!(there.remove(&name), "{name}"),
                        Act::Append { name, .. } | Act::Read { name } | Act::Stat { name } => {
                            assert!(there.contains(&name), "{name}");
                        }
                    }
                }
                assert_eq!(there.len(), before);
            }
        }
    }

    #[test]
    fn turning_back_leaves_the_files_of_the_beginning() {
        for personality in all() {
            let set: HashSet<String> = personality.set().into_iter().map(|(name, _)| name).collect();
            let mut there = set.clone();
            for act in (0..personality.threads).flat_map(|thread| personality.rounds(thread)).flatten() {
                match act {
                    Act::Create { name, .. } => _ = there.insert(name),
                    Act::Delete { name } => _ = there.remove(&name),
                    _ => {}
                }
            }
            for (from, to) in personality.turns() {
                assert!(there.remove(&from), "{from}");
                assert!(there.insert(to));
            }
            assert_eq!(there, set);
        }
    }

    #[test]
    fn acts_are_counted_as_they_are_done() {
        for personality in all() {
            let done = (0..personality.threads).flat_map(|thread| personality.rounds(thread)).flatten();
            assert_eq!(done.count(), personality.acts(), "{}", personality.name);
        }
    }
}
