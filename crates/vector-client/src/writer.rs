mod task;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::step::{Step, Write};
use crate::{Client, Descriptor, Error};

/// Bytes that are sent at once.
const PIECE: usize = 1 << 20;

/// Pieces under way at once.
const UNDER_WAY: usize = 16;

/// The longest that a file can be.
const END: u64 = i64::MAX as u64;

/// Writes one open file from front to back, while its program goes on (V35).
///
/// What is written is gathered into pieces of 1 MiB, and sent by a task of its own: a call waits only while 16 pieces are under
/// way. What was sent stays in memory, 64 MiB at most, until it is safe, and is sent again if the server restarts and has lost it,
/// or if nobody knows whether it has. That something could not be written is said by the first call that can, and
/// by every one after it; at the latest by [`close`](Self::close). Nothing is written then of what follows.
///
/// A call that is given up, as by a timeout, has taken all that it was to write. Nobody else may write these bytes meanwhile:
/// whose come last is open.
///
/// Dropped, it goes on by itself: everything is written and the file is closed, if the runtime lasts; nobody hears of errors.
pub struct Writer {
    descriptor: Descriptor,
    /// Where the next byte belongs.
    position: u64,
    /// The last bytes before that, less than a piece.
    gathered: BytesMut,
    /// What came before, and is not with the task yet.
    waiting: VecDeque<Piece>,
    room: Arc<Semaphore>,
    orders: mpsc::UnboundedSender<Order>,
    failure: Arc<Failure>,
}

/// What the task is told.
enum Order {
    Write(Piece, Option<OwnedSemaphorePermit>),
    Sync(oneshot::Sender<Result<(), Error>>),
    Close(Option<Piece>, oneshot::Sender<Result<(), Error>>),
}

/// Bytes, and where they belong.
struct Piece {
    offset: u64,
    data: Bytes,
}

/// Why nothing is written any more: the reason once, then that there was one.
#[derive(Default)]
struct Failure {
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    None,
    Unsaid(Error),
    Said,
}

impl Failure {
    fn is_none(&self) -> bool {
        matches!(*self.state.lock(), State::None)
    }

    /// Only the first counts.
    fn set(&self, error: Error) {
        let mut state = self.state.lock();
        if let State::None = *state {
            *state = State::Unsaid(error);
        }
    }

    /// Nobody heard it.
    fn unsay(&self, error: Error) {
        *self.state.lock() = State::Unsaid(error);
    }

    fn say(&self, descriptor: Descriptor) -> Result<(), Error> {
        let mut state = self.state.lock();
        if let State::None = *state {
            return Ok(());
        }
        match std::mem::replace(&mut *state, State::Said) {
            State::Unsaid(error) => Err(error),
            _ => Err(Error::Invalid {
                target: descriptor.into(),
                what: "something written earlier could not be written; what follows it was not either",
            }),
        }
    }
}

impl Client {
    /// Writes an open file from `offset` on, while the program goes on (V35). The file belongs to the writer, which closes it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn writer(&self, descriptor: Descriptor, offset: u64) -> Writer {
        let (orders, received) = mpsc::unbounded_channel();
        let failure = Arc::<Failure>::default();
        tokio::spawn(task::Task::new(self.clone(), descriptor, Arc::clone(&failure)).run(received));
        Writer {
            descriptor,
            position: offset,
            gathered: BytesMut::new(),
            waiting: VecDeque::new(),
            room: Arc::new(Semaphore::new(UNDER_WAY)),
            orders,
            failure,
        }
    }
}

impl Writer {
    /// Takes these bytes to be written after those before. Pieces as large as what is sent, or larger, are not copied.
    ///
    /// # Errors
    /// What was written earlier could not be; the file would become too long.
    pub async fn write(&mut self, data: impl Into<Bytes>) -> Result<(), Error> {
        self.take(data.into())?;
        self.pass_on().await
    }

    /// Where the next byte belongs.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Waits until all that was written is on stable storage.
    ///
    /// # Errors
    /// Something could not be written.
    pub async fn sync(&mut self) -> Result<(), Error> {
        self.cut();
        self.pass_on().await?;
        let (reply, answer) = oneshot::channel();
        self.answered(Order::Sync(reply), answer).await
    }

    /// Waits until all that was written is on stable storage, and closes the file, whether or not it is. A file of up to 1 MiB is
    /// written and closed by one round trip.
    ///
    /// # Errors
    /// Something could not be written.
    pub async fn close(mut self) -> Result<(), Error> {
        let passed_on = self.pass_on().await;
        let last = self.last();
        let (reply, answer) = oneshot::channel();
        let closed = self.answered(Order::Close(last, reply), answer).await;
        passed_on.and(closed)
    }

    /// Takes bytes; whether there are pieces now to be passed on.
    pub(crate) fn take_slice(&mut self, data: &[u8]) -> Result<bool, Error> {
        self.check(data.len())?;
        let mut rest = data;
        while !rest.is_empty() {
            let room = PIECE - self.gathered.len();
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.gather(now);
            rest = later;
        }
        Ok(!self.waiting.is_empty())
    }

    fn take(&mut self, mut data: Bytes) -> Result<(), Error> {
        self.check(data.len())?;
        while !data.is_empty() {
            if self.gathered.is_empty() && data.len() >= PIECE {
                self.waiting.push_back(Piece { offset: self.position, data: data.split_to(PIECE) });
                self.position += PIECE as u64;
                continue;
            }
            let room = PIECE - self.gathered.len();
            self.gather(&data.split_to(room.min(data.len())));
        }
        Ok(())
    }

    /// That so much more can be written.
    pub(crate) fn check(&self, more: usize) -> Result<(), Error> {
        self.failure.say(self.descriptor)?;
        if self.position.checked_add(more as u64).is_none_or(|end| end > END) {
            return Err(Error::Invalid {
                target: self.descriptor.into(),
                what: "a place beyond what a file can be",
            });
        }
        Ok(())
    }

    /// At most what a piece has room for.
    fn gather(&mut self, data: &[u8]) {
        self.gathered.extend_from_slice(data);
        self.position += data.len() as u64;
        if self.gathered.len() == PIECE {
            self.cut();
        }
    }

    /// What is gathered is a piece, however small.
    fn cut(&mut self) {
        let last = self.last();
        self.waiting.extend(last);
    }

    fn last(&mut self) -> Option<Piece> {
        let data = self.gathered.split().freeze();
        (!data.is_empty()).then(|| Piece { offset: self.position - data.len() as u64, data })
    }

    /// Gives the task what waits, as there is room.
    pub(crate) async fn pass_on(&mut self) -> Result<(), Error> {
        while !self.waiting.is_empty() {
            // Never closed.
            let permit = Arc::clone(&self.room).acquire_owned().await.ok();
            if let Some(piece) = self.waiting.pop_front() {
                self.order(Order::Write(piece, permit))?;
            }
        }
        self.failure.say(self.descriptor)
    }

    async fn answered(
        &self,
        order: Order,
        answer: oneshot::Receiver<Result<(), Error>>,
    ) -> Result<(), Error> {
        self.order(order)?;
        answer.await.unwrap_or(Err(ENDED))
    }

    fn order(&self, order: Order) -> Result<(), Error> {
        self.orders.send(order).map_err(|_| ENDED)
    }
}

/// The task is gone, with the runtime that it was in.
const ENDED: Error = Error::Unsupported("writing on after the runtime of the writer has ended");

impl Drop for Writer {
    fn drop(&mut self) {
        self.cut();
        for piece in self.waiting.drain(..) {
            // If the task is gone, so is the runtime.
            let _ = self.orders.send(Order::Write(piece, None));
        }
    }
}

impl Piece {
    fn step(&self, descriptor: Descriptor, stable: bool) -> Step {
        Step::Write(Write { stable, ..Write::new(descriptor, self.offset, self.data.clone()) })
    }
}
