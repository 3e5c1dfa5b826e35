//! Record marking (RFC 5531 §11): how messages are cut out of a byte stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::budget::{Account, Charge};
use crate::recycler::{Recycler, record_memory};
use crate::{Limits, RpcError};

/// Marks the last fragment of a record.
pub(crate) const LAST_FRAGMENT: u32 = 1 << 31;

/// How much is asked of the stream at once while small records come in.
const READ_AHEAD: usize = 16 << 10;

/// Records from this size on get a buffer of exactly their size, unless they have arrived already.
const LARGE: usize = 4 << 10;

/// How much of a record must come in within [`Limits::patience`].
const STEP: usize = 1 << 20;

/// Reads records from a stream. Small ones are slices of a common buffer, so that one system call may bring
/// several; a large one gets its own buffer, into which the stream writes directly.
pub(crate) struct RecordReader<R> {
    stream: R,
    /// Received and not yet taken.
    buffer: BytesMut,
    limit: usize,
    fragment_limit: usize,
    patience: Duration,
    account: Arc<Account>,
    recycler: Arc<Recycler>,
}

/// A record and the memory that it takes; that of a small one is not counted before it is a call.
pub(crate) struct Record {
    pub data: Bytes,
    pub charge: Charge,
}

struct FragmentHeader {
    last: bool,
    length: usize,
}

impl<R: AsyncRead + Unpin> RecordReader<R> {
    pub fn new(stream: R, limits: &Limits, account: Arc<Account>) -> RecordReader<R> {
        RecordReader {
            stream,
            buffer: BytesMut::new(),
            limit: limits.record_bytes,
            fragment_limit: limits.fragments,
            patience: limits.patience,
            account,
            recycler: Arc::new(Recycler::new(limits.recycled_bytes)),
        }
    }

    /// The stream, if nothing has been read from it that was not asked for.
    pub fn into_stream(self) -> Option<R> {
        self.buffer.is_empty().then_some(self.stream)
    }

    /// Counts what is read from now on there.
    pub fn count_in(&mut self, account: Arc<Account>) {
        self.account = account;
    }

    /// Whether bytes of a following record have arrived already.
    pub fn has_more(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The next record; `None` when the stream ended between two records.
    pub async fn next(&mut self) -> Result<Option<Record>, RpcError> {
        if self.buffer.is_empty() && !self.receive().await? {
            return Ok(None);
        }
        let header = self.header(0).await?;
        if header.last {
            return self.whole(header.length).await.map(Some);
        }
        let mut record = Vec::new();
        let mut charge = self.account.open();
        let mut header = header;
        let mut fragments = 1;
        loop {
            // Not without end: what has come in so far is held meanwhile, perhaps by all who wait.
            timeout(self.patience, charge.grow(header.length)).await.map_err(|_| RpcError::NoMemory)?;
            self.append(header.length, &mut record).await?;
            if header.last {
                // It has grown by doubling.
                record.shrink_to(record_memory(record.len()));
                return Ok(Some(Record { data: record.into(), charge }));
            }
            header =
                timeout(self.patience, self.header(record.len())).await.map_err(|_| RpcError::Stalled)??;
            fragments += 1;
            if fragments > self.fragment_limit {
                return Err(RpcError::TooManyFragments { limit: self.fragment_limit });
            }
        }
    }

    /// The header of a fragment that follows `before` bytes of the same record.
    async fn header(&mut self, before: usize) -> Result<FragmentHeader, RpcError> {
        self.fill(4).await?;
        let mut word = [0; 4];
        word.copy_from_slice(&self.buffer.split_to(4));
        let word = u32::from_be_bytes(word);
        let header =
            FragmentHeader { last: word & LAST_FRAGMENT != 0, length: (word & !LAST_FRAGMENT) as usize };
        let bytes = before + header.length;
        if bytes > self.limit {
            return Err(RpcError::RecordTooLarge { bytes, limit: self.limit });
        }
        Ok(header)
    }

    /// A record of one fragment.
    async fn whole(&mut self, length: usize) -> Result<Record, RpcError> {
        let mut charge = self.account.open();
        if length < LARGE {
            self.fill(length).await?;
        }
        if length <= self.buffer.len() {
            return Ok(Record { data: self.buffer.split_to(length).freeze(), charge });
        }
        charge.grow(length).await;
        let mut record = self.recycler.buffer(length);
        self.append(length, &mut record).await?;
        Ok(Record { data: self.recycler.lend(record), charge })
    }

    /// Moves the next `length` bytes to the end of `record`, those not yet received without a detour.
    async fn append(&mut self, length: usize, record: &mut Vec<u8>) -> Result<(), RpcError> {
        let end = record.len() + length;
        record.reserve(length);
        let received = length.min(self.buffer.len());
        record.put_slice(&self.buffer.split_to(received));
        if record.len() == end {
            return Ok(());
        }
        let rest = async {
            while record.len() < end {
                let missing = end - record.len();
                if self.stream.read_buf(&mut (&mut *record).limit(missing)).await? == 0 {
                    return Err(cut_short());
                }
            }
            Ok(())
        };
        let patience = self.patience.saturating_mul((1 + length / STEP) as u32);
        timeout(patience, rest).await.unwrap_or(Err(RpcError::Stalled))
    }

    /// Receives until the buffer holds `length` bytes.
    async fn fill(&mut self, length: usize) -> Result<(), RpcError> {
        while self.buffer.len() < length {
            if !self.receive().await? {
                return Err(cut_short());
            }
        }
        Ok(())
    }

    /// Receives something; false when the stream has ended.
    async fn receive(&mut self) -> Result<bool, RpcError> {
        if self.buffer.capacity() - self.buffer.len() < READ_AHEAD / 4 {
            self.buffer.reserve(READ_AHEAD);
        }
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}

fn cut_short() -> RpcError {
    RpcError::Io(std::io::Error::new(
        std::io::ErrorKind::UnexpectedEof,
        "the connection ended inside a record",
    ))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn fragment(data: &[u8], last: bool) -> Vec<u8> {
        let mark = data.len() as u32 | if last { LAST_FRAGMENT } else { 0 };
        [&mark.to_be_bytes(), data].concat()
    }

    /// Everything the reader makes of `wire` when it arrives in pieces of at most `piece` bytes.
    fn read_all(wire: &[u8], piece: usize, limits: &Limits) -> (Vec<Bytes>, Option<RpcError>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (mut writer, stream) = tokio::io::duplex(piece);
            let mut reader = RecordReader::new(stream, limits, Account::new(None, [127, 0, 0, 1].into()));
            let send = async move {
                let _ = writer.write_all(wire).await;
            };
            let receive = async move {
                let mut records = Vec::new();
                loop {
                    match reader.next().await {
                        Ok(Some(record)) => records.push(record.data),
                        Ok(None) => return (records, None),
                        Err(error) => return (records, Some(error)),
                    }
                }
            };
            tokio::join!(send, receive).1
        })
    }

    proptest! {
        #[test]
        fn records_survive_any_cutting(
            records in vec((vec(any::<u8>(), 0..20_000), vec(any::<prop::sample::Index>(), 0..4)), 0..5),
            piece in 1usize..40_000,
        ) {
            let mut wire = Vec::new();
            for (record, cuts) in &records {
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(record.len() + 1)).collect();
                cuts.sort_unstable();
                let mut start = 0;
                for cut in cuts {
                    wire.extend(fragment(&record[start..cut], false));
                    start = cut;
                }
                wire.extend(fragment(&record[start..], true));
            }
            let (read, error) = read_all(&wire, piece, &Limits::default());
            prop_assert!(error.is_none(), "{error:?}");
            prop_assert!(read.iter().map(|record| &record[..]).eq(records.iter().map(|(record, _)| &record[..])));
        }
    }

    #[test]
    fn fragments_of_one_byte_make_a_record() {
        let text = b"one byte at a time";
        let mut wire: Vec<u8> = text.iter().flat_map(|byte| fragment(&[*byte], false)).collect();
        wire.extend(fragment(b"", true));
        let (records, error) = read_all(&wire, 64, &Limits::default());
        assert_eq!(records, [&text[..]]);
        assert!(error.is_none());
    }

    #[test]
    fn a_record_of_many_fragments_holds_no_more_memory_than_is_known() {
        let parts = (1..=9).map(|number| fragment(&[0; 123_457], number == 9));
        let (mut records, error) = read_all(&parts.collect::<Vec<_>>().concat(), 10_000, &Limits::default());
        assert!(error.is_none());
        let record = records.remove(0).try_into_mut().unwrap();
        assert_eq!(record.len(), 9 * 123_457);
        assert!(record.capacity() <= record_memory(record.len()), "{}", record.capacity());
    }

    #[test]
    fn too_many_fragments_are_refused_even_empty_ones() {
        let limits = Limits { fragments: 10, ..Limits::default() };
        let wire = fragment(b"", false).repeat(11);
        let (records, error) = read_all(&wire, 64, &limits);
        assert!(records.is_empty());
        assert!(matches!(error, Some(RpcError::TooManyFragments { limit: 10 })));
    }

    #[test]
    fn a_record_above_the_limit_is_refused_by_its_header() {
        let limits = Limits { record_bytes: 100, ..Limits::default() };
        let (records, error) = read_all(&fragment(&[0; 100], true), 1000, &limits);
        assert_eq!(records.len(), 1);
        assert!(error.is_none());
        let (_, error) = read_all(&(LAST_FRAGMENT | 101).to_be_bytes(), 1000, &limits);
        assert!(matches!(error, Some(RpcError::RecordTooLarge { bytes: 101, limit: 100 })));
        let in_two = [fragment(&[0; 60], false), fragment(&[0; 60], true)].concat();
        let (_, error) = read_all(&in_two, 1000, &limits);
        assert!(matches!(error, Some(RpcError::RecordTooLarge { bytes: 120, limit: 100 })));
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_that_does_not_go_on_ends_the_connection_and_frees_its_memory() {
        let budget = crate::Budget::new(8 << 20);
        for (patience, length, fragments) in [(1, 1000 << 10, 1), (4, 3 << 20, 1), (1, 1000 << 10, 2)] {
            let account = Account::new(Some(budget.clone()), [127, 0, 0, 1].into());
            let (mut writer, stream) = tokio::io::duplex(1 << 20);
            let mut reader = RecordReader::new(stream, &Limits::default(), account);
            let start = tokio::time::Instant::now();
            let mark = length as u32 | if fragments == 1 { LAST_FRAGMENT } else { 0 };
            writer.write_all(&mark.to_be_bytes()).await.unwrap();
            let sent = if fragments == 1 { 700 << 10 } else { length };
            writer.write_all(&vec![0; sent]).await.unwrap();
            assert!(matches!(reader.next().await, Err(RpcError::Stalled)));
            assert_eq!(start.elapsed().as_secs(), 60 * patience, "{length}");
            drop(reader);
            assert_eq!(budget.free(), 8 << 20);
        }
    }

    #[test]
    fn an_end_inside_a_record_is_an_error() {
        for cut in 1..10 {
            let (_, error) = read_all(&fragment(b"abcdef", true)[..cut], 1000, &Limits::default());
            assert!(matches!(error, Some(RpcError::Io(_))), "{cut}");
        }
    }
}
