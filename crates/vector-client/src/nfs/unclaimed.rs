//! What is open at the server although whoever opened it has given up waiting.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::Nfs;
use crate::step::{Done, Open, Step, opened};
use crate::{Descriptor, Error, Failure, VectorResult};

impl Nfs {
    /// As [`do_all`](Self::do_all), but to its end even if nobody waits for it any more, as an OPEN may have been sent; what is open then
    /// is closed.
    pub(super) async fn do_all_opening(&self, steps: Vec<Step>) -> VectorResult<Done> {
        let Some(nfs) = self.me.upgrade() else { return Box::pin(self.do_all(steps)).await };
        let count = steps.len();
        let doing = self.runtime.spawn(async move {
            let result = nfs.clone().boxed(steps).await;
            let opened = opened(&result);
            let opened = opened.map(|descriptor| Unclaimed { nfs: Some(nfs.clone()), descriptor });
            let opened: Vec<_> = opened.collect();
            (result, opened)
        });
        match doing.await {
            Ok((result, opened)) => {
                opened.into_iter().for_each(Unclaimed::claim);
                result
            }
            Err(ended) => {
                if ended.is_panic() {
                    std::panic::resume_unwind(ended.into_panic());
                }
                let error = Error::Connection(nfs4_client::ClientError::Closed);
                Err(Failure { done: Vec::new(), error, unknown: count })
            }
        }
    }

    /// Opens a file for a while.
    pub(super) async fn open(&self, open: Open) -> Result<Unclaimed, Error> {
        match self.do_all_opening(vec![Step::Open(open)]).await.map(|mut done| done.pop()) {
            Ok(Some(Done::Opened(descriptor))) => Ok(Unclaimed { nfs: self.me.upgrade(), descriptor }),
            Ok(_) => Err(Error::Unsupported("opening")),
            Err(failure) => Err(failure.error),
        }
    }

    /// Closes these.
    pub(super) async fn close_all(&self, opened: Vec<Unclaimed>) -> VectorResult<Done> {
        let closes = opened.iter().map(|file| Step::Close(file.descriptor)).collect();
        let closed = Box::pin(self.do_all(closes)).await;
        opened.into_iter().for_each(Unclaimed::claim);
        closed
    }

    fn boxed(self: Arc<Nfs>, steps: Vec<Step>) -> BoxFuture<'static, VectorResult<Done>> {
        Box::pin(async move { self.do_all(steps).await })
    }
}

/// An open file that is closed when this is dropped.
pub(super) struct Unclaimed {
    nfs: Option<Arc<Nfs>>,
    pub descriptor: Descriptor,
}

impl Unclaimed {
    /// It is closed, or somebody else does that.
    fn claim(mut self) {
        self.nfs = None;
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(nfs) = self.nfs.take() {
            let close = vec![Step::Close(self.descriptor)];
            // A later step of the vector may have closed it already.
            nfs.runtime.clone().spawn(async move { nfs.boxed(close).await.map(drop).map_err(drop) });
        }
    }
}
