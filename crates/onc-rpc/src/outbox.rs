use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::RpcError;
use crate::budget::Charge;
use crate::transport::Output;

/// Most segments handed to one vectored write.
const SLICES: usize = 128;

/// What the other side must take of what waits for it within [`Limits::patience`](crate::Limits::patience), if it does
/// not take everything.
const LEAST_PROGRESS: usize = 64 << 10;

/// Bytes that wait at most for others to be written with.
const HELD: usize = 256 << 10;

/// Messages on their way out.
///
/// Whoever adds a message also writes it, and whatever others added meanwhile, unless someone else is writing
/// at this moment or the stream is full; so an idle connection sends a reply without waking another task, and a busy
/// one sends many with one system call. Messages that are sure to have company soon wait for it ([`hold`](Self::hold)). When the stream is full the connection's own task goes on as soon as
/// there is room ([`drive`](Self::drive)). All writing is non-blocking and no future is held half-way: dropping a
/// caller cannot cut a message in two.
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    stream: Mutex<Stream>,
    writable: Arc<Writable>,
    /// Woken when `queued` falls to the limit.
    room: Notify,
    /// Bytes added and not yet written.
    queued: AtomicUsize,
    /// Reasons to wait for more.
    holds: AtomicUsize,
    limit: usize,
    patience: Duration,
}

/// What the calls hold until their reply is written.
pub(crate) struct CallPermit {
    pub _count: OwnedSemaphorePermit,
    pub _bytes: OwnedSemaphorePermit,
    pub charge: Charge,
}

#[derive(Default)]
struct Queue {
    segments: VecDeque<Segment>,
    closed: bool,
}

struct Segment {
    data: Bytes,
    /// On the last segment of a reply; dropped when it is written.
    _permit: Option<CallPermit>,
}

struct Stream {
    /// Gone when the connection is closed.
    writer: Option<Output>,
    /// Taken from the queue, the first one perhaps partly written.
    segments: VecDeque<Segment>,
    /// The stream took no more; its waker will call [`Writable`].
    full: bool,
    /// Something is written and not yet flushed.
    dirty: bool,
    /// Bytes written since the other side was last looked after; [`LEAST_PROGRESS`] when everything was written.
    progress: usize,
    error: Option<io::Error>,
}

/// The waker given to the stream: wakes the connection's own task, whoever was writing.
struct Writable(Notify);

impl Wake for Writable {
    fn wake(self: Arc<Writable>) {
        self.0.notify_one();
    }
}

impl Outbox {
    pub fn new(writer: Output, limit: usize, patience: Duration) -> Outbox {
        Outbox {
            queue: Mutex::default(),
            stream: Mutex::new(Stream {
                writer: Some(writer),
                segments: VecDeque::new(),
                full: false,
                dirty: false,
                progress: 0,
                error: None,
            }),
            writable: Arc::new(Writable(Notify::new())),
            room: Notify::new(),
            queued: AtomicUsize::new(0),
            holds: AtomicUsize::new(0),
            limit,
            patience,
        }
    }

    /// Adds one message, which must not be empty, and writes what can be written at once. After
    /// [`close`](Self::close) the message is dropped.
    pub fn send(&self, header: Bytes, body: Vec<Bytes>, permit: Option<CallPermit>) {
        let bytes = header.len() + body.iter().map(Bytes::len).sum::<usize>();
        {
            let mut queue = self.queue.lock();
            if queue.closed {
                return;
            }
            self.queued.fetch_add(bytes, Ordering::SeqCst);
            let segments = std::iter::once(header).chain(body).filter(|data| !data.is_empty());
            queue.segments.extend(segments.map(|data| Segment { data, _permit: None }));
            if let Some(last) = queue.segments.back_mut() {
                last._permit = permit;
            }
        }
        // One of both writes: who adds counts first and looks for holds then, who lets go last the other way round.
        if self.holds.load(Ordering::SeqCst) == 0 || self.queued.load(Ordering::Relaxed) >= HELD {
            self.write();
        }
    }

    /// Until [`let_go`](Self::let_go) has been called as often, what is added is written only when it is much.
    pub fn hold(&self) {
        self.holds.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a [`hold`](Self::hold); the last one has everything written.
    pub fn let_go(&self) {
        if self.holds.fetch_sub(1, Ordering::SeqCst) == 1 && self.queued.load(Ordering::SeqCst) > 0 {
            self.write();
        }
    }

    /// Returns once no more than the limit waits to be written, or the outbox is closed.
    pub async fn room(&self) {
        while self.queued.load(Ordering::Acquire) > self.limit {
            let notified = self.room.notified();
            if self.queued.load(Ordering::Acquire) > self.limit {
                notified.await;
            }
        }
    }

    /// Writes whenever the stream has room again after it was full. Returns when the stream fails, or the other side
    /// has taken next to nothing for `patience` (at most twice that: it is looked after at intervals).
    pub async fn drive(&self) -> RpcError {
        let mut was_full = false;
        let mut end = Instant::now() + self.patience;
        loop {
            if timeout_at(end, self.writable.0.notified()).await.is_ok() {
                self.stream.lock().full = false;
                if let Some(error) = self.write_and_look() {
                    return error.into();
                }
                continue;
            }
            {
                let mut stream = self.stream.lock();
                if was_full && stream.full && stream.progress < LEAST_PROGRESS {
                    return RpcError::Stalled;
                }
                was_full = stream.full;
                stream.progress = 0;
            }
            // Whoever wanted to write meanwhile has left it to who held the stream.
            if let Some(error) = self.write_and_look() {
                return error.into();
            }
            end = Instant::now() + self.patience;
        }
    }

    /// Writes, and takes the error of the stream, if there is one.
    fn write_and_look(&self) -> Option<io::Error> {
        loop {
            self.write();
            let error = self.stream.lock().error.take();
            // As above: who found the stream held when it was looked at has left his message.
            if error.is_some() || !self.is_writable() {
                return error;
            }
        }
    }

    /// Whether something waits that the stream would take.
    fn is_writable(&self) -> bool {
        let has_more = !self.queue.lock().segments.is_empty();
        has_more && self.holds.load(Ordering::SeqCst) == 0 && {
            let stream = self.stream.lock();
            !stream.full && stream.writer.is_some()
        }
    }

    /// The stream, if nothing waits to be written. What is added from now on waits for [`go_on`](Self::go_on).
    pub fn take_writer(&self) -> Option<Output> {
        let mut stream = self.stream.lock();
        if self.queued.load(Ordering::Acquire) > 0 || stream.dirty { None } else { stream.writer.take() }
    }

    /// Writes to this stream from now on.
    pub fn go_on(&self, writer: Output) {
        {
            let mut stream = self.stream.lock();
            if self.queue.lock().closed {
                return;
            }
            stream.writer = Some(writer);
            stream.full = false;
        }
        self.write();
    }

    /// Drops what is not yet written and the stream.
    pub fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        let waiting = mem::take(&mut queue.segments);
        drop(queue);
        let mut stream = self.stream.lock();
        let writer = stream.writer.take();
        let partial = mem::take(&mut stream.segments);
        drop(stream);
        self.queued.store(0, Ordering::Release);
        self.room.notify_waiters();
        drop((waiting, partial, writer));
    }

    fn write(&self) {
        loop {
            let Some(mut stream) = self.stream.try_lock() else {
                return; // whoever holds it looks at the queue again after letting go
            };
            if stream.full || stream.error.is_some() || stream.writer.is_none() {
                return;
            }
            let waker = Waker::from(self.writable.clone());
            match self.poll_write(&mut stream, &mut Context::from_waker(&waker)) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    stream.error = Some(error);
                    self.writable.0.notify_one();
                    return;
                }
                Poll::Pending => {
                    stream.full = true;
                    return;
                }
            }
            drop(stream);
            if self.queue.lock().segments.is_empty() {
                return;
            }
        }
    }

    /// Ready when everything queued is written and flushed.
    fn poll_write(&self, stream: &mut Stream, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Stream { writer: Some(writer), segments, dirty, progress, .. } = stream else {
            return Poll::Ready(Ok(()));
        };
        let mut writer = Pin::new(writer);
        loop {
            if segments.is_empty() {
                mem::swap(segments, &mut self.queue.lock().segments);
            }
            if segments.is_empty() {
                if *dirty {
                    ready!(writer.as_mut().poll_flush(context))?;
                    *dirty = false;
                }
                *progress = LEAST_PROGRESS;
                return Poll::Ready(Ok(()));
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = segments.len().min(SLICES);
            for (slice, segment) in slices.iter_mut().zip(segments.iter()) {
                *slice = IoSlice::new(&segment.data);
            }
            let written = ready!(writer.as_mut().poll_write_vectored(context, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *dirty = true;
            *progress = progress.saturating_add(written);
            advance(segments, written);
            let before = self.queued.fetch_sub(written, Ordering::AcqRel);
            if before > self.limit && before - written <= self.limit {
                self.room.notify_waiters();
            }
        }
    }
}

/// Drops the first `written` bytes.
fn advance(segments: &mut VecDeque<Segment>, mut written: usize) {
    while let Some(first) = segments.front_mut() {
        let len = first.data.len();
        if written < len {
            first.data.advance(written);
            return;
        }
        written -= len;
        segments.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;
    use crate::budget::Account;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn room_comes_back_when_the_stream_is_read() {
        runtime().block_on(async {
            let (writer, mut reader) = duplex(10);
            let outbox = Outbox::new(Output::Other(Box::new(writer)), 20, PATIENCE);
            outbox.send(Bytes::from_static(&[1; 8]), vec![Bytes::from_static(&[2; 22])], None);
            outbox.room().await; // 10 of 30 bytes are written, 20 wait
            outbox.send(Bytes::from_static(&[3; 1]), Vec::new(), None);
            let mut received = vec![0; 31];
            tokio::select! {
                biased;
                () = outbox.room() => panic!("21 bytes wait and nothing was read"),
                () = std::future::ready(()) => {}
            }
            tokio::select! {
                _ = outbox.drive() => panic!("the stream failed"),
                result = reader.read_exact(&mut received) => drop(result.unwrap()),
            }
            outbox.room().await;
            assert_eq!(received, [&[1; 8][..], &[2; 22], &[3; 1]].concat());
        });
    }

    #[test]
    fn what_is_held_goes_together_and_not_without_end() {
        runtime().block_on(async {
            let (writer, mut reader) = duplex(4 * HELD);
            let outbox = Outbox::new(Output::Other(Box::new(writer)), usize::MAX, PATIENCE);
            let mut received = vec![0; 2];
            outbox.hold();
            outbox.hold();
            outbox.send(Bytes::from_static(&[1]), Vec::new(), None);
            outbox.let_go();
            outbox.send(Bytes::from_static(&[2]), Vec::new(), None);
            assert_eq!(outbox.queued.load(Ordering::Relaxed), 2);
            outbox.let_go();
            reader.read_exact(&mut received).await.unwrap();
            assert_eq!(received, [1, 2]);
            outbox.hold();
            outbox.send(Bytes::from(vec![3; HELD]), Vec::new(), None);
            assert_eq!(outbox.queued.load(Ordering::Relaxed), 0);
        });
    }

    #[test]
    fn closing_frees_permits_and_waiters() {
        runtime().block_on(async {
            let (writer, _reader) = duplex(1);
            let outbox = Outbox::new(Output::Other(Box::new(writer)), 1, PATIENCE);
            let semaphore = Arc::new(tokio::sync::Semaphore::new(2));
            let permit = || semaphore.clone().try_acquire_owned().unwrap();
            let charge = Account::new(None, [127, 0, 0, 1].into()).open();
            let permit = CallPermit { _count: permit(), _bytes: permit(), charge };
            outbox.send(Bytes::from_static(&[1; 8]), Vec::new(), Some(permit));
            assert_eq!(semaphore.available_permits(), 0);
            tokio::join!(outbox.room(), async { outbox.close() });
            assert_eq!(semaphore.available_permits(), 2);
            outbox.send(Bytes::from_static(&[1; 8]), Vec::new(), None);
            outbox.room().await;
        });
    }

    #[test]
    fn a_stream_that_fails_ends_the_driver() {
        runtime().block_on(async {
            let (writer, reader) = duplex(1);
            let outbox = Outbox::new(Output::Other(Box::new(writer)), 1, PATIENCE);
            drop(reader);
            outbox.send(Bytes::from_static(&[1; 8]), Vec::new(), None);
            let RpcError::Io(error) = outbox.drive().await else { panic!("another error") };
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_cut_and_a_slow_one_is_not() {
        let message = Bytes::from(vec![7; 40 * LEAST_PROGRESS]);
        let (writer, mut reader) = duplex(LEAST_PROGRESS);
        let outbox = Outbox::new(Output::Other(Box::new(writer)), 1, PATIENCE);
        outbox.send(message.clone(), Vec::new(), None);
        let start = Instant::now();
        let slow = async {
            let mut piece = vec![0; LEAST_PROGRESS];
            for _ in 0..10 {
                tokio::time::advance(PATIENCE - Duration::from_secs(1)).await;
                reader.read_exact(&mut piece).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let error = tokio::select! {
            error = outbox.drive() => error,
            () = slow => unreachable!(),
        };
        assert!(matches!(error, RpcError::Stalled));
        let cut_after = start.elapsed() - 10 * (PATIENCE - Duration::from_secs(1));
        assert!((PATIENCE..=2 * PATIENCE).contains(&cut_after), "{cut_after:?} after the last byte");
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_does_not_keep_a_long_reply_alive() {
        let (writer, mut reader) = duplex(16);
        let outbox = Outbox::new(Output::Other(Box::new(writer)), 1, PATIENCE);
        outbox.send(Bytes::from(vec![7; 1 << 20]), Vec::new(), None);
        let trickle = async {
            loop {
                tokio::time::advance(Duration::from_secs(5)).await;
                reader.read_u8().await.unwrap();
            }
        };
        let error = tokio::select! {
            error = outbox.drive() => error,
            () = trickle => unreachable!(),
        };
        assert!(matches!(error, RpcError::Stalled));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_no_stall() {
        let (writer, mut reader) = duplex(16);
        let outbox = Outbox::new(Output::Other(Box::new(writer)), 1, PATIENCE);
        let exchange = async {
            for _ in 0..5 {
                outbox.send(Bytes::from_static(&[1; 20]), Vec::new(), None);
                tokio::time::advance(PATIENCE / 2).await;
                reader.read_exact(&mut [0; 20]).await.unwrap();
                tokio::time::advance(5 * PATIENCE).await;
            }
        };
        tokio::select! {
            error = outbox.drive() => panic!("{error}"),
            () = exchange => {}
        }
    }

    proptest! {
        #[test]
        fn messages_arrive_whole_and_in_order(
            messages in vec(vec(vec(any::<u8>(), 0..50), 0..200), 1..12), capacity in 1usize..300
        ) {
            let expected: Vec<u8> =
                messages.iter().flat_map(|body| [9].into_iter().chain(body.concat())).collect();
            let received = runtime().block_on(async {
                let (writer, mut reader) = duplex(capacity);
                let outbox = Outbox::new(Output::Other(Box::new(writer)), usize::MAX, PATIENCE);
                let mut received = vec![0; expected.len()];
                let send = async {
                    for body in messages {
                        let body = body.into_iter().map(Bytes::from).collect();
                        outbox.send(Bytes::from_static(&[9]), body, None);
                        tokio::task::yield_now().await;
                    }
                    outbox.drive().await
                };
                tokio::select! {
                    _ = send => panic!("the stream failed"),
                    result = reader.read_exact(&mut received) => drop(result.unwrap()),
                }
                received
            });
            prop_assert_eq!(received, expected);
        }
    }
}
