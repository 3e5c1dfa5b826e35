//! Waiting that a signal ends.
//!
//! The kernel would tell of signals by FUSE_INTERRUPT, which the FUSE library does not take. But who waits is known, and
//! `/proc` has the signals that wait for him.

use std::time::Duration;

use fuser::Errno;

use crate::errno::Answer;

/// How often it is looked at whether somebody who waits is to die.
const GLANCE: Duration = Duration::from_secs(1);

/// Bit of SIGKILL in a mask of signals.
const KILL: u64 = 1 << 8;

/// What `work` answers, or EINTR if the thread for which it is done is killed meanwhile.
pub(crate) async fn killable<T>(thread: u32, work: impl Future<Output = Answer<T>>) -> Answer<T> {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(GLANCE, &mut work).await {
            Ok(answer) => return answer,
            Err(_) if is_dying(thread) => return Err(Errno::EINTR),
            Err(_) => {}
        }
    }
}

fn is_dying(thread: u32) -> bool {
    Signals::of(thread).is_some_and(|signals| signals.pending & KILL != 0)
}

/// Whether a signal waits that the thread neither blocks nor ignores.
pub(crate) fn is_interrupted(thread: u32) -> bool {
    Signals::of(thread).is_some_and(|signals| signals.pending & !(signals.blocked | signals.ignored) != 0)
}

#[derive(Debug, Default, PartialEq)]
struct Signals {
    pending: u64,
    blocked: u64,
    ignored: u64,
}

impl Signals {
    /// Nothing is known of threads of other pid name spaces (0).
    fn of(thread: u32) -> Option<Signals> {
        (thread != 0)
            .then(|| Signals::parse(&std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?))?
    }

    fn parse(status: &str) -> Option<Signals> {
        let mut signals = Signals::default();
        for line in status.lines() {
            let Some((name, mask)) = line.split_once(":\t") else { continue };
            let field = match name {
                "SigPnd" | "ShdPnd" => &mut signals.pending,
                "SigBlk" => &mut signals.blocked,
                "SigIgn" => &mut signals.ignored,
                _ => continue,
            };
            *field |= u64::from_str_radix(mask, 16).ok()?;
        }
        Some(signals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_from_the_status_of_a_thread() {
        let status = "Name:\tsleep\nSigQ:\t0/1\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000004000\n\
                      SigBlk:\t0000000000000002\nSigIgn:\t0000000000000004\nSigCgt:\t0000000000000fff\n";
        let expected = Signals { pending: 0x4100, blocked: 2, ignored: 4 };
        assert_eq!(Signals::parse(status), Some(expected));
        assert!(!is_interrupted(std::process::id()) && !is_dying(std::process::id()));
        assert_eq!(Signals::of(0), None);
    }
}
