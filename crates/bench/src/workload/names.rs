//! Names: made, asked for, removed, listed.

use anyhow::{Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use nfs4::Attribute;
use nfs4::bits::share_access;
use nfs4_client::operations::{get_attributes, lookup, put_handle, remove, unchecked};

use super::client::Client;

/// Files of the tree that is listed, and names in each of its directories.
const TREE: u64 = 50_000;
const WIDTH: u64 = 5;
/// Files and directories that are made or removed at once, where it is not measured.
const AT_ONCE: usize = 16;

impl Client {
    pub(super) async fn create(&self, at: u64) -> Result<()> {
        let file = self.open(&format!("f{at}"), unchecked(0o644)).await?;
        self.close(&file).await
    }

    pub(super) async fn stat(&self, at: u64) -> Result<()> {
        let wanted =
            Attribute::set(&[Attribute::Type, Attribute::Size, Attribute::Mode, Attribute::TimeModify]);
        let request = [put_handle(&self.folder), lookup(format!("f{at}")), get_attributes(wanted)];
        self.call(&request).await.map(drop)
    }

    pub(super) async fn unlink(&self, at: u64) -> Result<()> {
        self.call(&[put_handle(&self.folder), remove(format!("f{at}"))]).await.map(drop)
    }

    /// Makes the files that [`Self::stat`] and [`Self::unlink`] want.
    pub(super) async fn create_all(&self, count: u64) -> Result<()> {
        let files = stream::iter((0..count).map(|at| self.create(at)));
        files.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Removes what begins with `prefix`: one by one, as the Linux client does in a directory. DittoFS fails some of those that are removed
    /// from one at once (`NFS4ERR_SERVERFAULT`).
    pub(super) async fn remove_all(&self, prefix: &str) -> Result<()> {
        for (name, _) in self.kernel.list(&self.path).await? {
            if name.starts_with(prefix) {
                self.kernel.remove(&format!("{}/{name}", self.path)).await?;
            }
        }
        Ok(())
    }

    /// Makes the tree that is listed, once for all rows.
    pub(super) async fn make_tree(&self, shrink: u64) -> Result<()> {
        if self.kernel.handle(&self.directory(0)).await.is_ok() {
            return Ok(());
        }
        self.kernel.make_directory(&self.directory(0)).await?;
        let (mut level, all) = (1, directories(shrink));
        while level < all {
            // What is above is there before what is in it.
            let next = (level * WIDTH + 1).min(all);
            let made = stream::iter((level..next).map(|n| self.make_directory(n, all)));
            made.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
            level = next;
        }
        Ok(())
    }

    /// The n-th directory; one that has no directories in it gets files.
    async fn make_directory(&self, n: u64, all: u64) -> Result<()> {
        self.kernel.make_directory(&self.directory(n)).await?;
        if is_inner(n, all) {
            return Ok(());
        }
        let folder = self.kernel.handle(&self.directory(n)).await?;
        for file in 0..WIDTH {
            let access = share_access::BOTH | share_access::WANT_NO_DELEG;
            let file = self.open_in(&folder, &format!("f{file}"), access, unchecked(0o644)).await?;
            self.close(&file).await?;
        }
        Ok(())
    }

    /// The way to the n-th directory of the tree.
    fn directory(&self, n: u64) -> String {
        match n {
            0 => format!("{}/bench-tree", self.root),
            n => format!("{}/d{n}", self.directory((n - 1) / WIDTH)),
        }
    }

    /// Lists the n-th directory of the tree, which has something in it.
    pub(super) async fn list(&self, n: u64) -> Result<()> {
        let names = self.kernel.list(&self.directory(n)).await?;
        ensure!(!names.is_empty(), "directory {n} is empty");
        Ok(())
    }
}

/// Directories of a tree in which each has [`WIDTH`] directories or [`WIDTH`] files.
pub(super) fn directories(shrink: u64) -> u64 {
    (TREE / shrink / (WIDTH - 1)).max(WIDTH + 1)
}

/// Whether a directory of so many has directories in it, and no files.
fn is_inner(n: u64, all: u64) -> bool {
    n * WIDTH + 1 < all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_the_files_of_the_literature_or_their_part() {
        for shrink in [1, 16, 1000] {
            let all = directories(shrink);
            let files = (0..all).filter(|&n| !is_inner(n, all)).count() as u64 * WIDTH;
            assert!(files.abs_diff(TREE / shrink) <= WIDTH, "{files}");
        }
    }
}
