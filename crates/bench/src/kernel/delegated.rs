//! Files that the server has delegated to this client.
//!
//! Counted with the gateway (`tests/guest/tests/reopening`): what was opened once, for reading or for writing, is opened again without a request;
//! what is in the page cache is read without one. Who opens for writing what was opened for reading first gives the delegation back and
//! opens it. What is delegated is given back before it is removed. The attributes of a file are asked for once after it was opened or written.
//!
//! Writes are waited for as with `fsync`: vectors, too, are safe when they return. Without it, `close` would not wait for what is delegated for writing.
//!
//! The load generator asks for no delegations: it is alone with its files, and goes on under the OPEN. Giving back is CLOSE then.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use anyhow::Result;

use super::Kernel;
use super::content::Opened;

/// A file that needs no OPEN.
pub struct Delegated {
    file: Opened,
    writes: bool,
    /// What `stat` says is known.
    is_known: bool,
}

impl Kernel {
    pub(super) fn delegations(&self) -> MutexGuard<'_, HashMap<String, Delegated>> {
        self.delegations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file, if it need not be opened to be read.
    pub(super) fn delegated(&self, path: &str) -> Option<Opened> {
        self.delegations().get(path).map(|delegated| delegated.file.clone())
    }

    /// The file, if it need not be opened to be written; a delegation that is for reading only goes back.
    pub(super) async fn delegated_for_writing(&self, path: &str) -> Result<Option<Opened>> {
        let for_writing = self.delegations().get(path).filter(|it| it.writes).map(|it| it.file.clone());
        if for_writing.is_none() {
            self.give_back(path).await?;
        }
        Ok(for_writing)
    }

    /// The file was opened or written.
    pub(super) fn was_delegated(&self, path: &str, file: &Opened, writes: bool) {
        if self.habits.delegated {
            let delegated = Delegated { file: file.clone(), writes, is_known: false };
            self.delegations().insert(path.to_owned(), delegated);
        }
    }

    /// DELEGRETURN, if there is something to return.
    pub(super) async fn give_back(&self, path: &str) -> Result<()> {
        let delegated = self.delegations().remove(path);
        match delegated {
            Some(delegated) => self.close_now(&delegated.file).await,
            None => Ok(()),
        }
    }

    /// `stat` of a file that is delegated: whether its attributes are known, and its handle if not.
    pub(super) fn known(&self, path: &str) -> Option<(bool, nfs4::FileHandle)> {
        let mut delegations = self.delegations();
        let delegated = delegations.get_mut(path)?;
        Some((std::mem::replace(&mut delegated.is_known, true), delegated.file.handle.clone()))
    }
}
