//! The operations, one file each: `run` gets the compound and the arguments, and returns the result or why there
//! is none.

mod access;
mod allocate;
mod clone;
pub(crate) mod close;
mod commit;
pub(crate) mod copy;
mod create;
mod delegation;
mod exchange_id;
mod file_handle;
mod get_attr;
mod io_advise;
mod link;
pub(crate) mod lock;
mod lookup;
mod offload;
pub(crate) mod open;
mod read;
mod read_dir;
mod read_link;
mod read_plus;
mod remove;
mod rename;
mod sec_info;
mod seek;
mod session;
mod set_attr;
mod sparse;
mod state_id;
mod verify;
mod write;
mod xattr;

use file_system::{FileKind, Name};
use nfs4::{Component, CopyRes, NfsArgOp, NfsResOp, NfsStatus, OpCode, Outcome, SetAttrRes};
use xdr::{Encode, Encoder};

use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;
use crate::text::is_text;

/// Runs one operation and writes its result, operation number included, to `out`. Returns the status written:
/// `NFS4_OK`, or an error that carries details. On failure nothing that was written counts.
pub(crate) async fn execute(
    compound: &mut Compound<'_>,
    argument: NfsArgOp,
    out: &mut Encoder,
) -> Result<NfsStatus, Failure> {
    let cx = compound;
    let result = match argument {
        NfsArgOp::Access(args) => NfsResOp::Access(Outcome::Ok(access::run(cx, &args).await?)),
        NfsArgOp::Allocate(args) => {
            allocate::allocate(cx, &args).await?;
            NfsResOp::Allocate(NfsStatus::Ok)
        }
        NfsArgOp::BackchannelCtl(args) => {
            session::backchannel_ctl(cx, &args)?;
            NfsResOp::BackchannelCtl(NfsStatus::Ok)
        }
        NfsArgOp::BindConnToSession(args) => {
            NfsResOp::BindConnToSession(Outcome::Ok(session::bind_connection(cx, &args)?))
        }
        NfsArgOp::Clone(args) => {
            clone::run(cx, &args).await?;
            NfsResOp::Clone(NfsStatus::Ok)
        }
        NfsArgOp::Close(args) => NfsResOp::Close(Outcome::Ok(close::run(cx, &args)?)),
        NfsArgOp::Commit(args) => NfsResOp::Commit(Outcome::Ok(commit::run(cx, &args).await?)),
        NfsArgOp::Copy(args) => NfsResOp::Copy(CopyRes::Ok(copy::run(cx, &args).await?)),
        NfsArgOp::Create(args) => NfsResOp::Create(Outcome::Ok(create::run(cx, &args).await?)),
        NfsArgOp::CreateSession(args) => NfsResOp::CreateSession(Outcome::Ok(session::create(cx, &args)?)),
        NfsArgOp::Deallocate(args) => {
            allocate::deallocate(cx, &args).await?;
            NfsResOp::Deallocate(NfsStatus::Ok)
        }
        NfsArgOp::DelegReturn(args) => {
            delegation::give_back(cx, &args)?;
            NfsResOp::DelegReturn(NfsStatus::Ok)
        }
        NfsArgOp::DestroyClientId(args) => {
            session::destroy_client(cx, &args).await?;
            NfsResOp::DestroyClientId(NfsStatus::Ok)
        }
        NfsArgOp::DestroySession(args) => {
            session::destroy(cx, &args)?;
            NfsResOp::DestroySession(NfsStatus::Ok)
        }
        NfsArgOp::ExchangeId(args) => NfsResOp::ExchangeId(Outcome::Ok(exchange_id::run(cx, &args)?)),
        NfsArgOp::FreeStateId(args) => {
            state_id::free(cx, &args)?;
            NfsResOp::FreeStateId(NfsStatus::Ok)
        }
        NfsArgOp::GetAttr(args) => {
            let values = get_attr::run(cx, &args).await?;
            OpCode::GetAttr.encode(out);
            NfsStatus::Ok.encode(out);
            values.encode_selected(args.request, out);
            return Ok(NfsStatus::Ok);
        }
        NfsArgOp::GetFh => NfsResOp::GetFh(Outcome::Ok(file_handle::get(cx)?)),
        NfsArgOp::GetXattr(args) => NfsResOp::GetXattr(Outcome::Ok(xattr::get(cx, &args).await?)),
        NfsArgOp::IoAdvise(args) => NfsResOp::IoAdvise(Outcome::Ok(io_advise::run(cx, &args).await?)),
        NfsArgOp::Link(args) => NfsResOp::Link(Outcome::Ok(link::run(cx, &args).await?)),
        NfsArgOp::ListXattrs(args) => NfsResOp::ListXattrs(Outcome::Ok(xattr::list(cx, &args).await?)),
        NfsArgOp::Lock(args) => NfsResOp::Lock(lock::lock(cx, &args).await?),
        NfsArgOp::LockTest(args) => NfsResOp::LockTest(lock::test(cx, &args).await?),
        NfsArgOp::Lookup(args) => {
            lookup::child(cx, &args).await?;
            NfsResOp::Lookup(NfsStatus::Ok)
        }
        NfsArgOp::LookupParent => {
            lookup::parent(cx).await?;
            NfsResOp::LookupParent(NfsStatus::Ok)
        }
        NfsArgOp::Nverify(args) => match verify::same(cx, &args).await? {
            true => return Err(NfsStatus::Same.into()),
            false => NfsResOp::Nverify(NfsStatus::Ok),
        },
        NfsArgOp::OffloadCancel(args) => {
            offload::cancel(cx, &args).await?;
            NfsResOp::OffloadCancel(NfsStatus::Ok)
        }
        NfsArgOp::OffloadStatus(args) => NfsResOp::OffloadStatus(Outcome::Ok(offload::status(cx, &args)?)),
        NfsArgOp::Open(args) => NfsResOp::Open(Outcome::Ok(open::run(cx, &args).await?)),
        NfsArgOp::OpenDowngrade(args) => NfsResOp::OpenDowngrade(Outcome::Ok(close::downgrade(cx, &args)?)),
        NfsArgOp::PutFh(args) => {
            file_handle::put(cx, &args)?;
            NfsResOp::PutFh(NfsStatus::Ok)
        }
        NfsArgOp::PutPubFh => {
            file_handle::put_root(cx);
            NfsResOp::PutPubFh(NfsStatus::Ok)
        }
        NfsArgOp::PutRootFh => {
            file_handle::put_root(cx);
            NfsResOp::PutRootFh(NfsStatus::Ok)
        }
        NfsArgOp::Read(args) => NfsResOp::Read(Outcome::Ok(read::run(cx, &args).await?)),
        NfsArgOp::ReadDir(args) => {
            read_dir::run(cx, &args, out).await?;
            return Ok(NfsStatus::Ok);
        }
        NfsArgOp::ReadLink => NfsResOp::ReadLink(Outcome::Ok(read_link::run(cx).await?)),
        NfsArgOp::ReadPlus(args) => NfsResOp::ReadPlus(Outcome::Ok(read_plus::run(cx, &args).await?)),
        NfsArgOp::ReclaimComplete(args) => {
            session::reclaim_complete(cx, &args)?;
            NfsResOp::ReclaimComplete(NfsStatus::Ok)
        }
        NfsArgOp::Remove(args) => NfsResOp::Remove(Outcome::Ok(remove::run(cx, &args).await?)),
        NfsArgOp::RemoveXattr(args) => NfsResOp::RemoveXattr(Outcome::Ok(xattr::remove(cx, &args).await?)),
        NfsArgOp::Rename(args) => NfsResOp::Rename(Outcome::Ok(rename::run(cx, &args).await?)),
        NfsArgOp::RestoreFh => {
            cx.restore()?;
            NfsResOp::RestoreFh(NfsStatus::Ok)
        }
        NfsArgOp::SaveFh => {
            cx.save()?;
            NfsResOp::SaveFh(NfsStatus::Ok)
        }
        NfsArgOp::SecInfo(args) => NfsResOp::SecInfo(Outcome::Ok(sec_info::of_name(cx, &args).await?)),
        NfsArgOp::SecInfoNoName(style) => {
            NfsResOp::SecInfoNoName(Outcome::Ok(sec_info::without_name(cx, style).await?))
        }
        NfsArgOp::Seek(args) => NfsResOp::Seek(Outcome::Ok(seek::run(cx, &args).await?)),
        NfsArgOp::SetXattr(args) => NfsResOp::SetXattr(Outcome::Ok(xattr::set(cx, &args).await?)),
        NfsArgOp::SetAttr(args) => NfsResOp::SetAttr(SetAttrRes {
            status: NfsStatus::Ok,
            attributes_set: set_attr::run(cx, &args).await?,
        }),
        NfsArgOp::TestStateId(args) => NfsResOp::TestStateId(Outcome::Ok(state_id::test(cx, &args)?)),
        NfsArgOp::Unlock(args) => NfsResOp::Unlock(Outcome::Ok(lock::unlock(cx, &args)?)),
        NfsArgOp::Verify(args) => match verify::same(cx, &args).await? {
            true => NfsResOp::Verify(NfsStatus::Ok),
            false => return Err(NfsStatus::NotSame.into()),
        },
        NfsArgOp::WantDelegation(args) => {
            NfsResOp::WantDelegation(Outcome::Ok(delegation::want(cx, &args).await?))
        }
        NfsArgOp::Write(args) => NfsResOp::Write(Outcome::Ok(write::run(cx, args).await?)),
        NfsArgOp::Illegal => return Err(NfsStatus::OpIllegal.into()),
        // SEQUENCE is never inside; the others are optional, or of 4.0 (RFC 8881 §17, RFC 7862 §13).
        _ => return Err(NfsStatus::NotSupp.into()),
    };
    result.encode(out);
    Ok(result.status())
}

/// What is said when a regular file was needed (RFC 8881 §18.16.4, §18.22.3).
fn wrong_kind(kind: FileKind) -> NfsStatus {
    match kind {
        FileKind::Directory => NfsStatus::IsDir,
        FileKind::Symlink => NfsStatus::Symlink,
        _ => NfsStatus::WrongType,
    }
}

/// A checked name of an entry of the current directory. The name is copied: what keeps it for long must not keep the
/// request.
fn name(cx: &Compound<'_>, component: &Component) -> Result<Name, Failure> {
    if let Handle::File(directory) = cx.current()?
        && cx.demanding_export(directory.volume)?.options.utf8
        && !is_text(component.as_ref())
    {
        return Err(NfsStatus::Inval.into());
    }
    Ok(Name::new(bytes::Bytes::copy_from_slice(component.as_ref()))?)
}
