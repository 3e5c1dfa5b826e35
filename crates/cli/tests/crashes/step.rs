//! What the load does, step by step: each step is one compound, which a crash leaves whole or undone.

use bytes::Bytes;
use nfs4::bits::{compound_mode, share_access};
use nfs4::{
    AttributeValues, CompoundModeArgs, CreateHow, CreateType, LinkArgs, NfsArgOp, NfsResOp, OpenHow, Outcome,
    StableHow, StateId, Verifier,
};
use nfs4_client::operations as op;

use crate::model::{File, Model, Object};
use crate::support::{Client, split};

#[derive(Clone, Debug)]
pub enum Step {
    /// OPEN, WRITE and CLOSE in one compound.
    Create {
        path: String,
        number: u32,
        data: Bytes,
    },
    CreateExclusive {
        path: String,
        number: u32,
        verifier: u64,
    },
    Write {
        path: String,
        number: u32,
        offset: u64,
        data: Bytes,
        how: StableHow,
    },
    Commit {
        path: String,
        number: u32,
    },
    Resize {
        path: String,
        number: u32,
        size: u64,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        path: String,
    },
    MakeDirectory {
        path: String,
    },
    Link {
        from: String,
        to: String,
    },
    SymbolicLink {
        path: String,
        target: String,
    },
    /// Several symbolic links in one compound.
    Several {
        folder: String,
        names: Vec<String>,
        target: String,
    },
    /// All of it or nothing, in one atomic compound.
    Together(Vec<Step>),
}

impl Step {
    /// The compound.
    pub fn request(&self, client: &Client) -> Vec<NfsArgOp> {
        let access = share_access::BOTH | share_access::WANT_NO_DELEG;
        let owner = || op::owner("load");
        match self {
            Step::Create { path, data, .. } => {
                let (folder, name) = split(path);
                let mut request = client.walk(folder);
                request.push(op::open(name, access, op::unchecked(0o644), owner()));
                request.push(op::write(StateId::CURRENT, 0, StableHow::FileSync, data.clone()));
                request.push(op::close(StateId::CURRENT));
                request
            }
            Step::CreateExclusive { path, verifier, .. } => {
                let (folder, name) = split(path);
                let mode = AttributeValues { mode: Some(0o600), ..AttributeValues::default() };
                let how = CreateHow::Exclusive41 {
                    verifier: Verifier(verifier.to_be_bytes()),
                    attributes: mode.to_fattr(),
                };
                let mut request = client.walk(folder);
                request.push(op::open(name, access, OpenHow::Create(how), owner()));
                request.push(op::close(StateId::CURRENT));
                request
            }
            Step::Write { path, offset, data, how, .. } => {
                let mut request = client.walk(path);
                request.push(op::write(StateId::ANONYMOUS, *offset, *how, data.clone()));
                request
            }
            Step::Commit { path, .. } => {
                let mut request = client.walk(path);
                request.push(op::commit(0, 0));
                request
            }
            Step::Resize { path, size, .. } => {
                let size = AttributeValues { size: Some(*size), ..AttributeValues::default() };
                let mut request = client.walk(path);
                request.push(op::set_attributes(StateId::ANONYMOUS, &size));
                request
            }
            Step::Rename { from, to } => {
                let ((from_folder, old), (to_folder, new)) = (split(from), split(to));
                let mut request = client.walk(from_folder);
                request.push(NfsArgOp::SaveFh);
                request.extend(client.walk(to_folder));
                request.push(op::rename(old, new));
                request
            }
            Step::Remove { path } => {
                let (folder, name) = split(path);
                let mut request = client.walk(folder);
                request.push(op::remove(name));
                request
            }
            Step::MakeDirectory { path } => {
                let (folder, name) = split(path);
                let mut request = client.walk(folder);
                request.push(op::create(CreateType::Directory, name, 0o755));
                request
            }
            Step::Link { from, to } => {
                let (folder, name) = split(to);
                let mut request = client.walk(from);
                request.push(NfsArgOp::SaveFh);
                request.extend(client.walk(folder));
                request.push(NfsArgOp::Link(LinkArgs { new_name: name.into() }));
                request
            }
            Step::SymbolicLink { path, target } => {
                let (folder, name) = split(path);
                let mut request = client.walk(folder);
                request.push(op::create(CreateType::SymbolicLink(target.as_str().into()), name, 0o777));
                request
            }
            Step::Several { folder, names, target } => {
                let mut request = client.walk(folder);
                request.push(NfsArgOp::SaveFh);
                for name in names {
                    let kind = CreateType::SymbolicLink(target.as_str().into());
                    request.extend([op::create(kind, name.as_str(), 0o777), NfsArgOp::RestoreFh]);
                }
                request
            }
            Step::Together(steps) => {
                let atomic = CompoundModeArgs { flags: compound_mode::ATOMIC };
                let mut request = vec![NfsArgOp::CompoundMode(atomic)];
                request.extend(steps.iter().flat_map(|step| step.request(client)));
                request
            }
        }
    }

    /// The write verifier in the answer.
    pub fn verifier(&self, results: &[NfsResOp]) -> Option<Verifier> {
        results.iter().find_map(|result| match result {
            NfsResOp::Write(Outcome::Ok(written)) => Some(written.verifier),
            NfsResOp::Commit(Outcome::Ok(verifier)) => Some(*verifier),
            _ => None,
        })
    }

    /// What the client may rely on once the step is acknowledged. `results` is what the server said, if it did.
    pub fn apply(&self, model: &mut Model, results: Option<&[NfsResOp]>) {
        let mut name = |path: &String, object| {
            assert!(model.names.insert(path.clone(), object).is_none(), "{path} is used twice");
        };
        match self {
            Step::Create { path, number, data } => {
                name(path, Object::File(*number));
                model.files.insert(*number, File::new(data.clone()));
            }
            Step::CreateExclusive { path, number, .. } => {
                name(path, Object::File(*number));
                model.files.insert(*number, File::default());
            }
            Step::Write { number, offset, data, how, .. } => {
                let committed = results.into_iter().flatten().find_map(|result| match result {
                    NfsResOp::Write(Outcome::Ok(written)) => Some(written.committed),
                    _ => None,
                });
                let stable = committed.unwrap_or(*how) != StableHow::Unstable;
                file(model, *number).write(*offset, data.clone(), stable);
            }
            Step::Commit { number, .. } => file(model, *number).commit(),
            Step::Resize { number, size, .. } => file(model, *number).resize(*size),
            Step::Rename { from, to } => model.rename(from, to),
            Step::Remove { path } => {
                model.names.remove(path);
                model.sweep();
            }
            Step::MakeDirectory { path } => name(path, Object::Directory),
            Step::Link { from, to } => {
                let object = model.names[from].clone();
                model.names.insert(to.clone(), object);
            }
            Step::SymbolicLink { path, target } => name(path, Object::Link(target.clone())),
            Step::Several { folder, names, target } => {
                for each in names {
                    name(&format!("{folder}/{each}"), Object::Link(target.clone()));
                }
            }
            Step::Together(steps) => {
                for step in steps {
                    match step {
                        // Stable whatever was asked for.
                        Step::Write { number, offset, data, .. } => {
                            file(model, *number).write(*offset, data.clone(), true);
                        }
                        step => step.apply(model, None),
                    }
                }
            }
        }
    }

    /// Names that others see only once the step is durable.
    pub fn makes(&self) -> Vec<String> {
        match self {
            Step::Create { path, .. }
            | Step::CreateExclusive { path, .. }
            | Step::MakeDirectory { path }
            | Step::SymbolicLink { path, .. }
            | Step::Rename { to: path, .. }
            | Step::Link { to: path, .. } => vec![path.clone()],
            Step::Several { folder, names, .. } => {
                names.iter().map(|name| format!("{folder}/{name}")).collect()
            }
            Step::Together(steps) => steps.iter().flat_map(Step::makes).collect(),
            _ => Vec::new(),
        }
    }
}

fn file(model: &mut Model, number: u32) -> &mut File {
    model.files.get_mut(&number).expect("a known file")
}
