//! Random operations on a file system and on the model, with equal results and equal trees.
//!
//! A step is six random numbers, so that any source of them will do; with `proptest`, failures shrink:
//!
//! ```text
//! proptest!(|(steps in prop::collection::vec(any::<[u16; 6]>(), 0..200))| { compare(&mut subject, clock, &steps) });
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Clock;
use ids::{Timestamp, VolumeId};
use parking_lot::Mutex;

use super::scene::name;
use crate::acl::{Ace, Acl, Who, right};
use crate::memory::MemoryFileSystem;
use crate::{
    Access, Attributes, Authority, Caller, ChangeInfo, CommitMode, CreateKind, Device, Extent, FileId,
    FileKind, FileSystem, FsResult, Mode, Name, OpenCreate, OpenReference, Position, SetAttributes, SetTime,
    Transaction, XattrMode, XattrName, permitted,
};

/// A clock that stands still until it is told to go on.
pub struct ManualClock {
    now: Mutex<Duration>,
    hurries: AtomicBool,
}

impl ManualClock {
    /// A clock at a million seconds.
    pub fn new() -> Arc<ManualClock> {
        let now = Mutex::new(Duration::from_secs(1_000_000));
        Arc::new(ManualClock { now, hurries: AtomicBool::new(false) })
    }

    /// From now on whoever sleeps wakes up at once.
    pub fn hurry(&self) {
        self.hurries.store(true, Ordering::Relaxed);
    }

    /// Goes on.
    pub fn advance(&self, by: Duration) {
        *self.now.lock() += by;
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        let now = *self.now.lock();
        Timestamp { seconds: now.as_secs() as i64, nanos: now.subsec_nanos() }
    }

    fn monotonic(&self) -> Duration {
        *self.now.lock()
    }

    #[allow(clippy::disallowed_methods)] // background tasks of the subject must not spin
    async fn sleep(&self, duration: Duration) {
        if self.hurries.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(duration).await;
        }
    }
}

/// The file system that is compared with the model. It runs on the clock that is given to [`compare`]; it is
/// empty, and its root belongs to user and group 0.
#[async_trait]
pub trait Subject {
    /// The file system, as it is now.
    fn file_system(&self) -> Arc<dyn FileSystem>;

    /// Does something that users must not notice: moves data, starts again. No transaction is open and no
    /// reference held.
    async fn disturb(&mut self, how: u16);
}

/// Runs the steps; panics at the first difference, with the steps that led there.
pub async fn compare(subject: &mut dyn Subject, clock: &Arc<ManualClock>, steps: &[[u16; 6]]) {
    let model: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::with(VolumeId(1), clock.clone()));
    let mut pair = Pair {
        model: Side::new(model).await,
        subject: Side::new(subject.file_system()).await,
        directories: vec![0],
        holds: Vec::new(),
        begun: 1,
        log: Vec::new(),
    };
    pair.open_the_root(clock).await;
    for step in steps {
        clock.advance(Duration::from_millis(u64::from(step[5] % 3) * 500));
        match step[0] % 46 {
            0..5 => pair.commit(step[1]).await,
            5 => pair.roll_back(step[1]).await,
            6 => {
                pair.commit(step[1]).await;
                pair.holds.clear();
                (pair.model.tx, pair.subject.tx) = (None, None);
                subject.disturb(step[2]).await;
                pair.subject.fs = subject.file_system();
                pair.log.push(format!("disturb {}", step[2]));
                pair.begin(step[3]).await;
            }
            7 => pair.hold(step[1]),
            8 => drop(pair.holds.pop()),
            kind => pair.operate(kind, step).await,
        }
    }
    pair.commit(0).await;
    pair.holds.clear();
    let (model, found) = (pair.model.tree().await, pair.subject.tree().await);
    assert_eq!(found, model, "the trees differ after {:#?}", pair.log);
}

struct Pair {
    model: Side,
    subject: Side,
    /// Numbers of objects that are directories.
    directories: Vec<usize>,
    /// With the numbers of the objects that are held.
    holds: Vec<(usize, OpenReference, OpenReference)>,
    /// Objects that were there when the transaction began.
    begun: usize,
    log: Vec<String>,
}

/// One of the two, with the numbers of the objects that it has made, in order.
struct Side {
    fs: Arc<dyn FileSystem>,
    tx: Option<Box<dyn Transaction>>,
    objects: Vec<FileId>,
    numbers: HashMap<FileId, usize>,
    /// Names in order, by their cookies.
    cookies: Vec<u64>,
    /// Files that were written to.
    written: Vec<FileId>,
}

/// The callers that take part.
fn caller(number: u16) -> Caller {
    match number % 4 {
        0 | 1 => Caller::root(),
        2 => Caller::user(1, 1, &[2]),
        _ => Caller::user(2, 2, &[]),
    }
}

fn choose<T: Clone>(number: u16, values: &[T]) -> T {
    values[usize::from(number) % values.len()].clone()
}

fn some_name(number: u16) -> Name {
    choose(number, &["a", "b", "c", "d", "e"].map(name))
}

fn xattr(name: &Name) -> XattrName {
    XattrName::new(name.to_bytes()).unwrap()
}

/// Offsets around the edges of blocks and pages.
fn some_offset(number: u16) -> u64 {
    let base = choose(number, &[0, 0, 0, 4096, 65_536, 65_536, 131_072, 200_000]);
    (base + u64::from(number / 8 % 64)).saturating_sub(20)
}

fn some_attributes(step: &[u16; 6]) -> SetAttributes {
    let mut set = SetAttributes::default();
    let time = |number: u16| match number % 3 {
        0 => SetTime::Now,
        _ => SetTime::At(Timestamp { seconds: i64::from(number), nanos: u32::from(number) }),
    };
    if step[3] & 1 != 0 {
        set.mode = Some(choose(step[4], &[0o644, 0o755, 0o777, 0o600, 0, 0o4755, 0o2775, 0o1777, 0o6777]));
    }
    if step[3] & 6 == 6 {
        set.uid = Some(u32::from(step[4] % 3));
    }
    if step[3] & 24 == 24 {
        set.gid = Some(u32::from(step[4] % 4));
    }
    if step[3] & 96 == 96 {
        set.accessed = Some(time(step[4]));
    }
    if step[3] & 384 == 384 {
        set.modified = Some(time(step[4] / 3));
    }
    if step[3] & 1536 == 1536 {
        set.umask = Some(0o022);
    }
    if step[3] & 6144 == 6144 {
        set.acl = Some(Arc::new(some_acl(step[4] / 9)));
    }
    set
}

/// Lists about those who take part, inheritable or not.
fn some_acl(number: u16) -> Acl {
    let who = [Who::Owner, Who::Group, Who::Everyone, Who::User(1), Who::User(2), Who::GroupNumber(2)];
    let rights = [right::ALL, 0x27, 0x21, 0x06, right::WRITE_ACL, right::DELETE_CHILD | right::DELETE];
    let entry = |at: u16| Ace {
        allows: !at.is_multiple_of(4),
        flags: choose(at / 4, &[0, 3, 1, 2, 11]),
        rights: choose(at / 3, &rights),
        who: choose(at, &who),
    };
    Acl { flags: (number % 3) as u8, entries: (0..number % 6).map(|at| entry(number / 3 + at * 7)).collect() }
}

impl Pair {
    /// Gives both roots the same times, and everybody write permission.
    async fn open_the_root(&mut self, clock: &Arc<ManualClock>) {
        let now = SetTime::At(clock.wall());
        let set = SetAttributes {
            mode: Some(0o777),
            accessed: Some(now),
            modified: Some(now),
            created: Some(clock.wall()),
            ..SetAttributes::default()
        };
        for side in [&mut self.model, &mut self.subject] {
            let root = side.objects[0];
            side.tx().set_attributes(root, &set, Authority::Checked).await.unwrap();
        }
    }

    async fn begin(&mut self, number: u16) {
        let mode = if number % 16 == 15 { Mode::Exclusive } else { Mode::Optimistic };
        for side in [&mut self.model, &mut self.subject] {
            side.tx = Some(side.fs.begin(&caller(number), mode).await.unwrap());
        }
        self.begun = self.model.objects.len();
        self.log.push(format!("begin as user {} {mode:?}", caller(number).uid));
    }

    async fn commit(&mut self, number: u16) {
        let mode = if number & 1 == 0 { CommitMode::Durable } else { CommitMode::Visible };
        self.log.push(format!("commit {mode:?}"));
        for side in [&mut self.model, &mut self.subject] {
            if let Some(tx) = side.tx.take() {
                tx.commit(mode).await.unwrap_or_else(|error| panic!("{error} after {:#?}", self.log));
            }
        }
        self.begin(number / 2).await;
    }

    async fn roll_back(&mut self, number: u16) {
        self.log.push("roll back".to_owned());
        (self.model.tx, self.subject.tx) = (None, None);
        // What was made never was. Another object may get its id: that of an exclusive transaction's own reserve.
        let begun = self.begun;
        self.holds.retain(|(object, ..)| *object < begun);
        self.directories.retain(|object| *object < begun);
        self.model.forget(begun);
        self.subject.forget(begun);
        self.begin(number).await;
    }

    /// The number of some object; a directory most of the time if wanted.
    fn pick(&self, number: u16, directory: bool) -> usize {
        if directory && number % 8 != 7 {
            return choose(number / 8, &self.directories);
        }
        usize::from(number / 8) % self.model.objects.len()
    }

    fn hold(&mut self, number: u16) {
        let object = self.pick(number, false);
        self.log.push(format!("hold {object}"));
        let hold = |side: &Side| side.fs.reference(side.objects[object]);
        self.holds.push((object, hold(&self.model), hold(&self.subject)));
    }

    async fn operate(&mut self, kind: u16, step: &[u16; 6]) {
        let object = self.pick(step[1], kind < 26 || kind == 33);
        let other = self.pick(step[2], true);
        let what = format!("operation {kind} on {object}, {other} with {step:?}");
        self.log.push(what);
        let expected = self.model.operate(kind, object, other, step).await;
        let found = self.subject.operate(kind, object, other, step).await;
        assert_eq!(found, expected, "after {:#?}", self.log);
        self.log.push(format!("    {expected}"));
        if self.model.objects.len() > self.subject.objects.len() {
            panic!("the numbers of objects differ after {:#?}", self.log);
        }
        let last = self.model.objects.len() - 1;
        if expected.starts_with("made directory") {
            self.directories.push(last);
        }
    }
}

impl Side {
    async fn new(fs: Arc<dyn FileSystem>) -> Side {
        let tx = fs.begin(&Caller::root(), Mode::Optimistic).await.unwrap();
        let root = tx.root();
        Side {
            fs,
            tx: Some(tx),
            objects: vec![root],
            numbers: HashMap::from([(root, 0)]),
            cookies: vec![0],
            written: Vec::new(),
        }
    }

    /// Forgets the objects from this number on.
    fn forget(&mut self, first: usize) {
        for file in self.objects.drain(first..) {
            self.numbers.remove(&file);
            self.written.retain(|written| *written != file);
        }
    }

    fn tx(&mut self) -> &mut Box<dyn Transaction> {
        self.tx.as_mut().unwrap()
    }

    /// The attributes that must be equal; a new object gets the next number.
    fn show(&mut self, attributes: &Attributes) -> String {
        let next = self.objects.len();
        let number = *self.numbers.entry(attributes.file).or_insert(next);
        if number == next {
            self.objects.push(attributes.file);
        }
        let Attributes { kind, mode, links, uid, gid, acl, size, device, .. } = attributes;
        let times = [attributes.accessed, attributes.modified, attributes.changed, attributes.created];
        format!("{number}: {kind:?} {mode:o} {links} {uid} {gid} {acl:?} {size} {device:?} {times:?}")
    }

    fn result<T>(&mut self, result: FsResult<T>, show: impl FnOnce(&mut Side, T) -> String) -> String {
        match result {
            Ok(value) => show(self, value),
            Err(error) => format!("error {error:?}"),
        }
    }

    /// Runs one operation and tells its result.
    async fn operate(&mut self, kind: u16, object: usize, other: usize, step: &[u16; 6]) -> String {
        let (file, to) = (self.objects[object], self.objects[other]);
        let (first, second) = (some_name(step[3]), some_name(step[4]));
        let authority = if step[5] & 4 == 0 { Authority::Checked } else { Authority::Opened };
        let changed = |_: &mut Side, change: ChangeInfo| format!("changed {}", change.before != change.after);
        match kind {
            9..12 => {
                let made =
                    self.tx().create(file, &first, CreateKind::Directory, &some_attributes(step)).await;
                self.result(made, |side, made| format!("made directory {}", side.show(&made.attributes)))
            }
            12 => {
                let target = Bytes::from(vec![b't'; usize::from(step[4] % 5)]);
                let kinds = [
                    CreateKind::Symlink(target),
                    CreateKind::Fifo,
                    CreateKind::Socket,
                    CreateKind::BlockDevice(Device { major: 1, minor: 2 }),
                ];
                let made =
                    self.tx().create(file, &first, choose(step[5], &kinds), &some_attributes(step)).await;
                self.result(made, |side, made| format!("made {}", side.show(&made.attributes)))
            }
            13..17 => {
                let ways = [
                    OpenCreate::Unchecked,
                    OpenCreate::Unchecked,
                    OpenCreate::Guarded,
                    OpenCreate::Exclusive([step[2] as u8 % 2; 8]),
                ];
                let mut set = some_attributes(step);
                set.size = choose(step[5], &[None, None, Some(0), Some(70_000)]);
                let opened = self.tx().open_create(file, &first, choose(step[2], &ways), &set).await;
                self.result(opened, |side, opened| {
                    let change = opened.change.before != opened.change.after;
                    format!("opened {} {change} {}", opened.created, side.show(&opened.attributes))
                })
            }
            17 | 18 => {
                let found = self.tx().lookup(file, &first).await;
                self.result(found, |side, found| side.show(&found))
            }
            19..21 => {
                let removed = self.tx().remove(file, &first).await;
                self.result(removed, changed)
            }
            21..24 => {
                let moved = self.tx().rename(file, &first, to, &second).await;
                self.result(moved, |_, (from, to)| {
                    format!("moved {} {}", from.before != from.after, to.before != to.after)
                })
            }
            24 => {
                let above = self.tx().parent(file).await;
                self.result(above, |side, above| side.show(&above))
            }
            25 => {
                let cookie = choose(step[4], &self.cookies);
                let page = self.tx().read_directory(file, cookie, usize::from(step[5] % 4) + 1).await;
                self.result(page, |side, page| {
                    let mut text = format!("end {}", page.end);
                    for entry in page.entries {
                        side.cookies.push(entry.cookie);
                        text +=
                            &format!(", {} {:?} {}", entry.cookie, entry.name, side.show(&entry.attributes));
                    }
                    text
                })
            }
            26 => {
                let linked = self.tx().link(file, to, &second).await;
                self.result(linked, changed)
            }
            27 => {
                let attributes = self.tx().attributes(file).await;
                self.result(attributes, |side, attributes| side.show(&attributes))
            }
            28 => {
                let set = self.tx().set_attributes(file, &some_attributes(step), authority).await;
                self.result(set, |side, attributes| side.show(&attributes))
            }
            29 => {
                let mut set = some_attributes(step);
                set.size = Some(some_offset(step[2]));
                let set = self.tx().set_attributes(file, &set, authority).await;
                self.result(set, |side, attributes| side.show(&attributes))
            }
            30..33 => {
                let data = Bytes::from(vec![step[4] as u8; usize::from(step[3] % 300)]);
                let written = self.tx().write(file, some_offset(step[2]), data, authority).await;
                if written.is_ok() && !self.written.contains(&file) {
                    self.written.push(file);
                }
                self.result(written, |_, ()| "written".to_owned())
            }
            33 => {
                let listed = self.tx().xattrs(file).await;
                self.result(listed, |_, names| format!("{names:?}"))
            }
            34 => {
                let mode = choose(step[5], &[XattrMode::Either, XattrMode::Create, XattrMode::Replace]);
                let value = Bytes::from(vec![step[2] as u8; 3]);
                let set = self.tx().set_xattr(file, &xattr(&first), value, mode).await;
                self.result(set, changed)
            }
            35 => {
                let removed = self.tx().remove_xattr(file, &xattr(&first)).await;
                self.result(removed, changed)
            }
            40 | 41 => {
                let length = choose(step[3], &[1, 3000, 65_536, 70_000, 131_072, 200_000, u64::MAX]);
                let punched = self.tx().deallocate(file, some_offset(step[2]), length, authority).await;
                self.result(punched, |_, ()| "punched".to_owned())
            }
            42 => {
                let allocated =
                    self.tx().allocate(file, some_offset(step[2]), u64::from(step[3]), authority).await;
                self.result(allocated, |_, ()| "allocated".to_owned())
            }
            43 => {
                let start = some_offset(step[2]);
                let found = self.extents(file, start..start + 4 * u64::from(step[3]), authority).await;
                self.result(found, |_, end| format!("extents up to {end:?}"))
            }
            37 | 44 | 45 => {
                // Files are few among all objects: most of the time one that has been written to.
                let files: Vec<FileId> = match step[5] & 8 {
                    0 => self.written.clone(),
                    _ => self.objects.clone(),
                };
                if files.is_empty() {
                    return "nothing to clone".to_owned();
                }
                let (from, to) = (choose(step[1], &files), choose(step[3], &files));
                let unit = 64 << 10;
                let at = |file, number| Position { file, offset: u64::from(number % 4) * unit, authority };
                let length = choose(step[3] / 7, &[0, 0, 0, unit, 2 * unit, 3 * unit, 1000]);
                let cloned = self.tx().clone_range(at(from, step[2]), at(to, step[4]), length, true).await;
                self.result(cloned, |_, ()| "cloned".to_owned())
            }
            36 => {
                let target = self.tx().read_link(file).await;
                self.result(target, |_, target| format!("{target:?}"))
            }
            _ => {
                let length = u32::from(step[3]) * 4;
                let data = self.tx().read(file, some_offset(step[2]), length, authority).await;
                self.result(data, |_, data| format!("{} {}", data.end_of_file, digest(&data.segments)))
            }
        }
    }

    /// Where the extents of `range` end. How fine they are is not compared: a hole may be called data, but not the
    /// other way round.
    async fn extents(
        &mut self,
        file: FileId,
        range: Range<u64>,
        authority: Authority,
    ) -> FsResult<Option<u64>> {
        let found = self.tx().extents(file, range.clone(), usize::MAX, authority).await?;
        let mut at = range.start;
        for Extent { range, is_hole } in &found {
            assert!(range.start == at && range.end > at, "gaps in {found:?}");
            at = range.end;
            if *is_hole {
                let length = (range.end - range.start) as u32;
                let data = self.tx().read(file, range.start, length, authority).await?;
                let mut bytes = data.segments.iter().flatten();
                assert!(data.len() as u32 == length && bytes.all(|&byte| byte == 0), "data in {range:?}");
            }
        }
        assert!(found.windows(2).all(|pair| pair[0].is_hole != pair[1].is_hole), "{found:?}");
        Ok(found.last().map(|last| last.range.end))
    }

    /// The whole tree as text, with the superuser's eyes.
    async fn tree(&mut self) -> Vec<String> {
        self.tx = Some(self.fs.begin(&Caller::root(), Mode::Optimistic).await.unwrap());
        let mut lines = Vec::new();
        let mut rest = vec![(String::new(), self.objects[0])];
        while let Some((path, file)) = rest.pop() {
            let attributes = self.tx().attributes(file).await.unwrap();
            assert!(permitted(&attributes, &Caller::root()).contains(Access::READ));
            let mut line = format!("{path} {}", self.show(&attributes));
            match attributes.kind {
                FileKind::Regular => {
                    let data = self.tx().read(file, 0, u32::MAX, Authority::Checked).await.unwrap();
                    line += &digest(&data.segments);
                    self.extents(file, 0..attributes.size, Authority::Checked).await.unwrap();
                }
                FileKind::Symlink => line += &format!("{:?}", self.tx().read_link(file).await.unwrap()),
                FileKind::Directory => {
                    let page = self.tx().read_directory(file, 0, usize::MAX / 2).await.unwrap();
                    for entry in page.entries {
                        line += &format!(" {}", entry.cookie);
                        rest.push((format!("{path}/{:?}", entry.name), entry.attributes.file));
                    }
                }
                _ => {}
            }
            if matches!(attributes.kind, FileKind::Regular | FileKind::Directory) {
                for name in self.tx().xattrs(file).await.unwrap() {
                    line += &format!(" {name:?}={:?}", self.tx().xattr(file, &name).await.unwrap());
                }
            }
            lines.push(line);
        }
        lines
    }
}

/// Length, and what differs between different contents: runs of equal bytes.
fn digest(segments: &[Bytes]) -> String {
    let content = segments.concat();
    let mut text = format!("{} bytes:", content.len());
    for run in content.chunk_by(|a, b| a == b) {
        text += &format!(" {}x{}", run[0], run.len());
    }
    text
}
