//! All or nothing (T1 to T13).

use std::marker::PhantomData;

use bytes::Bytes;

use crate::step::{Copy, Data, Done, Open, Read, Step, Write};
use crate::{AttributeSet, Attributes, Client, Descriptor, Error, NewAttributes, Target};

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

/// Steps that are done all or not at all: what [`Client::transaction`] collects.
///
/// The steps see what those before them do; nobody else sees anything before the end. Symbolic links that are made by
/// a step are not followed by those after it.
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

/// What came of a transaction that was done.
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

impl Committed {
    /// The result of a step. `None` if it was taken before, or the ticket is of another transaction.
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
