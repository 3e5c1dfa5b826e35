//! Random sequences of vectors, on few names, so that they get into each other's way.

use proptest::prelude::*;
use proptest::sample::select;
use vector_client::{
    AttributeSet, Base, Copy, Creation, Descriptor, NewAttributes, Open, Read, SetTime, Step, TO_END, Target,
    Time, Write,
};

/// What is the same for both.
pub const HOME: &str = "/home";

/// Where everything is to begin with: so deep that no `..` leads out of [`HOME`] to what may be changed.
const BASE: &str = "/home/1/2/3";

/// Steps of a sequence.
const STEPS: usize = 40;

/// A part of a sequence.
#[derive(Clone, Debug)]
pub enum Part {
    Vector(Vec<Step>),
    List(String),
}

/// A sequence, and how much the server and the client take at once.
#[derive(Clone, Debug)]
pub struct Script {
    pub parts: Vec<Part>,
    pub operations: u32,
    pub transfer: usize,
    /// Whether the client uses what only this server has.
    pub extensions: bool,
    /// Whether its compounds are done whole or not at all.
    pub atomic: bool,
    /// How much the client keeps of what it reads.
    pub cache_bytes: u64,
}

/// Directories, files and links to begin with.
pub fn start() -> Vec<Part> {
    let path = |path: &str| Target::from(format!("{BASE}/{path}"));
    let mut steps = Vec::new();
    for path in ["/home/1", "/home/1/2", BASE] {
        steps.push(Step::MakeDirectory { target: path.into(), mode: 0o755 });
    }
    for name in ["a", "a/a", "a/b", "b", "b/a", "b/b", "b/b/a"] {
        steps.push(Step::MakeDirectory { target: path(name), mode: 0o755 });
    }
    for name in ["a/c", "a/a/c", "b/c", "b/b/a/a"] {
        steps.push(Step::Write(Write::whole(path(name), 0o644, name.to_owned())));
    }
    for (name, text) in [("c", "a"), ("b/a/b", "../../a/a"), ("b/b/c", "/home/1/2/3/a/c")] {
        steps.push(Step::MakeSymbolicLink { target: path(name), text: text.to_owned().into() });
    }
    steps.into_iter().map(|step| Part::Vector(vec![step])).collect()
}

/// The step with the open files that its numbers stand for.
pub fn substituted(step: &Step, opened: &[Descriptor]) -> Step {
    let real = |number: Descriptor| {
        let number = usize::try_from(number.number()).unwrap();
        let index = number.checked_rem(opened.len());
        index.map_or(Descriptor::from_number(u64::MAX), |index| opened[index])
    };
    let mut step = step.clone();
    let targets = match &mut step {
        Step::Close(number) | Step::Commit(number) => {
            *number = real(*number);
            Vec::new()
        }
        Step::Open(Open { target, .. })
        | Step::Read(Read { target, .. })
        | Step::Write(Write { target, .. })
        | Step::GetAttributes { target, .. }
        | Step::SetAttributes { target, .. } => vec![target],
        Step::Copy(Copy { source, destination, .. }) => vec![source, destination],
        Step::HardLink { existing, .. } => vec![existing],
        _ => Vec::new(),
    };
    for target in targets {
        if let Base::Descriptor(number) = target.base() {
            *target = real(*number).into();
        }
    }
    step
}

pub fn script() -> impl Strategy<Value = Script> {
    let part = prop_oneof![
        9 => vector().prop_map(Part::Vector),
        1 => path().prop_map(Part::List),
    ];
    let parts = prop::collection::vec(part, 1..STEPS / 3);
    // Few operations, and little data, are many compounds.
    let cache = select(vec![0, 4 << 10, 64 << 20]);
    let kinds = select(vec![(false, false), (true, false), (true, true)]);
    let measures = (select(vec![16, 24, 1024]), select(vec![8, 1 << 20]), kinds, cache);
    (parts, measures).prop_map(|(mut parts, (operations, transfer, (extensions, atomic), cache_bytes))| {
        let mut steps = 0;
        parts.retain(|part| {
            steps += match part {
                Part::Vector(vector) => vector.len(),
                Part::List(_) => 1,
            };
            steps <= STEPS
        });
        Script { parts, operations, transfer, extensions, atomic, cache_bytes }
    })
}

fn vector() -> impl Strategy<Value = Vec<Step>> {
    let steps = prop_oneof![
        5 => step().prop_map(|step| vec![step]),
        2 => on_one_file(),
    ];
    prop::collection::vec(steps, 1..8).prop_map(|steps| steps.concat())
}

/// Steps that one open is enough for.
fn on_one_file() -> impl Strategy<Value = Vec<Step>> {
    let data = prop_oneof![read(Just(Target::from(""))), write(Just(Target::from("")))];
    (path(), prop::collection::vec(data, 2..5)).prop_map(|(path, mut steps)| {
        for step in &mut steps {
            if let Step::Read(Read { target, .. }) | Step::Write(Write { target, .. }) = step {
                *target = path.clone().into();
            }
        }
        steps
    })
}

fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        10 => Just("a"),
        8 => Just("b"),
        6 => Just("c"),
        1 => Just(".."),
        1 => Just("."),
    ];
    prop::collection::vec(name, 1..5).prop_map(|names| format!("{BASE}/{}", names.join("/")))
}

fn by_path() -> impl Strategy<Value = Target> {
    path().prop_map(Target::from)
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        4 => by_path(),
        1 => number().prop_map(Target::from),
    ]
}

fn number() -> impl Strategy<Value = Descriptor> {
    (0..4_u64).prop_map(Descriptor::from_number)
}

fn mode() -> impl Strategy<Value = u32> {
    select(vec![0o644, 0o600, 0o755, 0o666, 0o777, 0o7755])
}

fn creation() -> impl Strategy<Value = Option<Creation>> {
    let some = (mode(), prop::bool::weighted(0.2)).prop_map(|(mode, exclusive)| Creation { mode, exclusive });
    prop::option::weighted(0.6, some)
}

/// Mostly yes.
fn usually() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.85)
}

fn seldom() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.25)
}

fn text(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(b'a'..=b'z', 0..=longest)
}

fn read(target: impl Strategy<Value = Target>) -> impl Strategy<Value = Step> {
    (target, 0..20_u64, 0..30_u64, usually())
        .prop_map(|(target, offset, length, follow)| Step::Read(Read { target, offset, length, follow }))
}

fn write(target: impl Strategy<Value = Target>) -> impl Strategy<Value = Step> {
    let data = prop_oneof![
        (0..24_u64, text(20)),
        // Not more than goes into one operation.
        (Just(vector_client::APPEND), text(8)),
    ];
    (target, data, creation(), seldom(), seldom(), usually()).prop_map(
        |(target, (offset, data), create, truncate, stable, follow)| {
            Step::Write(Write { target, offset, data: data.into(), create, truncate, stable, follow })
        },
    )
}

fn open() -> impl Strategy<Value = Step> {
    // Through what is open for writing alone, a server may read.
    (target(), prop::bool::ANY, creation(), seldom(), usually()).prop_map(
        |(target, write, create, truncate, follow)| {
            Step::Open(Open { target, read: true, write, create, truncate: truncate && write, follow })
        },
    )
}

fn get_attributes() -> impl Strategy<Value = Step> {
    let wanted = AttributeSet::KIND | AttributeSet::MODE | AttributeSet::SIZE | AttributeSet::LINKS;
    (target(), usually()).prop_map(move |(target, follow)| Step::GetAttributes { target, wanted, follow })
}

/// Permission bits not of links, which local ones do not have.
fn set_attributes() -> impl Strategy<Value = Step> {
    let time = (-5..5_i64, 0..1_000_000_000_u32)
        .prop_map(|(seconds, nanoseconds)| SetTime::To(Time { seconds, nanoseconds }));
    let time = prop::option::weighted(0.3, prop_oneof![time, Just(SetTime::Now)]);
    let mode = prop::option::weighted(0.5, mode());
    let size = prop::option::weighted(0.4, 0..30_u64);
    (target(), mode, size, time.clone(), time, usually()).prop_map(
        |(target, mode, size, accessed, modified, follow)| {
            let mode = mode.filter(|_| follow);
            let attributes = NewAttributes { mode, size, accessed, modified, ..NewAttributes::default() };
            Step::SetAttributes { target, attributes, follow }
        },
    )
}

fn copy() -> impl Strategy<Value = Step> {
    let offset = || prop_oneof![3 => Just(0), 1 => 0..12_u64];
    let length = prop_oneof![3 => Just(TO_END), 2 => 0..8_u64];
    (target(), target(), offset(), offset(), length, creation(), seldom()).prop_map(
        |(source, destination, source_offset, destination_offset, length, create, truncate)| {
            Step::Copy(Copy {
                source,
                source_offset,
                destination,
                destination_offset,
                length,
                create,
                truncate,
            })
        },
    )
}

fn symbolic_link() -> impl Strategy<Value = Step> {
    let text = prop_oneof![
        path(),
        select(vec!["a", "b", "c", "a/b", "../a", "../b/c", "../../a", "."]).prop_map(str::to_owned),
    ];
    (by_path(), text).prop_map(|(target, text)| Step::MakeSymbolicLink { target, text: text.into() })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => read(target()),
        5 => write(target()),
        3 => open(),
        1 => number().prop_map(Step::Close),
        1 => number().prop_map(Step::Commit),
        3 => get_attributes(),
        2 => set_attributes(),
        2 => copy(),
        3 => (by_path(), mode()).prop_map(|(target, mode)| Step::MakeDirectory { target, mode }),
        2 => symbolic_link(),
        1 => by_path().prop_map(Step::ReadLink),
        2 => (target(), by_path()).prop_map(|(existing, new)| Step::HardLink { existing, new }),
        2 => by_path().prop_map(Step::Remove),
        3 => (by_path(), by_path()).prop_map(|(from, to)| Step::Rename { from, to }),
    ]
}
