//! Loads after Filebench's file server, NFS server and mail server: so many rounds for each thread, not so many minutes (kurma.md §2.7,
//! §3.12). Each thread has files of its own.

/// One load. Every round of every thread makes a file and removes that of the round before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Personality {
    pub name: &'static str,
    pub threads: usize,
    /// Files at the beginning, of all threads.
    pub files: usize,
    /// Bytes of a file, on average.
    pub mean: usize,
    /// Bytes appended.
    pub append: usize,
    /// Whole files read in a round.
    pub reads: usize,
    /// Whether files are appended to after they are read, or other ones.
    pub append_to_read: bool,
    /// Files asked for in a round.
    pub stats: usize,
    /// Rounds of each thread.
    pub rounds: usize,
}

pub const PERSONALITIES: [Personality; 3] = [
    Personality {
        name: "file server, 50 threads",
        threads: 50,
        files: 1000,
        mean: 128 << 10,
        append: 16 << 10,
        reads: 1,
        append_to_read: false,
        stats: 1,
        rounds: 4,
    },
    Personality {
        name: "NFS server, 1 thread",
        threads: 1,
        files: 200,
        mean: 128 << 10,
        append: 8 << 10,
        reads: 4,
        append_to_read: false,
        stats: 1,
        rounds: 40,
    },
    Personality {
        name: "mail server, 16 threads",
        threads: 16,
        files: 1000,
        mean: 16 << 10,
        append: 16 << 10,
        reads: 2,
        append_to_read: true,
        stats: 0,
        rounds: 10,
    },
];

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

    /// Files at the beginning: name and size.
    pub fn set(self) -> Vec<(String, usize)> {
        let name = |thread: usize, n: usize| (format!("{thread}-{n}"), self.size(n));
        (0..self.threads).flat_map(|thread| (0..self.own()).map(move |n| name(thread, n))).collect()
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
            let appended = if self.append_to_read { read[0].clone() } else { pick() };
            let mut acts = vec![
                Act::Create { name: made(round), size: self.size(round) },
                Act::Append { name: appended, size: self.append },
                Act::Delete { name: made(round - 1) },
            ];
            acts.extend(read.into_iter().map(|name| Act::Read { name }));
            acts.extend((0..self.stats).map(|_| Act::Stat { name: pick() }));
            acts
        };
        (1..=self.rounds).map(round).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_act_is_of_a_file_that_is_there() {
        for personality in PERSONALITIES.map(|it| it.shrunk(8)).into_iter().chain(PERSONALITIES) {
            for thread in 0..personality.threads {
                let mut there: std::collections::HashSet<String> =
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
}
