//! What a foreign client has to do (`../README.md`), by the crate `nfs-rs`, over NFSv4.0, 4.1 and 4.2.
//!
//! ```text
//! nfs-rs-client PORT VERSION put LOCAL REMOTE       a tree in
//! nfs-rs-client PORT VERSION get REMOTE LOCAL       a tree out
//! nfs-rs-client PORT VERSION change SCRIPT REMOTE   what the script says
//! nfs-rs-client PORT VERSION clear REMOTE           everything in the folder, and the folder
//! nfs-rs-client PORT VERSION more REMOTE            what trees do not need, in a new folder
//! ```
//!
//! REMOTE is a folder of the volume `home`, `/NAME`.

mod more;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use nfs_rs::{Attr, Mount, NfsError, OPEN_BOTH, OPEN_READ, write_all};

type Result<T> = std::result::Result<T, Failure>;

/// An error, and what failed with it.
struct Failure {
    what: String,
    /// Of the server.
    status: Option<String>,
}

impl From<String> for Failure {
    fn from(what: String) -> Failure {
        Failure { what, status: None }
    }
}

/// Says what failed, and where.
trait During<T> {
    fn during(self, what: &str, path: &str) -> Result<T>;
}

impl<T> During<T> for std::result::Result<T, NfsError> {
    fn during(self, what: &str, path: &str) -> Result<T> {
        self.map_err(|error| Failure {
            what: format!("{what} {path}: {error}"),
            status: match &error {
                NfsError::Nfs4(code) => Some(format!("{code:?}")),
                _ => None,
            },
        })
    }
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, what: &str, path: &str) -> Result<T> {
        self.map_err(|error| format!("{what} {path} here: {error}").into())
    }
}

struct Client {
    mount: Box<dyn Mount>,
}

impl Client {
    // By handles: a whole path is one compound for this crate, of 16 operations at most, and some paths are longer.

    fn put<'a>(&'a self, local: &'a str, folder: Bytes) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for entry in fs::read_dir(local).during("list", local)? {
                let entry = entry.during("list", local)?;
                let name =
                    entry.file_name().into_string().map_err(|name| format!("{name:?} is not UTF-8"))?;
                let from = format!("{local}/{name}");
                let status = fs::symlink_metadata(&from).during("stat", &from)?;
                let mode = status.mode() & 0o7777;
                let (mount, here) = (&*self.mount, folder.clone());
                if status.is_dir() {
                    let made = mount.mkdir(here, &name, 0o700).await.during("mkdir", &from)?;
                    self.put(&from, made.fh.clone()).await?;
                    let set = mount.setattr(made.fh, None, Some(mode), None, None, None, None, None);
                    set.await.during("chmod", &from)?;
                } else if status.is_symlink() {
                    let target = fs::read_link(&from).during("read", &from)?;
                    mount.symlink(&target.to_string_lossy(), here, &name).await.during("symlink", &from)?;
                } else {
                    let data = Bytes::from(fs::read(&from).during("read", &from)?);
                    let file = mount.create(here, &name, Some(mode)).await.during("create", &from)?;
                    write_all(mount, file.fh.clone(), 0, data).await.during("write", &from)?;
                    mount.close(file.fh).await.during("close", &from)?;
                }
            }
            Ok(())
        })
    }

    fn get<'a>(&'a self, folder: Bytes, local: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            fs::create_dir(local).during("mkdir", local)?;
            for (name, handle, attr) in self.list(folder.clone(), local).await? {
                let to = format!("{local}/{name}");
                let mode = fs::Permissions::from_mode(attr.file_mode & 0o7777);
                match attr.type_ {
                    1 => {
                        let data = self.read(folder.clone(), &name, attr.filesize).await?;
                        fs::write(&to, data).during("write", &to)?;
                        fs::set_permissions(&to, mode).during("chmod", &to)?;
                    }
                    2 => {
                        self.get(handle, &to).await?;
                        fs::set_permissions(&to, mode).during("chmod", &to)?;
                    }
                    5 => {
                        let target = self.mount.readlink(handle).await.during("readlink", &to)?;
                        symlink(target, &to).during("symlink", &to)?;
                    }
                    other => return Err(format!("{to} is of type {other}").into()),
                }
            }
            Ok(())
        })
    }

    fn clear(&self, folder: Bytes) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            for (name, handle, attr) in self.list(folder.clone(), "").await? {
                if attr.type_ == 2 {
                    self.clear(handle).await?;
                    self.mount.rmdir(folder.clone(), &name).await.during("rmdir", &name)?;
                } else {
                    self.mount.remove(folder.clone(), &name).await.during("remove", &name)?;
                }
            }
            Ok(())
        })
    }

    async fn list(&self, folder: Bytes, path: &str) -> Result<Vec<(String, Bytes, Attr)>> {
        let mut entries = self.mount.readdirplus(folder).await;
        let mut found = Vec::new();
        while let Some(entry) = entries.next().await {
            let entry = entry.during("list", path)?;
            let attr =
                entry.attr.ok_or_else(|| format!("{path}/{}: listed without attributes", entry.file_name))?;
            found.push((entry.file_name, entry.handle, attr));
        }
        Ok(found)
    }

    async fn read(&self, folder: Bytes, name: &str, size: u64) -> Result<Vec<u8>> {
        let file = self.mount.open(folder, name, OPEN_READ).await.during("open", name)?;
        let mut data = Vec::new();
        loop {
            let piece =
                self.mount.read(file.fh.clone(), data.len() as u64, 1 << 20).await.during("read", name)?;
            if piece.is_empty() {
                break;
            }
            data.extend_from_slice(&piece);
        }
        self.mount.close(file.fh).await.during("close", name)?;
        if data.len() as u64 != size {
            return Err(format!("{name}: listed with {size} bytes, read {}", data.len()).into());
        }
        Ok(data)
    }

    async fn chmod(&self, path: &str, mode: u32) -> std::result::Result<(), NfsError> {
        self.mount.setattr_path(path, false, Some(mode), None, None, None, None, None).await
    }

    /// One line of the script.
    async fn operation(&self, remote: &str, words: &[&str]) -> Result<()> {
        let path = |name: &str| format!("{remote}/{name}");
        let (what, last) = (words[0], path(words[words.len() - 1]));
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
        let mode = |text: &str| u32::from_str_radix(text, 8).map_err(|error| format!("{text}: {error}"));
        match words {
            ["mkdir", bits, _] => self.mount.mkdir_path(&last, mode(bits)?).await.map(drop),
            ["rename", from, _] => self.mount.rename_path(&path(from), &last).await,
            ["remove", _] => self.mount.remove_path(&last).await,
            ["rmdir", _] => self.mount.rmdir_path(&last).await,
            ["truncate", size, _] => {
                self.mount.setattr_path(&last, false, None, None, None, Some(number(size)?), None, None).await
            }
            ["write", offset, text, _] => {
                let file = self.mount.open_path(&last, OPEN_BOTH).await.during("open", &last)?;
                let data = Bytes::copy_from_slice(text.as_bytes());
                write_all(&*self.mount, file.fh.clone(), number(offset)?, data).await.during(what, &last)?;
                self.mount.close(file.fh).await
            }
            ["chmod", bits, _] => self.chmod(&last, mode(bits)?).await,
            ["symlink", target, _] => self.mount.symlink_path(target, &last).await.map(drop),
            ["link", from, _] => self.mount.link_path(&path(from), &last).await.map(drop),
            _ => return Err(format!("no such operation: {words:?}").into()),
        }
        .during(what, &last)
    }

    async fn change(&self, script: &str, remote: &str) -> Result<()> {
        for line in fs::read_to_string(script).during("read", script)?.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            match &words[..] {
                [first, ..] if first.is_empty() || first.starts_with('#') => {}
                ["fails", error, rest @ ..] => match self.operation(remote, rest).await {
                    Ok(()) => return Err(format!("{line}: did not fail").into()),
                    // ENOENT is NFS4ERR_NOENT.
                    Err(Failure { status: Some(status), .. })
                        if status == format!("NFS4ERR_{}", &error[1..]) => {}
                    Err(other) => return Err(format!("{line}: {}", other.what).into()),
                },
                words => self.operation(remote, words).await?,
            }
        }
        Ok(())
    }
}

async fn run(arguments: &[&str]) -> Result<()> {
    let [port, version, command @ ..] = arguments else {
        return Err("usage: nfs-rs-client PORT VERSION put|get|change|clear|more ...".to_owned().into());
    };
    let url = format!("nfs://127.0.0.1/home?version={version}&nfsport={port}&noresvport=true");
    let client = Client { mount: nfs_rs::parse_url_and_mount(&url).await.during("mount", &url)? };
    match command {
        ["put", local, remote] => {
            let made = client.mount.mkdir_path(remote, 0o755).await.during("mkdir", remote)?;
            client.put(local, made.fh).await?;
        }
        ["get", remote, local] => {
            let folder = client.mount.lookup_path(remote).await.during("look up", remote)?;
            client.get(folder.fh, local).await?;
        }
        ["change", script, remote] => client.change(script, remote).await?,
        ["clear", remote] => {
            let folder = client.mount.lookup_path(remote).await.during("look up", remote)?;
            client.clear(folder.fh).await?;
            client.mount.rmdir_path(remote).await.during("rmdir", remote)?;
        }
        ["more", remote] => {
            let (first, second) =
                (&*client.mount, nfs_rs::parse_url_and_mount(&url).await.during("mount", &url)?);
            first.mkdir_path(remote, 0o755).await.during("mkdir", remote)?;
            more::locks(first, &*second, &format!("{remote}/locked")).await?;
            more::removed_while_open(first, &*second, &format!("{remote}/removed")).await?;
            if *version == "4.2" {
                more::of_4_2(first, &format!("{remote}/sparse")).await?;
            }
            second.umount().await.during("unmount", &url)?;
        }
        _ => return Err(format!("no such command: {command:?}").into()),
    }
    client.mount.umount().await.during("unmount", &url)
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.what);
            std::process::ExitCode::FAILURE
        }
    }
}
