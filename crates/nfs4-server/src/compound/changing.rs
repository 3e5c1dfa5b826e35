//! Files that a compound changes, and that nobody gets delegations of before its commit.

use file_system::FileId;
use nfs4::ClientId;

use crate::failure::Failure;
use crate::shared::Shared;

/// Gives them free when it is dropped.
pub(super) struct Changing<'a> {
    server: &'a Shared,
    /// With whether their delegations were recalled.
    files: Vec<(FileId, bool)>,
}

impl<'a> Changing<'a> {
    pub fn new(server: &'a Shared) -> Changing<'a> {
        Changing { server, files: Vec::new() }
    }

    /// `client` changes the file; delegations of others are recalled first.
    pub fn begin(&mut self, client: Option<ClientId>, file: FileId) -> Result<(), Failure> {
        if !self.files.contains(&(file, true)) {
            self.server.with_state(|state, now| state.begin_change(client, file, now))?;
            self.files.push((file, true));
        }
        Ok(())
    }

    /// The file is changed by what was opened for writing.
    pub fn mark(&mut self, file: FileId) {
        if !self.files.iter().any(|(marked, _)| *marked == file) {
            self.server.state.lock().mark_changing(file);
            self.files.push((file, false));
        }
    }

    /// How often the file is marked.
    pub fn count(&self, file: FileId) -> usize {
        self.files.iter().filter(|(marked, _)| *marked == file).count()
    }

    /// All of them are changed, or are not changed after all.
    pub fn end(&mut self) {
        if !self.files.is_empty() {
            let mut state = self.server.state.lock();
            self.files.drain(..).for_each(|(file, _)| state.end_change(file));
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
