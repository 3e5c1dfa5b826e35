//! One direction of a connection.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::Records;

/// Bytes on their way in one direction at most.
const WINDOW: usize = 64 << 20;

/// Bytes read at once.
const CHUNK: usize = 256 << 10;

#[derive(Default)]
struct Way {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What is on its way, and when it arrives.
    chunks: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    ended: bool,
}

/// Passes everything on, `delay` after it came, by two threads; `records` sees it.
pub fn pass(mut from: TcpStream, mut to: TcpStream, delay: Duration, mut records: Records) {
    let way = Arc::new(Way::default());
    let other = way.clone();
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = from.read(&mut buffer).unwrap_or(0);
            records.see(&buffer[..count]);
            let Ok(mut state) = other.state.lock() else { return };
            while state.bytes > WINDOW {
                let Ok(waited) = other.changed.wait(state) else { return };
                state = waited;
            }
            state.bytes += count;
            state.ended = count == 0;
            if count > 0 {
                state.chunks.push_back((Instant::now() + delay, buffer[..count].to_vec()));
            }
            other.changed.notify_all();
            if count == 0 {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        loop {
            let Ok(mut state) = way.state.lock() else { return };
            while state.chunks.is_empty() && !state.ended {
                let Ok(waited) = way.changed.wait(state) else { return };
                state = waited;
            }
            let Some((due, chunk)) = state.chunks.pop_front() else {
                let _ = to.shutdown(Shutdown::Both);
                return;
            };
            drop(state);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let sent = to.write_all(&chunk);
            let Ok(mut state) = way.state.lock() else { return };
            state.bytes -= chunk.len();
            way.changed.notify_all();
            if sent.is_err() {
                let _ = to.shutdown(Shutdown::Both);
                state.ended = true;
                state.chunks.clear();
            }
        }
    });
}
