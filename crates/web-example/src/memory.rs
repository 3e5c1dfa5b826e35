//! What was read ahead, for the requests that follow.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::site::Object;

/// Files in memory, for a short time. Bounded by bytes and by the age of each; the oldest go first.
pub(crate) struct Memory {
    bytes: usize,
    age: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: HashMap<Bytes, (Duration, Object)>,
    /// In the order in which they were put in; what was put in again is there twice.
    order: VecDeque<(Duration, Bytes)>,
    bytes: usize,
    /// Files that are being read.
    coming: HashMap<Bytes, watch::Receiver<()>>,
}

/// What is known of a file.
pub(crate) enum Known {
    Here(Box<Object>),
    /// It is being read; the channel closes when that is over.
    Coming(watch::Receiver<()>),
    Nothing,
}

/// Files that are being read; those who wait for them wait no longer when it is dropped.
pub(crate) struct Coming {
    memory: Arc<Memory>,
    pub files: Vec<Bytes>,
    _over: watch::Sender<()>,
}

/// What an object takes beside its content, about.
const BESIDE: usize = 512;

fn size(file: &Bytes, object: &Object) -> usize {
    BESIDE + 2 * file.len() + object.content.len()
}

impl Memory {
    /// Of so many bytes, each for so long.
    pub fn new(bytes: usize, age: Duration) -> Memory {
        Memory { bytes, age, state: Mutex::default() }
    }

    pub fn get(&self, file: &Bytes, now: Duration) -> Known {
        let mut state = self.state.lock();
        state.forget(now.saturating_sub(self.age), self.bytes);
        match (state.objects.get(file), state.coming.get(file)) {
            (Some((_, object)), _) => Known::Here(Box::new(object.clone())),
            (None, Some(coming)) => Known::Coming(coming.clone()),
            (None, None) => Known::Nothing,
        }
    }

    pub fn put(&self, file: Bytes, object: Object, now: Duration) {
        let mut state = self.state.lock();
        state.bytes += size(&file, &object);
        state.order.push_back((now, file.clone()));
        if let Some((_, old)) = state.objects.insert(file.clone(), (now, object)) {
            state.bytes -= size(&file, &old);
        }
        state.forget(now.saturating_sub(self.age), self.bytes);
    }

    /// Those of `files` that are neither here nor coming, which from now on are coming.
    pub fn announce(self: &Arc<Memory>, files: Vec<Bytes>, now: Duration) -> Coming {
        let mut state = self.state.lock();
        state.forget(now.saturating_sub(self.age), self.bytes);
        let (over, coming) = watch::channel(());
        let mut new = Vec::new();
        for file in files {
            if !state.objects.contains_key(&file) && !state.coming.contains_key(&file) {
                state.coming.insert(file.clone(), coming.clone());
                new.push(file);
            }
        }
        Coming { memory: Arc::clone(self), files: new, _over: over }
    }
}

impl State {
    /// Those older than `oldest`, and as many of the oldest as are too many.
    fn forget(&mut self, oldest: Duration, bytes: usize) {
        while let Some((put, file)) = self.order.front()
            && (*put < oldest || self.bytes > bytes || self.order.len() > bytes / BESIDE + 1)
        {
            let is_last = self.objects.get(file).is_some_and(|(at, _)| at == put);
            if is_last && let Some((_, object)) = self.objects.remove(file) {
                self.bytes -= size(file, &object);
            }
            self.order.pop_front();
        }
    }
}

impl Coming {
    /// No more than `most` of them; the others are not coming.
    pub fn keep(&mut self, most: usize) {
        let mut state = self.memory.state.lock();
        for file in self.files.drain(most.min(self.files.len())..) {
            state.coming.remove(&file);
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        let mut state = self.memory.state.lock();
        for file in &self.files {
            state.coming.remove(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Arc<Memory> {
        Arc::new(Memory::new(3 * (BESIDE + 102), Duration::from_secs(5)))
    }

    fn object(byte: u8) -> Object {
        Object { content: vec![byte; 100].into(), ..Object::default() }
    }

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn has(memory: &Memory, file: &'static str, now: u64) -> Option<u8> {
        match memory.get(&file.into(), at(now)) {
            Known::Here(object) => Some(object.content[0]),
            _ => None,
        }
    }

    #[test]
    fn the_oldest_make_room() {
        let memory = memory();
        for (second, file) in ["a", "b", "c", "d"].into_iter().enumerate() {
            memory.put(file.into(), object(b'x'), at(second as u64));
        }
        assert_eq!(
            ["a", "b", "c", "d"].map(|file| has(&memory, file, 4).is_some()),
            [false, true, true, true]
        );
        memory.put("big".into(), Object { content: vec![0; 10_000].into(), ..Object::default() }, at(4));
        assert!(["b", "c", "d", "big"].iter().all(|file| has(&memory, file, 4).is_none()));
        assert_eq!(memory.state.lock().bytes, 0);
    }

    #[test]
    fn nothing_is_older_than_it_may_be() {
        let memory = memory();
        memory.put("a".into(), object(1), at(0));
        assert_eq!(has(&memory, "a", 5), Some(1));
        memory.put("a".into(), object(2), at(4));
        assert_eq!(has(&memory, "a", 9), Some(2));
        assert_eq!(has(&memory, "a", 10), None);
        assert!(memory.state.lock().order.is_empty());
    }

    #[test]
    fn put_twice_at_one_instant_counts_once() {
        let memory = memory();
        memory.put("a".into(), object(1), at(1));
        memory.put("a".into(), object(2), at(1));
        assert_eq!(has(&memory, "a", 1), Some(2));
        assert_eq!(has(&memory, "a", 7), None);
        assert_eq!(memory.state.lock().bytes, 0);
    }

    #[tokio::test]
    async fn those_who_wait_are_told_when_it_is_over() {
        let memory = memory();
        memory.put("here".into(), object(1), at(0));
        let coming = memory.announce(vec!["a".into(), "here".into()], at(0));
        assert_eq!(coming.files, ["a"]);
        assert!(memory.announce(vec!["a".into()], at(0)).files.is_empty());
        let Known::Coming(mut wait) = memory.get(&"a".into(), at(0)) else { panic!("is coming") };
        drop(coming);
        assert!(wait.changed().await.is_err());
        assert!(matches!(memory.get(&"a".into(), at(0)), Known::Nothing));
    }
}
