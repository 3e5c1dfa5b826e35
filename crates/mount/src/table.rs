//! Which inode of the kernel's is which file of the server's.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fuser::Errno;
use nfs4::FileHandle;
use parking_lot::RwLock;

use crate::errno::Answer;
use crate::inode::Inode;

/// The number that FUSE gives the root.
pub(crate) const ROOT: u64 = 1;

/// The first of the numbers for files whose own number is taken: above those that servers give.
const SURPLUS: u64 = 1 << 62;

/// The inodes that the kernel knows. As many as it keeps: it forgets them when it is short of memory.
pub(crate) struct Table(RwLock<Inodes>);

struct Inodes {
    by_number: HashMap<u64, Arc<Inode>>,
    by_handle: HashMap<FileHandle, Arc<Inode>>,
    next: u64,
}

impl Table {
    pub fn new(root: FileHandle) -> Table {
        let inode = Arc::new(Inode::new(ROOT, root.clone()));
        let by_number = HashMap::from([(ROOT, inode.clone())]);
        Table(RwLock::new(Inodes { by_number, by_handle: HashMap::from([(root, inode)]), next: SURPLUS }))
    }

    /// The inode of this number.
    pub fn get(&self, number: u64) -> Answer<Arc<Inode>> {
        self.0.read().by_number.get(&number).cloned().ok_or(Errno::ESTALE)
    }

    /// The inodes of these files, about each of which the kernel is about to be told once. The number of a file is its
    /// file id, unless another file has that now: a server may have several file systems.
    pub fn look_up<'a>(&self, files: impl Iterator<Item = (&'a FileHandle, u64)>) -> Vec<Arc<Inode>> {
        let mut inodes = self.0.write();
        files.map(|(handle, file_id)| inodes.look_up(handle, file_id)).collect()
    }

    /// The inode of this file if the kernel knows it.
    pub fn find(&self, handle: &FileHandle) -> Option<Arc<Inode>> {
        self.0.read().by_handle.get(handle).cloned()
    }

    /// Whether it is so of any of them.
    pub fn any(&self, is_so: impl Fn(&Inode) -> bool) -> bool {
        self.0.read().by_number.values().any(|inode| is_so(inode))
    }

    /// The kernel forgets what it was told so many times. Gives back the inode if that was all.
    pub fn forget(&self, number: u64, times: u64) -> Option<Arc<Inode>> {
        let mut inodes = self.0.write();
        let inode = inodes.by_number.get(&number)?;
        let left = inode.lookups.load(Relaxed).saturating_sub(times);
        inode.lookups.store(left, Relaxed);
        if left > 0 || number == ROOT {
            return None;
        }
        let inode = inodes.by_number.remove(&number)?;
        inodes.by_handle.remove(&inode.handle);
        Some(inode)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.read().by_number.len()
    }
}

impl Inodes {
    fn look_up(&mut self, handle: &FileHandle, file_id: u64) -> Arc<Inode> {
        let inode = match self.by_handle.get(handle) {
            Some(inode) => inode.clone(),
            None => {
                let number =
                    match file_id > ROOT && file_id < SURPLUS && !self.by_number.contains_key(&file_id) {
                        true => file_id,
                        false => {
                            self.next += 1;
                            self.next
                        }
                    };
                let inode = Arc::new(Inode::new(number, handle.clone()));
                self.by_number.insert(number, inode.clone());
                self.by_handle.insert(handle.clone(), inode.clone());
                inode
            }
        };
        inode.lookups.fetch_add(1, Relaxed);
        inode
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn handle(name: u8) -> FileHandle {
        FileHandle::new(vec![name]).unwrap()
    }

    proptest! {
        /// Held against a list of who is known how often.
        #[test]
        fn an_inode_is_one_file_as_long_as_the_kernel_knows_it(
            steps in vec((1u8..6, 0u64..4, 1u64..3, any::<bool>()), 0..60),
        ) {
            let table = Table::new(handle(0));
            let mut model: HashMap<u8, (u64, u64)> = HashMap::new();
            for (name, file_id, times, forgets) in steps {
                if forgets {
                    let Some((number, count)) = model.get(&name).copied() else { continue };
                    let times = times.min(count);
                    let gone = table.forget(number, times).is_some();
                    prop_assert_eq!(gone, times == count);
                    if gone { model.remove(&name); } else { model.insert(name, (number, count - times)); }
                } else {
                    let inode = table.look_up([(&handle(name), file_id)].into_iter()).remove(0);
                    let entry = model.entry(name).or_insert((inode.number, 0));
                    prop_assert_eq!(entry.0, inode.number);
                    entry.1 += 1;
                }
                prop_assert_eq!(table.len(), model.len() + 1);
                for (name, (number, _)) in &model {
                    prop_assert_eq!(&table.get(*number).unwrap().handle, &handle(*name));
                }
            }
        }
    }

    #[test]
    fn the_root_is_never_forgotten_and_what_is_unknown_is_stale() {
        let table = Table::new(handle(0));
        assert!(table.forget(ROOT, 100).is_none());
        assert!(table.get(ROOT).is_ok() && table.get(2).is_err());
        assert!(table.find(&handle(0)).is_some() && table.find(&handle(1)).is_none());
    }
}
