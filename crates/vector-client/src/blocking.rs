//! The same calls for programs that are not asynchronous: each returns when it is done.
//!
//! ```no_run
//! use vector_client::blocking::Client;
//! use vector_client::{Read, Write};
//!
//! let client = Client::local("/tmp")?;
//! client.vwrite(vec![Write::whole("greeting", 0o644, "hello")])?;
//! assert_eq!(client.vread(vec![Read::new("greeting", 0, 100)])?[0].len(), 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod scalar;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::step::{Copy, Creation, Data, Done, Open, Read, Step, Write};
use crate::{
    AttributeSet, Attributes, Descriptor, Entry, Error, Failure, Found, NewAttributes, Options, Statistics,
    Target, VectorResult,
};

pub use writer::Writer;

/// Threads that wait for the network and for timers; the work of a call is done on the thread that makes it.
const THREADS: usize = 2;
/// How long the end of the last client waits for its threads, that may be inside of a system call.
const LAST_WORK: Duration = Duration::from_secs(1);

/// Files of an NFS server or of a local directory. Cheap to clone; everything may be called from many threads at once.
///
/// Not to be called in asynchronous code, where waiting would stop everything else on the thread, perhaps also what is waited
/// for: on a thread that belongs to a tokio runtime every call fails and does nothing. There is [`crate::Client`] for that.
#[derive(Clone)]
pub struct Client {
    client: crate::Client,
    engine: Arc<Engine>,
}

/// Reads directories page by page: [`crate::Walk`] as an iterator.
pub struct Walk<'a> {
    walk: crate::Walk<'a>,
    engine: &'a Engine,
    failed: bool,
}

/// A runtime that ends with the last client of it.
struct Engine {
    runtime: Option<Runtime>,
}

impl Engine {
    fn new() -> Result<Engine, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("vector-client")
            .enable_all()
            .build();
        let failed = |error| Error::Local { target: Target::from("/"), error };
        Ok(Engine { runtime: Some(runtime.map_err(failed)?) })
    }

    /// Where calls wait, unless this is asynchronous code.
    fn runtime(&self) -> Result<&Runtime, Error> {
        match &self.runtime {
            Some(runtime) if Handle::try_current().is_err() => Ok(runtime),
            _ => Err(Error::Unsupported("waiting in asynchronous code (use the asynchronous client there)")),
        }
    }

    fn wait<T>(&self, call: impl Future<Output = T>) -> Result<T, Error> {
        Ok(self.runtime()?.block_on(call))
    }

    fn vector<T>(&self, call: impl Future<Output = VectorResult<T>>) -> VectorResult<T> {
        let refused = |error| Err(Failure { done: Vec::new(), error, unknown: 0 });
        self.wait(call).unwrap_or_else(refused)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if Handle::try_current().is_err() {
            // A thread still running while the program ends would find the C library's state torn down.
            runtime.shutdown_timeout(LAST_WORK);
        } else {
            runtime.shutdown_background();
        }
    }
}

/// Calls that are those of the asynchronous client.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Client {
            $(
                $(#[$doc])*
                pub fn $name(&self, $($argument: $type),*) -> VectorResult<$result> {
                    self.engine.vector(self.client.$name($($argument),*))
                }
            )*
        }
    };
}

calls! {
    /// As [`crate::Client::execute`].
    execute(steps: Vec<Step>) -> Done;
    /// As [`crate::Client::vread`].
    vread(reads: Vec<Read>) -> Data;
    /// As [`crate::Client::vwrite`].
    vwrite(writes: Vec<Write>) -> u64;
    /// As [`crate::Client::vopen`].
    vopen(opens: Vec<Open>) -> Descriptor;
    /// As [`crate::Client::vopen_simple`].
    vopen_simple(targets: Vec<Target>, write: bool, create: Option<Creation>) -> Descriptor;
    /// As [`crate::Client::vclose`].
    vclose(descriptors: Vec<Descriptor>) -> ();
    /// As [`crate::Client::vcommit`].
    vcommit(descriptors: Vec<Descriptor>) -> ();
    /// As [`crate::Client::vgetattrs`].
    vgetattrs(targets: Vec<Target>, wanted: AttributeSet) -> Attributes;
    /// As [`crate::Client::vlgetattrs`].
    vlgetattrs(targets: Vec<Target>, wanted: AttributeSet) -> Attributes;
    /// As [`crate::Client::vsetattrs`].
    vsetattrs(changes: Vec<(Target, NewAttributes)>) -> ();
    /// As [`crate::Client::vlsetattrs`].
    vlsetattrs(changes: Vec<(Target, NewAttributes)>) -> ();
    /// As [`crate::Client::vsscopy`].
    vsscopy(copies: Vec<Copy>) -> u64;
    /// As [`crate::Client::vmkdir`].
    vmkdir(directories: Vec<(Target, u32)>) -> ();
    /// As [`crate::Client::vsymlink`].
    vsymlink(links: Vec<(Target, Bytes)>) -> ();
    /// As [`crate::Client::vreadlink`].
    vreadlink(links: Vec<Target>) -> Bytes;
    /// As [`crate::Client::vhardlink`].
    vhardlink(links: Vec<(Target, Target)>) -> ();
    /// As [`crate::Client::vremove`].
    vremove(targets: Vec<Target>) -> ();
    /// As [`crate::Client::vrename`].
    vrename(renames: Vec<(Target, Target)>) -> ();
}

impl Client {
    /// As [`crate::Client::connect`].
    ///
    /// # Errors
    /// The server cannot be reached, or refuses; no threads can be had.
    pub fn connect(server: impl ToString, options: Options) -> Result<Client, Error> {
        let engine = Engine::new()?;
        let client = engine.wait(crate::Client::connect(server, options))??;
        Ok(Client { client, engine: Arc::new(engine) })
    }

    /// As [`crate::Client::local`].
    ///
    /// # Errors
    /// `directory` cannot be opened; no threads can be had.
    pub fn local(directory: impl AsRef<Path>) -> Result<Client, Error> {
        let client = crate::Client::local(directory)?;
        Ok(Client { client, engine: Arc::new(Engine::new()?) })
    }

    /// Waits for anything that the asynchronous client can do.
    ///
    /// ```no_run
    /// # let client = vector_client::blocking::Client::local("/tmp")?;
    /// let directories = client.wait(async |client| client.ensure_directory("/tmp/a/b/c", 0o755).await)??;
    /// # let _: Vec<vector_client::Target> = directories;
    /// # Ok::<(), vector_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// In asynchronous code; `call` is not made then.
    pub fn wait<T>(&self, call: impl AsyncFnOnce(&crate::Client) -> T) -> Result<T, Error> {
        self.engine.wait(call(&self.client))
    }

    /// As [`crate::Client::walk`].
    pub fn walk(&self, directories: Vec<Target>, wanted: AttributeSet, recursive: bool) -> Walk<'_> {
        let walk = self.client.walk(directories, wanted, recursive);
        Walk { walk, engine: &self.engine, failed: false }
    }

    /// As [`crate::Client::vlistdir`]. `each` may make calls of its own.
    pub fn vlistdir(
        &self,
        directories: Vec<Target>,
        wanted: AttributeSet,
        recursive: bool,
        mut each: impl FnMut(&Target, &Entry),
    ) -> Result<u64, Failure<()>> {
        let mut read = 0_u64;
        for found in self.walk(directories, wanted, recursive) {
            match found.entries {
                Ok(entries) => entries.iter().for_each(|entry| each(&found.directory, entry)),
                Err(error) => {
                    let done = vec![(); usize::try_from(read).unwrap_or(usize::MAX)];
                    return Err(Failure { done, error, unknown: 0 });
                }
            }
            read += u64::from(found.last);
        }
        Ok(read)
    }

    /// As [`crate::Client::statistics`].
    pub fn statistics(&self) -> Statistics {
        self.client.statistics()
    }

    /// As [`crate::Client::close`].
    ///
    /// # Errors
    /// Those of the asynchronous call.
    pub fn close(&self) -> Result<(), Error> {
        self.engine.wait(self.client.close())?
    }
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if self.failed {
            return None;
        }
        self.engine.wait(self.walk.next()).unwrap_or_else(|error| {
            self.failed = true;
            Some(Found { directory: Target::from("/"), entries: Err(error), last: true })
        })
    }
}
