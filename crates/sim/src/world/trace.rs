use std::collections::VecDeque;
use std::fmt::Display;
use std::hash::Hasher;
use std::sync::Arc;

use parking_lot::Mutex;
use twox_hash::XxHash3_64;

/// Events that are shown when a life fails.
const SHOWN: usize = 60;

/// Everything that crosses a border of the simulated machine, in order, as one number; and the last of it as text.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<Inner>>);

struct Inner {
    hash: XxHash3_64,
    events: u64,
    last: VecDeque<String>,
    /// All of it, if somebody wants to compare two lives.
    whole: Option<Vec<String>>,
}

impl Trace {
    pub fn new(is_whole: bool) -> Trace {
        let (hash, whole) = (XxHash3_64::new(), is_whole.then(Vec::new));
        Trace(Arc::new(Mutex::new(Inner { hash, events: 0, last: VecDeque::new(), whole })))
    }

    /// Something has happened, with these bytes.
    pub fn note(&self, event: impl Display, bytes: &[u8]) {
        let text = event.to_string();
        let mut inner = self.0.lock();
        inner.hash.write(text.as_bytes());
        inner.hash.write(bytes);
        inner.events += 1;
        let text = format!("{:>7} {text}", inner.events);
        if let Some(whole) = &mut inner.whole {
            whole.push(text.clone());
        }
        inner.last.push_back(text);
        if inner.last.len() > SHOWN {
            inner.last.pop_front();
        }
    }

    /// More bytes of the event before.
    pub fn hash_in(&self, bytes: &[u8]) {
        self.0.lock().hash.write(bytes);
    }

    pub fn hash(&self) -> u64 {
        self.0.lock().hash.finish()
    }

    pub fn events(&self) -> u64 {
        self.0.lock().events
    }

    /// The last events, one a line.
    pub fn last(&self) -> String {
        self.0.lock().last.iter().map(|line| format!("    {line}\n")).collect()
    }

    pub fn whole(&self) -> Vec<String> {
        self.0.lock().whole.clone().unwrap_or_default()
    }
}
