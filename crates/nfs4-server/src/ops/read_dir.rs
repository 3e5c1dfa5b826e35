//! READDIR (RFC 8881 §18.23).

use std::collections::HashMap;

use file_system::{CommitMode, FileId, Mode, Transaction};
use nfs4::{Attribute, AttributeValues, Bitmap, NfsStatus, ReadDirArgs, ReadDirWriter, Verifier};
use xdr::Encoder;

use crate::attributes::{
    Describer, check_readable, of_absent, of_file, of_mount_point, supported, wants_space,
};
use crate::caller::Requester;
use crate::compound::Compound;
use crate::exports::Export;
use crate::failure::Failure;
use crate::file_handle::Handle;
use crate::shared::Shared;

/// Operation number and status, which come before what `max_count` counts.
const HEAD: usize = 8;

/// Cookies of a volume never lose their meaning.
const VOLUME_VERIFIER: Verifier = Verifier([0; 8]);

/// Cookies below are not given out (§18.23.3); those of the pseudo root start here.
const FIRST_COOKIE: u64 = 3;

/// Most entries that a volume is asked for at a time.
const CHUNK: usize = 256;

/// Writes the whole result with [`ReadDirWriter`], at most `max_count` bytes and at most what [`Compound::room`]
/// leaves. Not even one entry fits: `NFS4ERR_TOOSMALL`.
pub(super) async fn run(cx: &mut Compound<'_>, args: &ReadDirArgs, out: &mut Encoder) -> Result<(), Failure> {
    check_readable(args.request)?;
    let room = cx.room().saturating_sub(HEAD);
    let wanted = args.max_count as usize;
    let written = match cx.current()? {
        Handle::PseudoRoot => pseudo_root(cx, args, wanted.min(room), out).await?,
        Handle::File(directory) => volume(cx, directory, args, wanted.min(room), out).await?,
    };
    match written {
        true => Ok(()),
        // A larger `max_count` would not help.
        false if room < wanted => Err(cx.reply_too_big().into()),
        false => Err(NfsStatus::TooSmall.into()),
    }
}

async fn volume(
    cx: &mut Compound<'_>,
    directory: FileId,
    args: &ReadDirArgs,
    limit: usize,
    out: &mut Encoder,
) -> Result<bool, Failure> {
    check_cookie(args, VOLUME_VERIFIER)?;
    let (server, export, minor_version) = (cx.server, cx.export(directory.volume)?, cx.minor_version);
    let sizes = cx.sizes_by_holders();
    let transaction = cx.transaction(directory.volume).await?;
    let space = if wants_space(args.request) { Some(transaction.space().await?) } else { None };
    let describer = Describer::new(server, &export, transaction.root(), args.request, space);
    let mut describer = describer.in_minor_version(minor_version);
    list(transaction, directory, args, limit, &mut describer, &sizes, out).await
}

/// Whether anything was written: at least one entry, or that there is none.
async fn list(
    transaction: &mut dyn Transaction,
    directory: FileId,
    args: &ReadDirArgs,
    limit: usize,
    describer: &mut Describer<'_>,
    sizes: &HashMap<FileId, u64>,
    out: &mut Encoder,
) -> Result<bool, Failure> {
    let Some(mut page) = Page::begin(out, VOLUME_VERIFIER, limit, args) else { return Ok(false) };
    let mut cookie = args.cookie;
    loop {
        let mut part = transaction.read_directory(directory, cookie, page.expected_entries()).await?;
        let named = describer.named_in(part.entries.iter().map(|entry| &entry.attributes));
        describer.find_names(named).await;
        for entry in &mut part.entries {
            if let Some(size) = sizes.get(&entry.attributes.file) {
                entry.attributes.size = *size;
            }
            let values = describer.describe(&entry.attributes);
            if !page.push(entry.cookie, entry.name.as_bytes(), values) {
                return Ok(page.finish(false));
            }
            cookie = entry.cookie;
        }
        if part.end || part.entries.is_empty() {
            return Ok(page.finish(true));
        }
    }
}

/// The volumes, with the attributes of their root directories.
async fn pseudo_root(
    cx: &mut Compound<'_>,
    args: &ReadDirArgs,
    limit: usize,
    out: &mut Encoder,
) -> Result<bool, Failure> {
    let verifier = Verifier(cx.exports().change().to_be_bytes());
    check_cookie(args, verifier)?;
    let (server, exports, requester) = (cx.server, cx.exports().as_slice(), &cx.requester);
    let first = match args.cookie {
        0 => 0,
        cookie => usize::try_from(cookie - FIRST_COOKIE + 1).unwrap_or(usize::MAX),
    };
    let rest = exports.get(first..).ok_or(NfsStatus::BadCookie)?;
    let Some(mut page) = Page::begin(out, verifier, limit, args) else { return Ok(false) };
    for (cookie, export) in (FIRST_COOKIE + first as u64..).zip(rest) {
        let values = match root_directory(server, export, requester, args.request).await {
            Ok(values) if export.is_elsewhere() => values,
            Ok(values) => AttributeValues {
                supported_attrs: Some(supported(cx.minor_version, export.options.acls)),
                ..values
            },
            // One volume that is not there must not hide the others.
            Err(status) if args.request.contains(Attribute::RdattrError) => of_mount_point(export, status),
            Err(status) => return Err(status.into()),
        };
        if !page.push(cookie, export.name.as_bytes(), &values) {
            return Ok(page.finish(false));
        }
    }
    Ok(page.finish(true))
}

/// Attributes of a volume's root directory, in a transaction of its own: that of the compound can have only one
/// volume.
async fn root_directory(
    server: &Shared,
    export: &Export,
    requester: &Requester,
    request: Bitmap,
) -> Result<AttributeValues, NfsStatus> {
    if !export.options.security.admits(requester.shown) {
        return Err(NfsStatus::WrongSec);
    }
    if export.is_elsewhere() {
        return of_absent(export, request).ok_or(NfsStatus::Moved);
    }
    let caller = export.caller(requester.caller.as_ref());
    let read = async {
        let mut transaction = export.file_system.begin(&caller, Mode::Optimistic).await?;
        let root = transaction.root();
        let values = of_file(server, export, &mut *transaction, root, request).await?;
        transaction.commit(CommitMode::Durable).await?;
        Ok(values)
    };
    match read.await {
        Ok(values) => Ok(values),
        Err(Failure::Status(status)) => Err(status),
        Err(_) => Err(NfsStatus::Delay),
    }
}

/// Cookies are the server's own, and belong to `verifier`.
fn check_cookie(args: &ReadDirArgs, verifier: Verifier) -> Result<(), NfsStatus> {
    match args.cookie {
        0 => Ok(()),
        1..FIRST_COOKIE => Err(NfsStatus::BadCookie),
        _ if args.cookie_verifier != verifier => Err(NfsStatus::NotSame),
        _ => Ok(()),
    }
}

/// The result under construction.
struct Page<'a> {
    writer: ReadDirWriter<'a>,
    request: Bitmap,
    /// What entries are expected to take, and what is left by that measure.
    entry_bytes: usize,
    expected: usize,
    /// What is left of `dir_count`: bytes of names and cookies.
    names: usize,
}

impl<'a> Page<'a> {
    fn begin(out: &'a mut Encoder, verifier: Verifier, limit: usize, args: &ReadDirArgs) -> Option<Page<'a>> {
        let writer = ReadDirWriter::begin(out, verifier, limit)?;
        let handle = if args.request.contains(Attribute::Filehandle) { 64 } else { 0 };
        Some(Page {
            writer,
            request: args.request,
            entry_bytes: 48 + 8 * args.request.len() as usize + handle,
            expected: limit,
            names: if args.dir_count == 0 { usize::MAX } else { args.dir_count as usize },
        })
    }

    /// About as many as will fit.
    fn expected_entries(&self) -> usize {
        (self.expected / self.entry_bytes).clamp(1, CHUNK)
    }

    /// `false`, and nothing written, if it does not fit. `dir_count` is a hint: at least one entry goes out.
    fn push(&mut self, cookie: u64, name: &[u8], values: &AttributeValues) -> bool {
        let name_bytes = 8 + 4 + name.len().next_multiple_of(4);
        if name_bytes > self.names && self.writer.entries() > 0 {
            return false;
        }
        if !self.writer.push(cookie, name, values, self.request) {
            return false;
        }
        self.names = self.names.saturating_sub(name_bytes);
        self.expected = self.expected.saturating_sub(self.entry_bytes);
        true
    }

    /// Whether there is anything to send.
    fn finish(self, end: bool) -> bool {
        if self.writer.entries() == 0 && !end {
            self.writer.abandon();
            return false;
        }
        self.writer.finish(end);
        true
    }
}

#[cfg(test)]
mod tests;
