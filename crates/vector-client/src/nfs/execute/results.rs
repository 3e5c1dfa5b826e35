//! What came of a step.

use nfs4::{CopyRes, NfsArgOp, NfsResOp, NfsStatus, OpCode, Outcome, StableHow, Verifier};
use nfs4_client::ClientError;
use nfs4_client::operations::commit;

use super::{Run, walk};
use crate::nfs::open_files::OpenFile;
use crate::nfs::plan::{Piece, Plan, Work, access_bits, open_owner, place};
use crate::nfs::{Nfs, attributes};
use crate::step::{Data, Done, Step, TO_END, further};
use crate::{AttributeSet, Error, Kind, Target};

impl Nfs {
    /// The result of a step that was done, from those of its compound; what is left of it if that was only a part.
    pub(in crate::nfs) async fn take(
        &self,
        run: &mut Run,
        index: usize,
        mut work: Work,
        plan: &Plan,
        piece: &Piece,
        results: &[NfsResOp],
    ) -> Result<Option<Work>, Error> {
        let own = piece.operations.start..piece.operations.end.min(results.len());
        let (operations, key, results) = (&plan.operations[own.clone()], &results[piece.key], &results[own]);
        let done = match (&mut work.step, key) {
            (Step::Open(open), NfsResOp::GetFh(Outcome::Ok(handle))) => {
                let opened = results.iter().find_map(|result| match result {
                    NfsResOp::Open(Outcome::Ok(opened)) => Some(opened),
                    _ => None,
                });
                let (Some(opened), Some(descriptor)) = (opened, piece.descriptor) else {
                    return Err(Error::Unsupported("an OPEN without a result"));
                };
                let share = (access_bits(open.read, open.write), nfs4::bits::share_deny::NONE);
                let state = self.client.adopt(handle.clone(), share, open_owner(descriptor), opened);
                self.promises.opened(&state, run.doubts);
                self.files.insert(descriptor, OpenFile::new(state, open.target.clone()));
                Done::Opened(descriptor)
            }
            (Step::Close(descriptor), _) => {
                let file = self.files.remove(*descriptor);
                if let Some(file) = file {
                    self.client.closed(&file.open);
                    self.promises.closing(&file.open);
                    let is_back = |result: &NfsResOp| matches!(result, NfsResOp::DelegReturn(NfsStatus::Ok));
                    if results.iter().any(is_back) {
                        self.client.returned(&file.open);
                    } else if file.open.read_delegation().is_some() {
                        self.promises.give_back(&file.open).await;
                    }
                    for result in results {
                        if let NfsResOp::Commit(Outcome::Ok(verifier)) = result {
                            file.committed(*verifier, piece.writes)?;
                        }
                    }
                }
                Done::Nothing
            }
            (Step::Commit(descriptor), NfsResOp::Commit(Outcome::Ok(verifier))) => {
                self.files.get(*descriptor)?.committed(*verifier, piece.writes)?;
                Done::Nothing
            }
            (Step::Read(read), NfsResOp::GetAttr(_)) => {
                let Some(kept) = work.kept.take() else { return Ok(Some(work)) };
                self.seen_again(&read.target, &kept.handle, run.walk);
                Done::Read(kept.data.clone())
            }
            (Step::Read(read), NfsResOp::Read(Outcome::Ok(got))) => {
                work.kept = None;
                let data = got.data.clone().into_bytes();
                let (length, end_of_file) = (data.len() as u64, got.eof);
                // What follows would be taken for what is elsewhere.
                if length > read.length || (length == 0 && read.length > 0 && !end_of_file) {
                    return Err(no_progress(OpCode::Read));
                }
                let pieces = if data.is_empty() { Vec::new() } else { vec![data] };
                run.finish(index, Done::Read(Data { pieces, end_of_file }));
                if end_of_file || length >= read.length {
                    return Ok(None);
                }
                (read.offset, read.length) = (read.offset + length, read.length - length);
                return Ok(Some(work));
            }
            (Step::Write(write), NfsResOp::Write(Outcome::Ok(_))) => {
                let (mut count, mut asked) = (0, 0);
                let writes = operations.iter().zip(results).filter_map(|pair| match pair {
                    (NfsArgOp::Write(write), NfsResOp::Write(Outcome::Ok(wrote))) => {
                        Some((write.data.len(), wrote))
                    }
                    _ => None,
                });
                for (length, wrote) in writes {
                    // Behind one that was done in part there is a gap.
                    if count == asked {
                        count += (wrote.count as usize).min(length);
                    }
                    asked += length;
                    if let Some(descriptor) = write.target.descriptor() {
                        self.files.get(descriptor)?.wrote(wrote.committed, wrote.verifier);
                    }
                }
                run.finish(index, Done::Written(count as u64));
                if count == write.data.len() {
                    return Ok(None);
                }
                if count == 0 {
                    return Err(no_progress(OpCode::Write));
                }
                let _ = write.data.split_to(count);
                if let Some(size) = work.size.take() {
                    write.offset = size;
                }
                write.offset = further(write.offset, count);
                (write.create, write.truncate) = (None, false);
                return Ok(Some(work));
            }
            (Step::Write(_), _) => Done::Written(0),
            (Step::GetAttributes { wanted, follow, .. }, NfsResOp::GetAttr(Outcome::Ok(got))) => {
                let asked = wanted.with(if *follow { AttributeSet::KIND } else { AttributeSet::NONE });
                let mut got = attributes::received(got.values().map_err(ClientError::from)?, asked);
                if *follow && got.is(Kind::SymbolicLink) {
                    self.follow(&mut work).await?;
                    return Ok(Some(work));
                }
                if !wanted.contains(AttributeSet::KIND) {
                    got.kind = None;
                }
                Done::Attributes(Box::new(got))
            }
            (Step::Copy(copy), NfsResOp::GetAttr(Outcome::Ok(size))) => {
                let size = size.values().map_err(ClientError::from)?.size.unwrap_or(u64::MAX);
                let response = results.iter().find_map(|result| match result {
                    NfsResOp::Copy(CopyRes::Ok(copied)) => Some(&copied.response),
                    _ => None,
                });
                let copied = response.map_or(0, |response| response.count);
                match (response, copy.destination.descriptor()) {
                    (Some(response), Some(descriptor)) => {
                        self.files.get(descriptor)?.wrote(response.committed, response.verifier);
                    }
                    (Some(response), None) if response.committed == StableHow::Unstable => {
                        self.make_safe(&copy.destination, response.verifier).await?;
                    }
                    _ => {}
                }
                run.finish(index, Done::Copied(copied));
                let there = size.saturating_sub(copy.source_offset);
                let all = if copy.length == TO_END { there } else { copy.length };
                // Nothing is left to copy of a file that is cut meanwhile, by this very step perhaps: it may copy a file to itself.
                if copied >= all || copied == 0 {
                    return Ok(None);
                }
                copy.source_offset += copied;
                copy.destination_offset += copied;
                copy.length = if copy.length == TO_END { TO_END } else { copy.length - copied };
                (copy.create, copy.truncate) = (None, false);
                return Ok(Some(work));
            }
            (Step::ReadLink(_), NfsResOp::ReadLink(Outcome::Ok(text))) => Done::Link(text.0.clone()),
            _ => Done::Nothing,
        };
        run.finish(index, done);
        Ok(None)
    }

    /// COMMIT of a file that was closed again after somebody wrote unsafely to it.
    async fn make_safe(&self, target: &Target, written: Verifier) -> Result<(), Error> {
        let mut operations = walk(&place(target, &self.root, &self.files)?);
        operations.push(commit(0, 0));
        let mut reply = self.compound(&operations).await?;
        match reply.results.pop() {
            Some(NfsResOp::Commit(Outcome::Ok(verifier))) if verifier == written => Ok(()),
            Some(NfsResOp::Commit(Outcome::Ok(_))) => Err(Error::DataLost(target.clone())),
            _ => Err(Error::Refused { target: target.clone(), status: reply.status }),
        }
    }
}

/// The server says that it has done something, but nothing was done.
fn no_progress(expected: OpCode) -> Error {
    ClientError::UnexpectedResult { expected }.into()
}
