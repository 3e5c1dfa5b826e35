use std::collections::VecDeque;
use std::time::Duration;

use crate::nfs::held::Walk;
use crate::nfs::plan::Work;
use crate::step::{Done, Step};

/// A list of steps on its way.
pub(in crate::nfs) struct Run {
    /// What is left to do; the place of each in the list. A step may be there in several pieces.
    pub queue: VecDeque<(usize, Work)>,
    pub done: Vec<Done>,
    /// Since when the server has had no time, and how long the next pause is.
    pub delayed: Option<(Duration, Duration)>,
    /// How often the server refused a compound as too large.
    pub refused: u32,
    /// Pieces that go into the next compound at most.
    pub most: usize,
    /// Whether what is kept may stand for what is read.
    pub keeps: bool,
    /// What was [in doubt](nfs4_client::Client::doubts) before the last compound was sent.
    pub doubts: u64,
    /// When that was.
    pub walk: Walk,
}

impl Run {
    pub fn new(queue: VecDeque<(usize, Work)>) -> Run {
        Run {
            queue,
            done: Vec::new(),
            delayed: None,
            refused: 0,
            most: usize::MAX,
            keeps: false,
            doubts: 0,
            walk: Walk::default(),
        }
    }

    /// The result of a step, or of a part of it.
    pub fn finish(&mut self, index: usize, done: Done) {
        if self.done.len() <= index {
            self.done.push(done);
            return;
        }
        match (&mut self.done[index], done) {
            (Done::Read(data), Done::Read(more)) if !data.end_of_file => {
                data.pieces.extend(more.pieces);
                data.end_of_file = more.end_of_file;
            }
            (Done::Written(bytes), Done::Written(more)) | (Done::Copied(bytes), Done::Copied(more)) => {
                *bytes += more;
            }
            _ => {}
        }
    }

    /// Of a READ that has met the end of its file, what is left has nothing to say.
    pub fn leave_out_beyond_ends(&mut self) {
        while let Some((index, work)) = self.queue.front()
            && let (Step::Read(_), Some(Done::Read(data))) = (&work.step, self.done.get(*index))
            && data.end_of_file
        {
            self.queue.pop_front();
        }
    }

    /// The results of the steps of which nothing is left.
    pub fn complete(mut self) -> Vec<Done> {
        if let Some((index, _)) = self.queue.front() {
            self.done.truncate(*index);
        }
        self.done
    }
}
