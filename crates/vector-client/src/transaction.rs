//! Steps collected one by one: for one vector, or to be done all or not at all (T1 to T13).

use std::marker::PhantomData;

use bytes::Bytes;

use crate::step::{APPEND, Copy, Creation, Data, Done, Open, Read, Step, Write};
use crate::{AttributeSet, Attributes, Client, Descriptor, Error, Failure, NewAttributes, Target};

/// How much one transaction may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// NFS operations: about two to four for a step.
    pub operations: u32,
    /// Bytes of data, names and attributes.
    pub bytes: u64,
}

/// A transaction that was not done: nothing of it was, unless the answer was lost.
#[derive(Debug, thiserror::Error)]
#[error("{}{error}", if *unknown { "it is not known whether the transaction was done: " } else { "nothing was done: " })]
pub struct Aborted {
    /// The step that failed; `None` if the whole was refused.
    pub step: Option<usize>,
    /// Why.
    pub error: Error,
    /// Whether nobody knows if all of it was done, or nothing: the answer was lost.
    pub unknown: bool,
}

/// What [`Client::transaction`] and [`Client::batch`] collect.
///
/// The steps see what those before them do; in a transaction, nobody else sees anything before the end, and symbolic links that
/// are made by a step are not followed by those after it.
#[derive(Debug, Default)]
pub struct Transaction {
    steps: Vec<Step>,
}

/// Stands for the result of a step of a transaction: see [`Committed::get`].
#[derive(Debug)]
pub struct Ticket<T> {
    step: usize,
    result: PhantomData<fn() -> T>,
}

/// What came of a transaction or a batch that was done.
#[derive(Debug)]
pub struct Committed {
    done: Vec<Done>,
}

/// The result of a kind of step.
pub trait StepResult: Sized {
    /// From the general form, if it is of this kind.
    fn of(done: Done) -> Option<Self>;
}

macro_rules! results {
    ($($type:ty: $pattern:pat => $value:expr;)*) => {
        $(impl StepResult for $type {
            fn of(done: Done) -> Option<$type> {
                match done {
                    $pattern => Some($value),
                    _ => None,
                }
            }
        })*
    };
}

results! {
    Descriptor: Done::Opened(descriptor) => descriptor;
    Data: Done::Read(data) => data;
    u64: Done::Written(bytes) | Done::Copied(bytes) => bytes;
    Attributes: Done::Attributes(attributes) => *attributes;
    Bytes: Done::Link(text) => text;
    (): Done::Nothing => ();
}

impl Transaction {
    /// A step of any kind.
    pub fn step<T: StepResult>(&mut self, step: Step) -> Ticket<T> {
        self.steps.push(step);
        Ticket { step: self.steps.len() - 1, result: PhantomData }
    }

    /// Reads an extent.
    pub fn read(&mut self, read: Read) -> Ticket<Data> {
        self.step(Step::Read(read))
    }

    /// Writes an extent; how many bytes.
    pub fn write(&mut self, write: Write) -> Ticket<u64> {
        self.step(Step::Write(write))
    }

    /// Opens a file.
    pub fn open(&mut self, open: Open) -> Ticket<Descriptor> {
        self.step(Step::Open(open))
    }

    /// Asks for attributes; of what a symbolic link leads to.
    pub fn get_attributes(&mut self, target: impl Into<Target>, wanted: AttributeSet) -> Ticket<Attributes> {
        self.step(Step::GetAttributes { target: target.into(), wanted, follow: true })
    }

    /// Sets attributes; of what a symbolic link leads to.
    pub fn set_attributes(&mut self, target: impl Into<Target>, attributes: NewAttributes) -> Ticket<()> {
        self.step(Step::SetAttributes { target: target.into(), attributes, follow: true })
    }

    /// Copies within the server; how many bytes.
    pub fn copy(&mut self, copy: Copy) -> Ticket<u64> {
        self.step(Step::Copy(copy))
    }

    /// Makes a directory.
    pub fn make_directory(&mut self, target: impl Into<Target>, mode: u32) -> Ticket<()> {
        self.step(Step::MakeDirectory { target: target.into(), mode })
    }

    /// Makes a symbolic link.
    pub fn symbolic_link(&mut self, target: impl Into<Target>, text: impl Into<Bytes>) -> Ticket<()> {
        self.step(Step::MakeSymbolicLink { target: target.into(), text: text.into() })
    }

    /// Gives a file a further name.
    pub fn hard_link(&mut self, existing: impl Into<Target>, new: impl Into<Target>) -> Ticket<()> {
        self.step(Step::HardLink { existing: existing.into(), new: new.into() })
    }

    /// Removes a file or an empty directory.
    pub fn remove(&mut self, target: impl Into<Target>) -> Ticket<()> {
        self.step(Step::Remove(target.into()))
    }

    /// Renames, replacing what has the new name.
    pub fn rename(&mut self, from: impl Into<Target>, to: impl Into<Target>) -> Ticket<()> {
        self.step(Step::Rename { from: from.into(), to: to.into() })
    }
}

/// A file that is opened for what is chained to it, and closed behind the last of that, with one OPEN and one CLOSE (V44): what
/// [`Transaction::chain`] begins. It is opened to be read and written as what is chained to it asks for, and if that is nothing, only opened.
#[derive(Debug)]
pub struct Chain<'a> {
    transaction: &'a mut Transaction,
    target: Target,
    /// How it is made or emptied, by the first that opens it.
    create: Option<Creation>,
}

impl Transaction {
    /// With an existing file; what `chained` returns.
    ///
    /// ```no_run
    /// # use vector_client::{Client, Failure, Done};
    /// # async fn example(client: &Client) -> Result<(), Failure<Done>> {
    /// let mut head = None;
    /// let mut done = client
    ///     .batch(|batch| {
    ///         head = Some(batch.chain("/var/log/messages", |log| log.read(0, 100)));
    ///         batch.chain_new("/home/joe/note", 0o600, |note| {
    ///             note.write(0, "read it");
    ///             note.append(" all\n");
    ///         });
    ///     })
    ///     .await?;
    /// let head = head.and_then(|head| done.get(&head));
    /// # Ok(())
    /// # }
    /// ```
    pub fn chain<R>(&mut self, target: impl Into<Target>, chained: impl FnOnce(&mut Chain<'_>) -> R) -> R {
        self.chain_from(target.into(), None, chained)
    }

    /// With a file that is made with this mode, or emptied.
    pub fn chain_new<R>(
        &mut self,
        target: impl Into<Target>,
        mode: u32,
        chained: impl FnOnce(&mut Chain<'_>) -> R,
    ) -> R {
        self.chain_from(target.into(), Some(Creation { mode, exclusive: false }), chained)
    }

    fn chain_from<R>(
        &mut self,
        target: Target,
        create: Option<Creation>,
        chained: impl FnOnce(&mut Chain<'_>) -> R,
    ) -> R {
        let before = self.steps.len();
        let mut chain = Chain { transaction: self, target, create };
        let result = chained(&mut chain);
        if chain.transaction.steps.len() == before {
            match chain.create {
                Some(_) => drop(chain.write(0, Bytes::new())),
                None => drop(chain.read(0, 0)),
            }
        }
        result
    }
}

impl Chain<'_> {
    /// Then reads an extent of it.
    pub fn read(&mut self, offset: u64, length: u64) -> Ticket<Data> {
        if self.create.is_some() {
            self.write(0, Bytes::new());
        }
        self.transaction.read(Read::new(&self.target, offset, length))
    }

    /// Then writes an extent of it; how many bytes.
    pub fn write(&mut self, offset: u64, data: impl Into<Bytes>) -> Ticket<u64> {
        let create = self.create.take();
        self.transaction.write(Write {
            create,
            truncate: create.is_some(),
            ..Write::new(&self.target, offset, data)
        })
    }

    /// Then writes at its end; how many bytes.
    pub fn append(&mut self, data: impl Into<Bytes>) -> Ticket<u64> {
        self.write(APPEND, data)
    }
}

impl Committed {
    /// The result of a step. `None` if it was taken before, or the ticket is of another one.
    pub fn get<T: StepResult>(&mut self, ticket: &Ticket<T>) -> Option<T> {
        let done = self.done.get_mut(ticket.step)?;
        T::of(std::mem::replace(done, Done::Nothing))
    }

    /// All results, in the order of the steps.
    pub fn all(self) -> Vec<Done> {
        self.done
    }
}

impl Client {
    /// Does all the steps that `build` collects, in order, up to the first that fails, in as few round trips as possible: as
    /// [`execute`](Self::execute), with results by [`Ticket`].
    ///
    /// # Errors
    /// What failed, with the results of the steps before it.
    pub async fn batch(&self, build: impl FnOnce(&mut Transaction)) -> Result<Committed, Failure<Done>> {
        let mut batch = Transaction::default();
        build(&mut batch);
        let done = self.execute(batch.steps).await?;
        Ok(Committed { done })
    }

    /// Does all the steps that `build` collects, in order, at one instant, or none of them, in one round trip.
    ///
    /// ```no_run
    /// # use vector_client::{Client, Write};
    /// # async fn example(client: &Client) -> Result<(), vector_client::Aborted> {
    /// client
    ///     .transaction(|t| {
    ///         t.write(Write::append("/etc/passwd", "joe:x:1000:1000::/home/joe:/bin/sh\n"));
    ///         t.write(Write::append("/etc/group", "joe:x:1000:\n"));
    ///         t.make_directory("/home/joe", 0o700);
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Aborted`], with [`Error::Unsupported`] if the server has no transactions (only Kurma has), and [`Error::TooBig`] if
    /// it is more than [`transaction_limits`](Self::transaction_limits).
    pub async fn transaction(&self, build: impl FnOnce(&mut Transaction)) -> Result<Committed, Aborted> {
        let mut transaction = Transaction::default();
        build(&mut transaction);
        let done = self.backend.transact(transaction.steps).await?;
        Ok(Committed { done })
    }

    /// How much one transaction may be; `None` if there are none here.
    pub fn transaction_limits(&self) -> Option<TransactionLimits> {
        self.backend.transaction_limits()
    }
}
