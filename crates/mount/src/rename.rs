//! Changing names.

use std::sync::Arc;

use fuser::{Errno, RenameFlags};
use nfs4::{
    AttributeValues, Component, CreateArgs, CreateType, FileHandle, LinkArgs, NfsArgOp, NfsResOp, NfsStatus,
    Outcome, VerifyArgs,
};
use nfs4_client::operations::{lookup, put_handle, remove, rename};
use nfs4_client::{Client, ClientError};

use crate::answers::{REPEATS, change, run};
use crate::core::{Changed, Core};
use crate::errno::{Answer, errno, of_status};
use crate::inode::Inode;
use crate::names::is_open;

/// A name in a directory.
type Place<'a> = (&'a Inode, Component);

impl Core {
    /// Renames as rename(2), or to a name that nothing has (RENAME_NOREPLACE). NFS knows no exchange.
    pub async fn rename(
        self: &Arc<Core>,
        client: Client,
        (from, old_name): (u64, Component),
        (to, new_name): (u64, Component),
        flags: RenameFlags,
    ) -> Answer<()> {
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (self.table.get(from)?, self.table.get(to)?);
        let _changing = self.changing(Changed::Any);
        match flags.is_empty() {
            true => self.rename_over(&client, (&from, old_name), (&to, new_name)).await?,
            false => rename_to_new(&client, (&from, old_name), (&to, new_name)).await?,
        }
        self.touch(&from);
        self.touch(&to);
        Ok(())
    }

    async fn rename_over(self: &Arc<Core>, client: &Client, from: Place<'_>, to: Place<'_>) -> Answer<()> {
        let request = renaming(from, to);
        let mut renamed = change(client, &request, NfsStatus::NoEnt).await;
        // Some servers rename nothing that is open.
        if is_open(&renamed) && self.give_back_unused().await {
            renamed = change(client, &request, NfsStatus::NoEnt).await;
        }
        renamed.map(drop).map_err(|error| errno(&error))
    }
}

fn renaming((from, old_name): Place<'_>, (to, new_name): Place<'_>) -> [NfsArgOp; 4] {
    [put_handle(&from.handle), NfsArgOp::SaveFh, put_handle(&to.handle), rename(old_name, new_name)]
}

/// RENAME is over whatever is there (RFC 8881 §18.26), so the new name is taken before by what replaces nothing: a link to what is no
/// directory, or an empty directory for another one. Where a server makes no links it is looked before.
async fn rename_to_new(client: &Client, from: Place<'_>, to: Place<'_>) -> Answer<()> {
    const LINK: usize = 4;
    let request = [
        put_handle(&from.0.handle),
        lookup(from.1.clone()),
        NfsArgOp::SaveFh,
        put_handle(&to.0.handle),
        NfsArgOp::Link(LinkArgs { new_name: to.1.clone() }),
        put_handle(&from.0.handle),
        remove(from.1.clone()),
    ];
    match client.compound(&request).await.and_then(|reply| reply.into_results()) {
        Ok(_) => return Ok(()),
        Err(ClientError::Operation { index: LINK, status: NfsStatus::IsDir, .. }) => {
            return rename_directory_to_new(client, from, to).await;
        }
        Err(ClientError::Operation { index: LINK, status, .. })
            if !matches!(status, NfsStatus::Exist | NfsStatus::NoEnt | NfsStatus::Access) => {}
        Err(error) => return Err(errno(&error)),
    }
    match run(client, &[put_handle(&to.0.handle), lookup(to.1.clone())]).await {
        Ok(_) => return Err(Errno::EEXIST),
        Err(error) if error.code() == Errno::ENOENT.code() => {}
        Err(error) => return Err(error),
    }
    let renamed = change(client, &renaming(from, to), NfsStatus::NoEnt).await;
    renamed.map(drop).map_err(|error| errno(&error))
}

/// A directory replaces an empty one (RFC 8881 §18.26.3): that is made at the new name, which fails if anything is there, and
/// replaced in the same compound. Whoever gets in between loses an empty directory at most.
async fn rename_directory_to_new(client: &Client, from: Place<'_>, to: Place<'_>) -> Answer<()> {
    const LOOKUP: usize = 1;
    const MADE: usize = 6;
    const RENAME: usize = 8;
    let attributes = AttributeValues { mode: Some(0o700), ..AttributeValues::default() }.to_fattr();
    let create = CreateArgs { object_type: CreateType::Directory, name: to.1.clone(), attributes };
    let request = [
        put_handle(&from.0.handle),
        lookup(from.1.clone()),
        put_handle(&from.0.handle),
        NfsArgOp::SaveFh,
        put_handle(&to.0.handle),
        NfsArgOp::Create(create),
        NfsArgOp::GetFh,
        put_handle(&to.0.handle),
        rename(from.1, to.1.clone()),
    ];
    let mut repeats = 0;
    let reply = loop {
        match client.compound(&request).await {
            Err(ClientError::Unknown) if repeats < REPEATS => repeats += 1,
            reply => break reply.map_err(|error| errno(&error))?,
        }
    };
    match (reply.status, reply.results.len().saturating_sub(1)) {
        (NfsStatus::Ok, _) => Ok(()),
        // It was done before the server restarted.
        (NfsStatus::NoEnt, LOOKUP) if repeats > 0 => Ok(()),
        (status, RENAME) => {
            if let Some(NfsResOp::GetFh(Outcome::Ok(made))) = reply.results.get(MADE) {
                remove_made(client, to, made.clone()).await;
            }
            Err(if status == NfsStatus::NotEmpty { Errno::EEXIST } else { of_status(status) })
        }
        (status, _) => Err(of_status(status)),
    }
}

/// Removes the directory that was to be replaced, if it still is what has the name.
async fn remove_made(client: &Client, (directory, name): Place<'_>, made: FileHandle) {
    let own = AttributeValues { filehandle: Some(made), ..AttributeValues::default() };
    let request = [
        put_handle(&directory.handle),
        lookup(name.clone()),
        NfsArgOp::Verify(VerifyArgs { attributes: own.to_fattr() }),
        put_handle(&directory.handle),
        remove(name),
    ];
    if run(client, &request).await.is_err() {
        tracing::debug!("an empty directory is left where another one could not be renamed to");
    }
}
