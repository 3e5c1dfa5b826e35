use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use environment::Environment;
use seal::{NodeKey, SegmentKey};

use crate::files::Files;
use crate::layout::{RUN_HEADER, RunHeader};
use crate::recovery::Recovery;
use crate::segment::{Mark, Segment, SegmentFile};
use crate::shared::State;
use crate::space::Space;
use crate::walk::{Step, Walk};
use crate::{JournalConfig, JournalError};

/// Finds out what a directory holds and where writing goes on.
pub(crate) fn open(
    environment: &Environment,
    directory: &Path,
    node_key: &NodeKey,
    config: &JournalConfig,
) -> Result<(State, Recovery), JournalError> {
    let disk = &*environment.disk;
    let fail = |what| {
        let path = directory.to_owned();
        move |cause| JournalError::Open { what, path, cause: Arc::new(cause) }
    };
    disk.make_directory(directory).map_err(fail("making the directory"))?;
    let mut files = Files::list(disk, directory, node_key)?;
    if let Some(path) = files.foreign {
        return Err(JournalError::WrongKey { path });
    }
    files.are_distinct()?;

    let mut state = State {
        current: Arc::new(Segment::new(1)),
        current_bytes: config.segment,
        at: RUN_HEADER,
        run_key: None,
        run: 1,
        batch_number: 0,
        next_lsn: config.first,
        open: None,
        closed: VecDeque::new(),
        writing: None,
        live: BTreeMap::new(),
        dying: Vec::new(),
        free: Vec::new(),
        file_count: 0,
        segments: config.segments(),
        disk_full: false,
        next_file: files.last_index,
        filler_gone: false,
        oldest_segment: 1,
        unmarked: None,
        tail_unproven: false,
        space: Space::default(),
        failed: None,
        stop: false,
    };
    let mut recovery = Recovery { segments: VecDeque::new(), ready: VecDeque::new(), next_lsn: config.first };

    let mut unneeded = Vec::new();
    if let Some(newest) = files.segments.pop() {
        let tail = Tail::find(newest.file, newest.header, newest.key, node_key)?;
        let before = files.segments.last().filter(|it| it.header.segment + 1 == tail.header.segment);
        let mark = before.map(|before| Mark::in_file(&before.file, &tail.header));
        // It was written when a batch of this one was durable.
        if let Some(before) = before.filter(|_| tail.walk.at == RUN_HEADER)
            && mark.as_ref().is_some_and(|mark| mark.is_there(node_key))
        {
            return Err(JournalError::NewestSegmentLost { before: before.file.path.clone() });
        }
        environment::failpoint!("recovery.tail-found");
        tail.make_durable().map_err(fail("syncing"))?;
        let walk = tail.walk;
        // However it stands there: an interrupted process may have left it in the page cache only.
        state.unmarked = mark.filter(|mark| mark.segment.sequence >= walk.oldest_segment);
        state.current = walk.segment.clone();
        state.current_bytes = walk.file.bytes;
        state.at = walk.at;
        state.run = walk.run;
        state.next_lsn = walk.next_lsn;
        state.oldest_segment = walk.oldest_segment;
        state.tail_unproven = tail.unproven;
        state.file_count = 1;
        recovery.next_lsn = walk.next_lsn;

        let mut newer = tail.header.clone();
        let mut last = tail.replay;
        last.end = Some(walk.at);
        recovery.segments.push_front(last);
        while newer.segment > state.oldest_segment {
            let opened = files.segments.pop().filter(|opened| opened.header.segment + 1 == newer.segment);
            let Some(opened) = opened else {
                return Err(JournalError::Damaged {
                    path: directory.to_owned(),
                    offset: 0,
                    what: "one more segment, which is missing or has lost its header",
                });
            };
            let segment = Arc::new(Segment::new(opened.header.segment));
            segment.set_file(opened.file.clone());
            state.live.insert(segment.sequence, (segment.clone(), newer.first_lsn));
            state.file_count += 1;
            let key = Arc::new(opened.key);
            let mut walk = Walk::new(segment, opened.file, node_key.clone(), &opened.header, key);
            walk.end = Some(newer.previous_end);
            recovery.segments.push_front(walk);
            newer = opened.header;
        }
        for opened in files.segments {
            if opened.is_whole { &mut unneeded } else { &mut files.blank }.push(opened.file);
        }
    } else {
        state.next_file += 1;
        let first = SegmentFile::create(disk, directory, state.next_file, config.segment)
            .map_err(fail("making a segment in"))?;
        state.file_count = 1;
        begin(environment, &first, node_key, &state).map_err(fail("writing the first segment in"))?;
        state.current.set_file(first);
    }

    // Whatever is in use, and however small the configured capacity has become: upkeep can do its work, and thereby
    // empty the journal. Clients have no part in the additional segments.
    let needed = state.segments_in_use() + config.headroom_segments();
    if needed > state.segments {
        tracing::warn!(
            segments = needed,
            configured = state.segments,
            "the journal is full of what is not in the clouds yet; it takes more of the disk until that is written back"
        );
        state.segments = needed;
    }

    for file in unneeded {
        if file.bytes == config.segment && state.file_count < state.segments {
            state.file_count += 1;
            state.free.push(file);
        } else {
            files.blank.push(file);
        }
    }
    // Left from another configuration, a spare one, an interrupted preparation, one that has lost its header, or one that a torn
    // write would have made another segment: such a file may hold runs under numbers that are given again now, which would
    // look like records behind a gap, or be taken for the segment that has the number now.
    for file in files.blank {
        disk.remove(&file.path).map_err(fail("removing an unused segment in"))?;
    }
    Ok((state, recovery))
}

/// Marks a new journal as begun. The first process run keeps no key of it: its own run follows.
fn begin(
    environment: &Environment,
    file: &SegmentFile,
    node_key: &NodeKey,
    state: &State,
) -> std::io::Result<()> {
    let mut salt = [0; 32];
    environment.entropy.fill(&mut salt);
    let header = RunHeader {
        segment_bytes: file.bytes,
        segment: state.current.sequence,
        run: state.run,
        salt,
        first_lsn: state.next_lsn,
        previous_end: 0,
        oldest_segment: state.oldest_segment,
    };
    let key = SegmentKey::derive(node_key, "journal", &salt);
    file.file.write_all_at(&[IoSlice::new(&header.encode(&key, 0))], 0)?;
    file.file.sync_data()
}

fn tell_of_torn_write(walk: &Walk) {
    tracing::warn!(
        file = %walk.file.path.display(),
        offset = walk.at,
        last = walk.next_lsn.0 - 1,
        "the journal ends in an interrupted write, which is cut off; everything acknowledged before it is there"
    );
}

/// The end of the newest segment.
struct Tail {
    header: RunHeader,
    /// Stands at the end.
    walk: Walk,
    /// Stands at the start, for the replay.
    replay: Walk,
    /// Where the last write began.
    last_write: u64,
    /// The last batch carries records, and nothing behind it proves that its sync returned.
    unproven: bool,
}

impl Tail {
    fn find(
        file: SegmentFile,
        header: RunHeader,
        key: SegmentKey,
        node_key: &NodeKey,
    ) -> Result<Tail, JournalError> {
        let segment = Arc::new(Segment::new(header.segment));
        segment.set_file(file.clone());
        let key = Arc::new(key);
        let replay = Walk::new(segment.clone(), file.clone(), node_key.clone(), &header, key.clone());
        let mut walk = Walk::new(segment, file, node_key.clone(), &header, key);
        let (mut last_write, mut last_batch) = (0, RUN_HEADER);
        let mut last_records = Vec::new();
        let mut before_last = walk.oldest_segment;
        let mut behind_header = true;
        loop {
            let (at, oldest) = (walk.at, walk.oldest_segment);
            match walk.step()? {
                Step::Batch { start, records } => {
                    // The first batch of a run is written together with the run's header.
                    if !behind_header {
                        last_write = start;
                    }
                    behind_header = false;
                    (last_batch, last_records, before_last) = (start, records, oldest);
                }
                Step::Run => {
                    behind_header = true;
                    (last_write, last_records, before_last) = (at, Vec::new(), oldest);
                }
                Step::Continues => {
                    return Err(JournalError::NewestSegmentLost { before: walk.file.path.clone() });
                }
                Step::End | Step::Invalid => break,
            }
        }
        let from = walk.at;
        walk.nothing_follows(from)?;
        if walk.begins_batch()? {
            tell_of_torn_write(&walk);
        }
        if !walk.payloads_are_whole(&last_records)? {
            // Torn: the head arrived and part of the payloads did not.
            let first = last_records.first().map_or(walk.next_lsn, |record| record.lsn);
            walk.step_back(last_batch, first, before_last);
            tell_of_torn_write(&walk);
            last_records.clear();
        }
        let unproven = !last_records.is_empty();
        Ok(Tail { header, walk, replay, last_write, unproven })
    }

    /// Writes the end of the segment again, as it is, and syncs. A crash of the process may have left it in
    /// the page cache only, and after a failed sync the cache calls it clean although the disk lacks it.
    fn make_durable(&self) -> std::io::Result<()> {
        let file = &self.walk.file;
        if self.last_write < self.walk.at {
            let mut bytes = vec![0; (self.walk.at - self.last_write) as usize];
            file.file.read_exact_at(&mut bytes, self.last_write)?;
            file.file.write_all_at(&[IoSlice::new(&bytes)], self.last_write)?;
        }
        file.file.sync_data()
    }
}
