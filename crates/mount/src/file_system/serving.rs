//! Requests as tasks.

use fuser::{
    Errno, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request,
};

use super::FileSystem;
use crate::errno::Answer;
use crate::killable::killable;

/// A reply that can be an error.
pub(super) trait Refuse: Send + 'static {
    fn refuse(self, error: Errno);
}

macro_rules! refuse {
    ($($reply:ty),*) => {
        $(impl Refuse for $reply {
            fn refuse(self, error: Errno) {
                self.error(error);
            }
        })*
    };
}

refuse!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyEmpty,
    ReplyEntry,
    ReplyLock,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

impl FileSystem {
    /// Does the work as a task of its own, and replies.
    pub(super) fn serve<R: Refuse, T: Send + 'static>(
        &self,
        request: &Request,
        reply: R,
        work: impl Future<Output = Answer<T>> + Send + 'static,
        done: impl FnOnce(R, T) + Send + 'static,
    ) {
        let thread = request.pid();
        let task = async move {
            match killable(thread, work).await {
                Ok(answer) => done(reply, answer),
                Err(error) => reply.refuse(error),
            }
        };
        self.0.tasks.spawn_on(task, &self.0.runtime);
    }

    /// The same for work that leaves something behind: if the caller is killed before, it is undone when it is done.
    pub(super) fn serve_or_undo<R: Refuse, T: Send + 'static>(
        &self,
        request: &Request,
        reply: R,
        work: impl Future<Output = Answer<T>> + Send + 'static,
        done: impl FnOnce(R, T) + Send + 'static,
        undo: impl FnOnce(T) + Send + 'static,
    ) {
        let (tell, told) = tokio::sync::oneshot::channel();
        let task = async move {
            if let Err(Ok(left)) = tell.send(work.await) {
                undo(left);
            }
        };
        self.0.tasks.spawn_on(task, &self.0.runtime);
        self.serve(request, reply, async move { told.await.unwrap_or(Err(Errno::EIO)) }, done);
    }
}
