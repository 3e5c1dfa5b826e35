//! Copies of trees between any two clients.

mod batch;
mod folder;
mod large;
mod open;
mod options;
mod run;

pub use options::{CopyAct, CopyItem, CopyOptions, CopyWatch, Links, Make, Preserve};

use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::{Client, Error, Target};
use batch::Ends;
use run::Run;

impl Client {
    /// Copies objects to another client, or the same one, with all below them if so wanted: what, and as what. How many
    /// could not be copied, or not wholly; `watch` is told which.
    ///
    /// Attributes come with the names, small files go by the hundred, reading goes on while what was read is written, and
    /// where both ends are one server it copies itself. Memory grows with the depth of the tree and with the number
    /// of files that have several names, not with its size.
    ///
    /// # Errors
    /// What ended it all before its end: one of the servers is gone.
    pub async fn cp_recursive(
        &self,
        copies: Vec<(Target, Target)>,
        to: &Client,
        options: &CopyOptions,
        watch: &mut dyn CopyWatch,
    ) -> Result<u64, Error> {
        let same = self.is_same(to);
        let by_server = AtomicBool::new(same);
        let ends = Ends { from: self, to, options, same, by_server, moving: AtomicU64::new(0) };
        Run::new(&ends, watch).copy(copies).await
    }
}
