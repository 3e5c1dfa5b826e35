//! When operations begin: each as soon as the one before has ended (closed loop), or when it is its turn by a schedule that does not
//! wait for anybody (open loop).
//!
//! In an open loop an operation counts from when it was meant to begin. What had to wait because a server was slow is thus counted as
//! slow, and not left out as if nobody had wanted it (coordinated omission).

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::latency::Recorder;

/// When operations begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each lane has one operation on the way, always.
    Closed,
    /// So many operations a second over all clients, by a Poisson process under this seed.
    Open { rate: f64, seed: u64 },
}

/// One operation to come: how long after the start, and of which client.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arrival {
    after: Duration,
    client: usize,
}

/// `share` arrivals for each client, of a Poisson process with `rate` a second over all of them.
fn schedule(rate: f64, seed: u64, share: u64, clients: usize) -> Vec<Arrival> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut whose: Vec<usize> = (0..clients).flat_map(|client| (0..share).map(move |_| client)).collect();
    whose.shuffle(&mut random);
    let mut seconds = 0.0;
    let arrival = |client| {
        // The gaps are distributed exponentially.
        seconds -= (1.0 - random.random::<f64>()).ln() / rate;
        Arrival { after: Duration::from_secs_f64(seconds), client }
    };
    whose.into_iter().map(arrival).collect()
}

/// Where the lanes of a client learn when to begin.
#[derive(Clone)]
pub enum Turns {
    Closed,
    Open(Arc<Mutex<mpsc::UnboundedReceiver<Instant>>>),
}

impl Turns {
    /// When the next operation is meant to begin, which is now or was a moment ago; `None`: no more are to come.
    async fn next(&self) -> Option<Instant> {
        match self {
            Turns::Closed => Some(Instant::now()),
            Turns::Open(turns) => turns.lock().await.recv().await,
        }
    }
}

/// Says to every client when it is its turn.
pub struct Pacer {
    schedule: Vec<Arrival>,
    clients: Vec<mpsc::UnboundedSender<Instant>>,
}

impl Pacer {
    /// Turns for each of `clients`, which do `share` operations each.
    pub fn new(pace: Pace, share: u64, clients: usize) -> (Pacer, Vec<Turns>) {
        match pace {
            Pace::Closed => {
                let pacer = Pacer { schedule: Vec::new(), clients: Vec::new() };
                (pacer, vec![Turns::Closed; clients])
            }
            Pace::Open { rate, seed } => {
                let ends = (0..clients).map(|_| mpsc::unbounded_channel());
                let (clients, turns): (Vec<_>, Vec<_>) =
                    ends.map(|(sender, turns)| (sender, Turns::Open(Arc::new(Mutex::new(turns))))).unzip();
                (Pacer { schedule: schedule(rate, seed, share, turns.len()), clients }, turns)
            }
        }
    }

    /// Runs on a thread of its own, as timers of the runtime are a millisecond too late.
    pub fn start(self, start: Instant) {
        std::thread::spawn(move || {
            // The kernel adds 50 µs to every pause otherwise; if it goes on doing so, operations begin late, and that is counted.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            for Arrival { after, client } in self.schedule {
                let intended = start + after;
                std::thread::sleep(intended.saturating_duration_since(Instant::now()));
                if self.clients[client].send(intended).is_err() {
                    return; // its lanes are gone, with an error of theirs
                }
            }
        });
    }
}

/// What a lane does, one operation after the other.
pub trait Work {
    /// Whether there is nothing more to do.
    fn is_done(&self) -> bool;

    /// Does the next operation, and says of which kind it was; `None`: another lane has done the last.
    fn next(&mut self) -> impl Future<Output = Result<Option<&'static str>>> + Send;
}

/// Does all that there is to do, as it is its turn.
pub async fn drive<W: Work + Send>(mut work: W, turns: Turns, recorder: &Recorder) -> Result<()> {
    while !work.is_done() {
        let Some(intended) = turns.next().await else { break };
        let late = intended.elapsed();
        let Some(kind) = work.next().await? else { break };
        recorder.operation(kind, intended.elapsed(), late);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn arrivals_are_a_poisson_process_in_which_each_client_has_its_share() {
        let arrivals = schedule(1000.0, 7, 10_000, 4);
        assert_eq!(arrivals, schedule(1000.0, 7, 10_000, 4));
        assert_ne!(arrivals, schedule(1000.0, 8, 10_000, 4));
        for client in 0..4 {
            assert_eq!(arrivals.iter().filter(|arrival| arrival.client == client).count(), 10_000);
        }
        let gaps: Vec<f64> =
            arrivals.windows(2).map(|pair| (pair[1].after - pair[0].after).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean * 1000.0 - 1.0).abs() < 0.03, "{mean}");
        // Of an exponential distribution the deviation is the mean, and a part of 1/e is longer.
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((deviation / mean - 1.0).abs() < 0.03, "{deviation}");
        let longer = gaps.iter().filter(|gap| **gap > mean).count() as f64 / gaps.len() as f64;
        assert!((longer - (-1.0f64).exp()).abs() < 0.02, "{longer}");
        // The process of one client alone is one with a quarter of the rate.
        let own: Vec<Duration> = arrivals.iter().filter(|it| it.client == 0).map(|it| it.after).collect();
        let last = own.last().unwrap().as_secs_f64();
        assert!((own.len() as f64 / last / 250.0 - 1.0).abs() < 0.03);
    }

    /// A server that answers in a millisecond, but for the tenth operation: that takes a tenth of a second.
    struct Stalling {
        done: u64,
        of: u64,
    }

    impl Work for Stalling {
        fn is_done(&self) -> bool {
            self.done == self.of
        }

        async fn next(&mut self) -> Result<Option<&'static str>> {
            self.done += 1;
            tokio::time::sleep(millis(if self.done == 10 { 100 } else { 1 })).await;
            Ok(Some("call"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn operations_behind_a_stall_count_from_when_they_were_meant_to_begin() {
        let (sender, turns) = mpsc::unbounded_channel();
        let turns = Turns::Open(Arc::new(Mutex::new(turns)));
        let pacer = tokio::spawn(async move {
            let start = Instant::now();
            for n in 1..=50 {
                // Every other millisecond.
                tokio::time::sleep_until(start + millis(2 * n)).await;
                sender.send(start + millis(2 * n)).unwrap();
            }
        });
        let recorder = Recorder::default();
        drive(Stalling { done: 0, of: 50 }, turns, &recorder).await.unwrap();
        pacer.await.unwrap();
        let found = recorder.take();
        // The tenth has 100 ms, and each one after it 1 ms less than the one before.
        assert_eq!(found.all.count(), 50);
        let is_about = |found: Duration, expected: Duration| found.abs_diff(expected) < millis(2);
        assert!(is_about(found.all.longest(), millis(100)), "{:?}", found.all.longest());
        assert!(is_about(found.all.quantile(0.5), millis(75)), "{:?}", found.all.quantile(0.5));
        assert!(is_about(found.late.longest(), millis(98)), "{:?}", found.late.longest());
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_loop_has_one_slow_operation_and_is_never_late() {
        let recorder = Recorder::default();
        drive(Stalling { done: 0, of: 50 }, Turns::Closed, &recorder).await.unwrap();
        let found = recorder.take();
        assert!(found.all.longest() >= millis(99) && found.all.quantile(0.95) < millis(3));
        assert_eq!(found.late.longest(), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_lane_ends_when_no_turns_are_left() {
        let (sender, turns) = mpsc::unbounded_channel();
        sender.send(Instant::now()).unwrap();
        drop(sender);
        let recorder = Recorder::default();
        let turns = Turns::Open(Arc::new(Mutex::new(turns)));
        drive(Stalling { done: 0, of: 50 }, turns, &recorder).await.unwrap();
        assert_eq!(recorder.take().all.count(), 1);
    }
}
