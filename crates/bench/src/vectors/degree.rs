//! Every call with 1, 2, 4, ... 256 elements (kurma.md, figure 3.7).

mod call;

use std::time::Instant;

use anyhow::Result;
use vector_client::{Client, Options};

use super::delay::Line;
use super::report::Run;
use crate::sample::estimate;
use call::{CALLS, Call};

/// Elements of a call.
pub const DEGREES: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Elements that one call of each degree is repeated for, at the most.
const ELEMENTS: usize = 256;

/// Elements done one at a time.
const ALONE: usize = 16;

/// One call on one server over one line.
pub struct Row {
    pub server: &'static str,
    pub delay: f64,
    pub call: &'static str,
    /// Of one element, one operation after the other.
    pub alone: Run,
    /// Seconds of an element, round trips of a call, for each of [`DEGREES`], up to one that fails.
    pub degrees: Vec<Run>,
}

/// All calls whose name contains `only` over one line, below `base`.
pub async fn run(
    server: &'static str,
    line: &Line,
    delay: f64,
    near: &Client,
    base: &str,
    repeat: usize,
    only: &str,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for call in CALLS.into_iter().filter(|call| call.name().contains(only)) {
        let folder = format!("{base}/{}", call.name());
        let alone = match one_at_a_time(line, near, call, &folder, repeat).await {
            Ok(alone) => alone,
            Err(error) => {
                eprintln!("{server}, {} one at a time: {error:#}", call.name());
                continue;
            }
        };
        let mut degrees = Vec::new();
        for degree in DEGREES {
            match of_degree(line, near, call, &format!("{folder}/{degree}"), degree, repeat).await {
                Ok(run) => degrees.push(run),
                Err(error) => {
                    eprintln!("{server}, {} of {degree}: {error:#}", call.name());
                    break;
                }
            }
        }
        let last = degrees.last().map_or(0.0, |run: &Run| run.seconds * 1000.0);
        let most = DEGREES[..degrees.len()].last().copied().unwrap_or(0);
        let alone_ms = alone.seconds * 1000.0;
        eprintln!("{server}, {delay} ms, {}: one {alone_ms:.3} ms, of {most} {last:.3} ms each", call.name());
        rows.push(Row { server, delay, call: call.name(), alone, degrees });
    }
    rows
}

async fn one_at_a_time(line: &Line, near: &Client, call: Call, folder: &str, repeat: usize) -> Result<Run> {
    let (mut seconds, mut trips) = (Vec::new(), 0);
    for repetition in 0..repeat {
        let folder = format!("{folder}/alone-{repetition}");
        call.prepare(near, &folder, ALONE).await?;
        let kernel = line.kernel().await?;
        // A program that works in a folder knows its name, though not those in it.
        kernel.handle(&folder).await?;
        let before = kernel.round_trips();
        let start = Instant::now();
        for n in 0..ALONE {
            call.alone(&kernel, &folder, n).await?;
        }
        seconds.push(start.elapsed().as_secs_f64() / ALONE as f64);
        trips = kernel.round_trips() - before;
        call.check(near, &folder, ALONE).await?;
    }
    Ok(Run::whole(estimate(&seconds).mean, trips as f64 / ALONE as f64))
}

async fn of_degree(
    line: &Line,
    near: &Client,
    call: Call,
    folder: &str,
    degree: usize,
    repeat: usize,
) -> Result<Run> {
    let calls = (ELEMENTS / degree).clamp(1, ALONE);
    let (mut seconds, mut trips) = (Vec::new(), 0);
    for repetition in 0..repeat {
        let folder = format!("{folder}-{repetition}");
        call.prepare(near, &folder, calls * degree).await?;
        let client = Client::connect(line.address, Options { cache_bytes: 0, ..Options::default() }).await?;
        let before = client.statistics().round_trips;
        let start = Instant::now();
        for n in 0..calls {
            call.vector(&client, &folder, n * degree..(n + 1) * degree).await?;
        }
        seconds.push(start.elapsed().as_secs_f64() / (calls * degree) as f64);
        trips = client.statistics().round_trips - before;
        client.close().await?;
        call.check(near, &folder, calls * degree).await?;
    }
    Ok(Run::whole(estimate(&seconds).mean, trips as f64 / calls as f64))
}
