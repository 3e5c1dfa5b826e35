//! ClamAV's daemon: the commands PING and INSTREAM (its manual page `clamd(8)`).
//!
//! A command is `z`, its name and a zero byte; so is an answer ended. The content comes in chunks, each behind its length in 4 bytes, big-endian; a
//! length of zero ends it.

use bytes::Bytes;
use environment::Clock;

use crate::exchange::{Exchange, Sent};
use crate::verdict::printable;
use crate::{Content, Endpoint, ScanError, Verdict};

/// Bytes of an answer.
const LONGEST_ANSWER: usize = 4096;

/// Understands the answer to INSTREAM, without the zero byte behind it.
pub fn decode_answer(answer: &[u8]) -> Result<Verdict, ScanError> {
    let malformed = || ScanError::Malformed(format!("clamd answers {:?}", printable(answer)));
    if answer.contains(&0) {
        return Err(malformed());
    }
    if answer.ends_with(b"ERROR") {
        return Err(ScanError::Refused(printable(answer)));
    }
    let said = answer.strip_prefix(b"stream: ").ok_or_else(malformed)?;
    match said.strip_suffix(b" FOUND") {
        Some(name) => {
            let name = printable(name);
            if name.is_empty() { Err(malformed()) } else { Ok(Verdict::Infected(name)) }
        }
        None if said == b"OK" => Ok(Verdict::Clean),
        None => Err(malformed()),
    }
}

pub(crate) async fn scan(
    endpoint: &Endpoint,
    content: &mut dyn Content,
    clock: &dyn Clock,
) -> Result<Verdict, ScanError> {
    let mut exchange = Exchange::open(endpoint, LONGEST_ANSWER, clock).await?;
    let mut sent = exchange.send(&[Bytes::from_static(b"zINSTREAM\0")]).await?;
    while sent == Sent::Whole {
        let Some(part) = content.next().await.map_err(ScanError::Content)? else { break };
        // Parts are far shorter.
        let length =
            u32::try_from(part.len()).map_err(|_| ScanError::Content("a part that is too long".into()))?;
        sent = exchange.send(&[Bytes::copy_from_slice(&length.to_be_bytes()), part]).await?;
    }
    let was_whole =
        sent == Sent::Whole && exchange.send(&[Bytes::from_static(&[0; 4])]).await? == Sent::Whole;
    match decode_answer(&answer(&mut exchange).await?)? {
        Verdict::Clean if !was_whole => {
            Err(ScanError::Malformed("clamd calls clean what it has not seen all of".into()))
        }
        verdict => Ok(verdict),
    }
}

/// Whether it answers at all.
pub(crate) async fn ping(endpoint: &Endpoint, clock: &dyn Clock) -> Result<(), ScanError> {
    let mut exchange = Exchange::open(endpoint, LONGEST_ANSWER, clock).await?;
    exchange.send(&[Bytes::from_static(b"zPING\0")]).await?;
    match &answer(&mut exchange).await?[..] {
        b"PONG" => Ok(()),
        other => Err(ScanError::Malformed(format!("clamd answers {:?} to PING", printable(other)))),
    }
}

async fn answer(exchange: &mut Exchange) -> Result<Bytes, ScanError> {
    loop {
        let received = &mut exchange.received;
        if let Some(end) = received.iter().position(|byte| *byte == 0) {
            if end + 1 < received.len() {
                return Err(ScanError::Malformed("clamd says more than one answer".into()));
            }
            return Ok(received.split_to(end).freeze());
        }
        if !exchange.receive().await? {
            return Err(ScanError::Lost("clamd closed it before its answer was complete".into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_mean_what_clamd_means() {
        assert_eq!(decode_answer(b"stream: OK"), Ok(Verdict::Clean));
        let found = Verdict::Infected("Win.Test.EICAR_HDB-1".into());
        assert_eq!(decode_answer(b"stream: Win.Test.EICAR_HDB-1 FOUND"), Ok(found));
        let refused = "INSTREAM size limit exceeded. ERROR";
        assert_eq!(decode_answer(refused.as_bytes()), Err(ScanError::Refused(refused.into())));
        for bad in [
            "",
            "OK",
            "stream: ",
            "stream:  FOUND\n",
            "stream: FOUND",
            "stream:   FOUND",
            "stream: \u{b}\u{2003} FOUND",
            "stream: OK\0",
            "stream: ok",
            "x: OK",
        ] {
            assert!(matches!(decode_answer(bad.as_bytes()), Err(ScanError::Malformed(_))), "{bad:?}");
        }
    }

    #[test]
    fn what_clamd_calls_something_cannot_harm_a_terminal() {
        let answer = [b"stream: \x1b[2J".as_slice(), &[b'a'; 4000], b" FOUND"].concat();
        let Ok(Verdict::Infected(name)) = decode_answer(&answer) else { panic!("it was found") };
        assert!(name.starts_with(".[2Ja") && name.len() == 200, "{name}");
    }
}
