//! What clients do: each workload with its parameters, and where they come from. Amounts are for one repetition over all clients together.

mod client;
mod data;
mod lane;
mod load;
mod locks;
mod mix;
mod names;
mod recall;
mod run;

use bytes::Bytes;

use crate::mounts::Program;
use crate::personality::{self, Personality};

pub use client::{Client, connect};
pub use data::{RANDOM, RANDOM_FILE};
pub use run::{Done, clean, prepare, run};

/// Kinds of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    SequentialWrite,
    SequentialReadWarm,
    SequentialReadCold,
    /// With so many requests of each client on the way.
    RandomRead(usize),
    RandomWrite(usize),
    Create,
    Stat,
    Unlink,
    List,
    SmallWrite(u32),
    SmallRead(u32),
    /// Files of that size by the vectorized client, [`VECTOR`] with each call.
    VectorWrite(u32),
    /// Open, lock, read, unlock, ten times each file.
    LockedRead {
        delegated: bool,
    },
    /// Files opened for writing, which every client has open for reading.
    Recall {
        delegated: bool,
    },
    /// So many reads among [`mix::OPERATIONS`] reads and writes of one open.
    Mix(usize),
    Load(Personality),
    /// Through mount points only.
    Program(Program),
}

pub const MIB: u64 = 1 << 20;
/// Requests that one client has on the way in the streaming workloads, as a kernel client with readahead has.
const STREAM_DEPTH: usize = 8;
/// Operations of a client on the way at most in an open loop; less than a session has slots.
const OPEN_LOOP_DEPTH: usize = 32;
/// Files of one call of the vectorized client.
const VECTOR: u64 = 250;
/// How often each client goes over what it reads or looks at warm, for a time that can be measured.
pub const PASSES: u64 = 4;

/// All that go to a server, with everything divided by `shrink`.
pub fn all(shrink: u64) -> Vec<Workload> {
    use Workload::*;
    let mut all = vec![SequentialWrite, SequentialReadWarm, SequentialReadCold];
    all.extend([RandomRead(1), RandomRead(16), RandomWrite(1), RandomWrite(16)]);
    all.extend([Create, Stat, Unlink, List]);
    for size in [4 << 10, 16 << 10, 64 << 10] {
        all.extend([SmallWrite(size), SmallRead(size)]);
    }
    all.push(VectorWrite(4 << 10));
    all.extend([false, true].map(|delegated| LockedRead { delegated }));
    all.extend([false, true].map(|delegated| Recall { delegated }));
    all.extend([10, 30, 50].map(Mix));
    all.extend(personality::FULL.map(|personality| Load(personality.shrunk(shrink as usize))));
    all
}

/// Whether a name has one of these parts, if there are any.
pub fn is_among(parts: &[String], name: &str) -> bool {
    parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()))
}

impl Workload {
    pub fn name(self) -> String {
        match self {
            Workload::SequentialWrite => "sequential write".into(),
            Workload::SequentialReadWarm => "sequential read, warm".into(),
            Workload::SequentialReadCold => "sequential read, cold".into(),
            Workload::RandomRead(depth) => format!("random read, 4 KiB, warm{}", at_once(depth)),
            Workload::RandomWrite(depth) => format!("random write, 4 KiB, stable{}", at_once(depth)),
            Workload::Create => "create".into(),
            Workload::Stat => "stat".into(),
            Workload::Unlink => "unlink".into(),
            Workload::List => "list directories".into(),
            Workload::SmallWrite(size) => format!("write files of {} KiB, stable", size >> 10),
            Workload::SmallRead(size) => format!("read files of {} KiB, warm", size >> 10),
            Workload::VectorWrite(size) => format!("write files of {} KiB by vectors, stable", size >> 10),
            Workload::LockedRead { delegated: false } => "locked reads".into(),
            Workload::LockedRead { delegated: true } => "locked reads, delegated".into(),
            Workload::Recall { delegated: false } => "open for writing what others read".into(),
            Workload::Recall { delegated: true } => "open for writing, delegations recalled".into(),
            Workload::Mix(reads) => {
                format!("{reads} reads and {} writes of 4 KiB", mix::OPERATIONS - reads)
            }
            Workload::Load(personality) => personality.name.into(),
            Workload::Program(program) => program.name().into(),
        }
    }

    /// What it is, and the section of the literature that it comes from.
    pub fn about(self) -> (String, &'static str) {
        let stated = |text: &str| text.to_owned();
        match self {
            Workload::SequentialWrite => (
                stated(
                    "Each client writes a file of its own in requests of 1 MiB, 8 on the way, then COMMIT.",
                ),
                "kurma.md §2.4",
            ),
            Workload::SequentialReadWarm => (
                stated("Each client reads its file in requests of 1 MiB, 8 on the way, again and again."),
                "kurma.md §2.4",
            ),
            Workload::SequentialReadCold => (
                stated("The same, once, with nothing in any cache of the server or its machine."),
                "kurma.md §2.4",
            ),
            Workload::RandomRead(depth) => (
                format!(
                    "Each client reads 4 KiB at random places of its file of 16 MiB, {depth} on the way."
                ),
                "kurma.md §2.4",
            ),
            Workload::RandomWrite(depth) => (
                format!(
                    "Each client writes 4 KiB in place at random places of its file of 16 MiB, {depth} on the way, each one stable."
                ),
                "kurma.md §2.4",
            ),
            Workload::Create => {
                (stated("Empty files in a directory of each client: OPEN and CLOSE."), "kurma.md §2.5.2")
            }
            Workload::Stat => {
                (stated("LOOKUP and GETATTR of the files of a directory of each client."), "kurma.md §2.5")
            }
            Workload::Unlink => (stated("Those files are removed one by one."), "kurma.md §4.9, §5.15"),
            Workload::List => (
                stated(
                    "One tree of 50,000 empty files, 5 names in a directory; each client lists random ones of its directories: GETATTR and \
                     READDIR with attributes.",
                ),
                "kurma.md §2.5.3",
            ),
            Workload::SmallWrite(size) => (
                format!("New files of {} KiB: OPEN, one stable WRITE, CLOSE.", size >> 10),
                "kurma.md §2.5.2",
            ),
            Workload::VectorWrite(size) => (
                format!(
                    "New files of {} KiB by calls of the vectorized client, {VECTOR} in each, which return when all are safe; it sends as few \
                     requests as the server allows.",
                    size >> 10
                ),
                "kurma.md §3.5",
            ),
            Workload::SmallRead(size) => (
                format!("Whole files of {} KiB, chosen at random: OPEN, READ, CLOSE.", size >> 10),
                "kurma.md §2.5.1",
            ),
            Workload::LockedRead { delegated: false } => (
                stated(
                    "1,000 files of 4 KiB in a directory of all clients; each file ten times: OPEN, LOCK, READ, LOCKU, FREE_STATEID, CLOSE.",
                ),
                "kurma.md §2.6",
            ),
            Workload::LockedRead { delegated: true } => (
                stated(
                    "The same by a client that has read delegations: the first time OPEN and READ, then nothing goes to the server.",
                ),
                "kurma.md §2.6",
            ),
            Workload::Recall { delegated: false } => (
                stated(
                    "One client opens 1,000 files for reading and writing that all clients of the row have had open for reading, without \
                     delegations.",
                ),
                "kurma.md §2.6",
            ),
            Workload::Recall { delegated: true } => (
                stated(
                    "The same files while each client of the row holds a read delegation of each, which is recalled from all. An OPEN that the \
                     server puts off (NFS4ERR_DELAY) is sent again after 1 ms, 2 ms, 4 ms.",
                ),
                "kurma.md §2.6",
            ),
            Workload::Mix(reads) => (
                format!(
                    "100 files of 1 MiB for each client: OPEN, {reads} reads and {} stable writes of 4 KiB at random places, CLOSE.",
                    mix::OPERATIONS - reads
                ),
                "kurma.md §4.9",
            ),
            Workload::Load(personality) => {
                let source = match personality.name {
                    name if name.starts_with("web proxy") => "kurma.md §4.9",
                    name if name.starts_with("web server") => "kurma.md §2.7",
                    _ => "kurma.md §2.7, §3.12, §5.15",
                };
                (load(personality), source)
            }
            Workload::Program(program) => (program.about(), "programs as they are"),
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Workload::SequentialWrite | Workload::SequentialReadWarm | Workload::SequentialReadCold => "MiB",
            Workload::SmallWrite(_) | Workload::SmallRead(_) | Workload::VectorWrite(_) => "files",
            Workload::Create | Workload::Unlink => "files",
            Workload::List => "directories",
            Workload::LockedRead { .. } => "reads",
            Workload::Recall { .. } => "opens",
            Workload::Program(program) => program.unit(),
            _ => "operations",
        }
    }

    /// Units of one repetition.
    pub fn amount(self, shrink: u64) -> u64 {
        let full = match self {
            Workload::SequentialWrite | Workload::SequentialReadCold => 256,
            Workload::SequentialReadWarm => 256 * PASSES,
            Workload::RandomRead(_) => 48_000,
            Workload::RandomWrite(_) => 8_000,
            Workload::Create | Workload::Unlink => 8_000,
            Workload::Stat => 32_000,
            Workload::List => 16_000,
            Workload::SmallWrite(size) | Workload::SmallRead(size) => match size {
                size if size <= 16 << 10 => 6_000,
                _ => 1_600,
            },
            Workload::LockedRead { .. } => 10_000,
            Workload::VectorWrite(_) => 40 * VECTOR,
            Workload::Recall { .. } => 1_000,
            Workload::Mix(_) => return mix::amount(shrink),
            Workload::Load(personality) => return personality.acts() as u64,
            Workload::Program(program) => return program.amount(),
        };
        (full / shrink).max(16 * PASSES)
    }

    /// Units of one operation.
    pub fn at_once(self) -> u64 {
        match self {
            Workload::VectorWrite(_) => VECTOR,
            _ => 1,
        }
    }

    pub fn is_cold(self) -> bool {
        self == Workload::SequentialReadCold
    }

    /// Whether it is about delegations.
    pub fn needs_delegations(self) -> bool {
        matches!(self, Workload::LockedRead { delegated: true } | Workload::Recall { delegated: true })
    }

    /// Whether it is about more than NFSv3 has.
    pub fn needs_version4(self) -> bool {
        matches!(self, Workload::LockedRead { .. } | Workload::Recall { .. } | Workload::VectorWrite(_))
    }

    /// The numbers of clients that it is for, of those that were asked for: personalities have threads of their own.
    pub fn clients(self, asked: &[usize]) -> Vec<usize> {
        match self {
            Workload::Load(_) | Workload::Program(_) => vec![1],
            _ => asked.to_vec(),
        }
    }

    /// Of what is written, the longest.
    pub fn content_bytes(self) -> usize {
        match self {
            Workload::Load(personality) => personality.largest(),
            Workload::SmallWrite(size) | Workload::VectorWrite(size) => size as usize,
            _ => MIB as usize,
        }
    }

    /// Clients to connect for a row with `count` of them.
    pub fn connections(self, count: usize) -> usize {
        count + self.further_clients()
    }

    /// Whether it belongs to the summary.
    pub fn is_headline(self) -> bool {
        match self {
            Workload::SequentialWrite | Workload::SequentialReadWarm => true,
            Workload::RandomRead(depth) | Workload::RandomWrite(depth) => depth > 1,
            Workload::Create | Workload::Stat | Workload::Unlink | Workload::Load(_) => true,
            Workload::SmallWrite(size) => size == 4 << 10,
            Workload::VectorWrite(_) => true,
            _ => false,
        }
    }

    /// Clients beside them.
    fn further_clients(self) -> usize {
        usize::from(matches!(self, Workload::Recall { .. }))
    }

    /// Operations that a client has on the way.
    pub fn lanes(self, is_open_loop: bool) -> usize {
        match self {
            Workload::Load(personality) => personality.threads,
            Workload::Mix(_) | Workload::LockedRead { .. } | Workload::VectorWrite(_) => 1,
            _ if is_open_loop => OPEN_LOOP_DEPTH,
            Workload::SequentialWrite | Workload::SequentialReadWarm | Workload::SequentialReadCold => {
                STREAM_DEPTH
            }
            Workload::RandomRead(depth) | Workload::RandomWrite(depth) => depth,
            _ => 1,
        }
    }
}

fn at_once(depth: usize) -> String {
    if depth > 1 { format!(", {depth} at once") } else { String::new() }
}

fn load(it: Personality) -> String {
    let mut text = format!(
        "After Filebench: {} files of {} KiB on average, {} of one client, each with files of its own. A round of a thread:",
        it.files,
        it.mean >> 10,
        if it.threads == 1 { "one thread".into() } else { format!("{} threads", it.threads) },
    );
    if it.makes {
        let to = if it.append_to_read { "one that is read" } else { "another" };
        text += &format!(
            " make a file, append {} KiB to {to}, remove that of the round before;",
            it.append >> 10
        );
    }
    text += &format!(" read {} whole", it.reads);
    if it.stats > 0 {
        text += &format!("; ask for the attributes of {}", it.stats);
    }
    if it.log > 0 {
        text += &format!("; append {} KiB to the log of all threads, one after the other", it.log >> 10);
    }
    text + ". Writes are stable, nothing is cached: every operation is for the server."
}

/// Bytes that do not compress and differ by `seed`.
pub fn content(seed: u64, length: usize) -> Bytes {
    let mut state = 0x9E37_79B9_7F4A_7C15u64 ^ seed.wrapping_mul(0x2545_F491_4F6C_DD1D);
    let words = (0..length.div_ceil(8)).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(length).collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_workloads_have_one_name() {
        let all = all(1);
        let names: HashSet<String> = all.iter().map(|it| it.name()).collect();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn the_summary_has_what_the_gateway_is_judged_by() {
        let names: Vec<String> =
            all(1).into_iter().filter(|it| it.is_headline()).map(Workload::name).collect();
        let expected = [
            "sequential write",
            "sequential read, warm",
            "random read, 4 KiB, warm, 16 at once",
            "random write, 4 KiB, stable, 16 at once",
            "create",
            "stat",
            "unlink",
            "write files of 4 KiB, stable",
            "write files of 4 KiB by vectors, stable",
            "file server, 50 threads",
            "NFS server, 1 thread",
            "web server, 100 threads",
            "web proxy, 100 threads",
            "varmail, 16 threads",
        ];
        assert_eq!(names, expected);
    }
}
