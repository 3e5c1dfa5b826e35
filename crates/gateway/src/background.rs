use std::io;

use rustix::process::setpriority_process;
use tokio::runtime::{Builder, Handle, Runtime};

/// By the nice value, such a thread gets about a third of what one that serves clients gets while both want a core.
const NICENESS: i32 = 5;

/// Threads for what nobody waits for: it takes the cores that clients leave, instead of standing in their way.
pub(crate) struct Background(Option<Runtime>);

impl Background {
    /// One thread: there is more than one block at a time on the way to it, and one at a time in it.
    pub fn new() -> io::Result<Background> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("background")
            .on_thread_start(|| {
                if let Err(error) = setpriority_process(None, NICENESS) {
                    tracing::debug!(%error, "background work runs with the priority of all other work");
                }
            })
            .enable_all()
            .build()?;
        Ok(Background(Some(runtime)))
    }

    /// To spawn tasks there.
    pub fn handle(&self) -> Handle {
        self.0.as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Its threads are waited for, by a thread, as that is not allowed among tasks. Who only lets go of threads that are just ending
        // meets a race of glibc 2.36: `pthread_detach` looks at the thread's memory after it has allowed that to be unmapped.
        if let Some(runtime) = self.0.take() {
            let thread = std::thread::Builder::new().name("background-end".to_owned());
            if let Err(error) = thread.spawn(move || drop(runtime)) {
                tracing::warn!(%error, "no thread waits for the end of background work");
            }
        }
    }
}
