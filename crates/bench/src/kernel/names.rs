//! Names and attributes.

use std::sync::PoisonError;

use anyhow::{Context, Result};
use bytes::Bytes;
use nfs4::{
    Attribute, AttributeValues, CreateType, FileType, LinkArgs, NfsArgOp, NfsResOp, Outcome, StateId,
};
use nfs4_client::operations::{create, lookup, put_handle, read_directory, remove, rename, set_attributes};

use super::{ATTRIBUTES, Kernel, TRANSFER, attributes};

impl Kernel {
    pub async fn stat(&self, path: &str) -> Result<()> {
        if let Some((is_known, handle)) = self.known(path) {
            return match is_known {
                true => Ok(()),
                false => self.send(&[put_handle(&handle), attributes()]).await.map(drop),
            };
        }
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.handle(parent).await?;
        let request = [put_handle(&parent), lookup(name), NfsArgOp::GetFh, attributes()];
        self.send(&request).await.map(drop)
    }

    pub async fn make_directory(&self, path: &str) -> Result<()> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.handle(parent).await?;
        let make = create(CreateType::Directory, name, 0o755);
        let request = [put_handle(&parent), make, NfsArgOp::GetFh, attributes()];
        let found = self.send(&request).await?;
        if let Some(NfsResOp::GetFh(Outcome::Ok(handle))) = found.into_iter().nth(2) {
            self.remember(path, handle);
        }
        Ok(())
    }

    /// Names in a directory, and whether each is a directory.
    pub async fn list(&self, path: &str) -> Result<Vec<(String, bool)>> {
        let directory = self.handle(path).await?;
        self.send(&[put_handle(&directory), attributes()]).await?;
        let (mut cookie, mut verifier, mut names) = (0, nfs4::Verifier::default(), Vec::new());
        let wanted = Attribute::set(ATTRIBUTES).with(Attribute::Filehandle).with(Attribute::RdattrError);
        loop {
            let page = [put_handle(&directory), read_directory(cookie, verifier, TRANSFER as u32, wanted)];
            let Some(NfsResOp::ReadDir(Outcome::Ok(page))) = self.send(&page).await?.pop() else {
                anyhow::bail!("{path} cannot be listed");
            };
            for entry in &page.entries {
                let name = String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
                let values = entry.attributes.values()?;
                if let Some(handle) = values.filehandle {
                    self.remember(&format!("{path}/{name}"), handle);
                }
                names.push((name, values.r#type == Some(FileType::Directory)));
            }
            cookie = page.entries.last().map_or(cookie, |last| last.cookie);
            verifier = page.cookie_verifier;
            if page.eof {
                return Ok(names);
            }
        }
    }

    pub async fn remove(&self, path: &str) -> Result<()> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.handle(parent).await?;
        self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
        self.pages().remove(path);
        self.give_back(path).await?;
        self.send(&[put_handle(&parent), remove(name)]).await.map(drop)
    }

    pub async fn symbolic_link(&self, path: &str, text: &str) -> Result<()> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.handle(parent).await?;
        let text = Bytes::copy_from_slice(text.as_bytes()).into();
        let make = create(CreateType::SymbolicLink(text), name, 0o777);
        self.send(&[put_handle(&parent), make, NfsArgOp::GetFh, attributes()]).await.map(drop)
    }

    pub async fn read_link(&self, path: &str) -> Result<Bytes> {
        let handle = self.handle(path).await?;
        match self.send(&[put_handle(&handle), NfsArgOp::ReadLink]).await?.pop() {
            Some(NfsResOp::ReadLink(Outcome::Ok(text))) => Ok(Bytes::copy_from_slice(text.as_bytes())),
            _ => anyhow::bail!("a link cannot be read"),
        }
    }

    /// A further name, as link(2) makes it.
    pub async fn hard_link(&self, path: &str, new: &str) -> Result<()> {
        let (parent, name) = new.rsplit_once('/').context("a path from the root")?;
        let (file, parent) = (self.handle(path).await?, self.handle(parent).await?);
        let link = NfsArgOp::Link(LinkArgs { new_name: name.into() });
        let request = [put_handle(&file), NfsArgOp::SaveFh, put_handle(&parent), link, attributes()];
        self.send(&request).await.map(drop)
    }

    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        // Neither leads to what it led to. The file stays delegated, which nobody makes use of here.
        for path in [from, to] {
            self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
            self.pages().remove(path);
            self.delegations().remove(path);
        }
        let (from, old) = from.rsplit_once('/').context("a path from the root")?;
        let (to, new) = to.rsplit_once('/').context("a path from the root")?;
        let (from, to) = (self.handle(from).await?, self.handle(to).await?);
        let request = [put_handle(&from), NfsArgOp::SaveFh, put_handle(&to), rename(old, new), attributes()];
        self.send(&request).await.map(drop)
    }

    pub async fn set_mode(&self, path: &str, mode: u32) -> Result<()> {
        let handle = self.handle(path).await?;
        let mode = AttributeValues { mode: Some(mode), ..AttributeValues::default() };
        self.send(&[put_handle(&handle), set_attributes(StateId::ANONYMOUS, &mode), attributes()])
            .await
            .map(drop)
    }
}
