use std::sync::Arc;

use nfs4::NfsStatus;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::{JoinError, JoinSet};

use super::{Failure, Order, Piece};
use crate::step::Step;
use crate::{Client, Descriptor, Error, VectorResult};

/// Bytes sent and not safe yet, beyond which they are made safe.
const KEPT: usize = 64 << 20;

/// How often data is written again that a restarted server has lost.
const TRIES: u32 = 3;

/// Sends what a writer takes, and knows what of it is not safe yet.
pub(super) struct Task {
    client: Client,
    descriptor: Descriptor,
    failure: Arc<Failure>,
    under_way: JoinSet<Result<(), Error>>,
    /// What was sent since it last was safe.
    kept: Vec<Piece>,
    /// Whether some of it is lost, or may be.
    lost: bool,
    /// Why nobody knows whether the file has been written to its end and closed already.
    ended: Option<Error>,
}

impl Task {
    pub fn new(client: Client, descriptor: Descriptor, failure: Arc<Failure>) -> Task {
        let (under_way, kept) = Default::default();
        Task { client, descriptor, failure, under_way, kept, lost: false, ended: None }
    }

    /// Until the file is closed.
    pub async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        loop {
            let order = tokio::select! {
                biased;
                Some(answer) = self.under_way.join_next() => {
                    self.take(answer);
                    continue;
                }
                order = orders.recv() => order,
            };
            match order {
                Some(Order::Write(piece, permit)) => self.write(piece, permit).await,
                Some(Order::Sync(reply)) => {
                    self.sync().await;
                    if let Err(Err(unheard)) = reply.send(self.failure.say(self.descriptor)) {
                        self.failure.unsay(unheard);
                    }
                }
                Some(Order::Close(last, reply)) => {
                    self.close(last).await;
                    let _ = reply.send(self.failure.say(self.descriptor));
                    return;
                }
                None => return self.close(None).await,
            }
        }
    }

    /// Begins to send a piece; the permit ends with the answer.
    async fn write(&mut self, piece: Piece, permit: Option<OwnedSemaphorePermit>) {
        if self.kept.iter().map(|piece| piece.data.len()).sum::<usize>() >= KEPT {
            self.sync().await;
        }
        if !self.failure.is_none() {
            return;
        }
        let (client, step) = (self.client.clone(), piece.step(self.descriptor, false));
        self.kept.push(piece);
        self.under_way.spawn(async move {
            let written = client.execute(vec![step]).await;
            drop(permit);
            only_error(written)
        });
    }

    fn take(&mut self, answer: Result<Result<(), Error>, JoinError>) {
        match answer {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.is_unknown() => self.lost = true,
            Ok(Err(error)) => self.failure.set(error),
            Err(_) => self.failure.set(Error::Unsupported("writing while the runtime ends")),
        }
    }

    /// Makes safe what was sent, unless something failed.
    async fn sync(&mut self) {
        while let Some(answer) = self.under_way.join_next().await {
            self.take(answer);
        }
        let mut last = None;
        for _ in 0..TRIES {
            if self.kept.is_empty() || !self.failure.is_none() {
                break;
            }
            last = self.try_to_sync().await.err();
            if last.is_none() {
                self.kept.clear();
            }
        }
        if let Some(error) = last {
            self.failure.set(error);
        }
        self.kept.clear();
    }

    /// COMMIT says, once, whether something was lost (RFC 8881 §18.3.3). Then all of it is written anew, safe at once.
    async fn try_to_sync(&mut self) -> Result<(), Error> {
        match only_error(self.client.vcommit(vec![self.descriptor]).await) {
            Ok(()) if !self.lost => return Ok(()),
            Ok(()) => {}
            Err(Error::DataLost(_)) => self.lost = true,
            Err(error) => return self.doubted(error),
        }
        let again = self.kept.iter().map(|piece| piece.step(self.descriptor, true)).collect();
        match only_error(self.client.execute(again).await) {
            Ok(()) => self.lost = false,
            Err(error) => return self.doubted(error),
        }
        Ok(())
    }

    /// It may be tried again if nobody knows whether it was done.
    fn doubted(&mut self, error: Error) -> Result<(), Error> {
        if error.is_unknown() {
            self.lost = true;
            return Err(error);
        }
        // Closed meanwhile, or taken away: who can tell?
        let error = self.ended.take_if(|_| is_not_open(&error)).unwrap_or(error);
        self.failure.set(error);
        Ok(())
    }

    /// Makes all safe, and closes the file in any case.
    async fn close(&mut self, last: Option<Piece>) {
        self.client.cursors.forget(&[self.descriptor]);
        let alone = self.kept.is_empty() && self.under_way.is_empty() && self.failure.is_none();
        match last {
            Some(last) if alone => {
                let both = vec![last.step(self.descriptor, true), Step::Close(self.descriptor)];
                match self.client.execute(both).await {
                    Ok(_) => return,
                    Err(failure) if failure.done.is_empty() && failure.error.is_unknown() => {
                        self.kept.push(last);
                        self.lost = true;
                        self.ended = Some(failure.error);
                    }
                    Err(failure) if failure.done.is_empty() => self.failure.set(failure.error),
                    Err(failure) => return self.failure.set(failure.error),
                }
            }
            Some(last) => self.write(last, None).await,
            None => {}
        }
        let may_be_closed = self.ended.is_some();
        self.sync().await;
        match only_error(self.client.vclose(vec![self.descriptor]).await) {
            // By the request that got no answer, after what it has written was written again.
            Err(error) if may_be_closed && is_not_open(&error) => {}
            closed => closed.unwrap_or_else(|error| self.failure.set(error)),
        }
    }
}

/// Whether the server says that the file is not open.
fn is_not_open(error: &Error) -> bool {
    matches!(error, Error::Refused { status: NfsStatus::BadStateId, .. })
}

fn only_error<T>(result: VectorResult<T>) -> Result<(), Error> {
    result.map(drop).map_err(|failure| failure.error)
}
