//! Programs over whole trees, with the requests of the Linux client.
//!
//! `cp -r` reads, makes and writes file by file, and sets no attributes beyond those of OPEN; `cp -rs` makes a link for each name; tar
//! reads file by file; untar sets the times of each object (one SETATTR, though GNU tar as root has three), but for `untar -m -o` only
//! what directories may be; `rm -rf` is READDIR for each directory and REMOVE for each name.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Result;
use bytes::Bytes;
use nfs4::OpenHow;
use nfs4::bits::share_access;

use super::Kernel;
use crate::tree::{Object, Tree};

impl Kernel {
    /// `ls -lR`: how many names.
    pub async fn list_tree(&self, path: &str) -> Result<u64> {
        let (mut waiting, mut count) = (vec![path.to_owned()], 0);
        while let Some(path) = waiting.pop() {
            for (name, is_directory) in self.list(&path).await? {
                count += 1;
                if is_directory {
                    waiting.push(format!("{path}/{name}"));
                }
            }
        }
        Ok(count)
    }

    /// `cp -r`, or `cp -rs`.
    pub async fn copy_tree(&self, from: &str, to: &str, links: bool) -> Result<()> {
        self.make_directory(to).await?;
        for (name, is_directory) in self.list(from).await? {
            let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
            if is_directory {
                Box::pin(self.copy_tree(&from, &to, links)).await?;
            } else if links {
                self.symbolic_link(&to, &from).await?;
            } else {
                self.copy(&from, &to).await?;
            }
        }
        Ok(())
    }

    /// A file.
    pub async fn copy(&self, from: &str, to: &str) -> Result<()> {
        let data = self.whole(from).await?;
        self.write(to, &data).await
    }

    /// What is in a file.
    pub async fn whole(&self, path: &str) -> Result<Bytes> {
        let file = self.open(path, share_access::READ, OpenHow::NoCreate).await?;
        Ok(self.content(file).await?.concat().into())
    }

    /// `tar -c`, into a local file.
    pub async fn pack(&self, path: &str, archive: &Path) -> Result<()> {
        let mut builder = tar::Builder::new(io::BufWriter::new(std::fs::File::create(archive)?));
        let mut waiting = vec![path.to_owned()];
        while let Some(directory) = waiting.pop() {
            for (name, is_directory) in self.list(&directory).await? {
                let member = format!("{directory}/{name}");
                let name = member.trim_start_matches('/').to_owned();
                let mut header = tar::Header::new_gnu();
                header.set_mode(0o644);
                if is_directory {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_size(0);
                    builder.append_data(&mut header, name, io::empty())?;
                    waiting.push(member);
                } else {
                    let data = self.whole(&member).await?;
                    header.set_size(data.len() as u64);
                    builder.append_data(&mut header, name, &data[..])?;
                }
            }
        }
        builder.into_inner()?.flush()?;
        Ok(())
    }

    /// `tar -x` of an archive of this tree, or with `touch` `tar -xmo`.
    pub async fn unpack(&self, tree: &Tree, to: &str, touch: bool) -> Result<()> {
        for object in tree.objects() {
            match object {
                Object::Directory(name) => {
                    let path = format!("{to}/{name}");
                    self.make_directory(&path).await?;
                    self.set_mode(&path, 0o755).await?;
                }
                Object::File(name) => {
                    let path = format!("{to}/{name}");
                    self.write(&path, &Tree::content(&name)).await?;
                    if !touch {
                        // Standing for the times: it costs the same.
                        self.set_mode(&path, 0o644).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// `rm -rf`.
    pub async fn remove_tree(&self, path: &str) -> Result<()> {
        for (name, is_directory) in self.list(path).await? {
            let child = format!("{path}/{name}");
            if is_directory {
                Box::pin(self.remove_tree(&child)).await?;
            } else {
                self.remove(&child).await?;
            }
        }
        self.remove(path).await
    }
}
