//! Workloads by the Python package nfs4fs: one process, which times itself.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::contender::Limit;
use super::delay::Line;
use super::place::Place;
use super::workload::Workload;
use super::{page, report::Run};
use crate::personality::{Act, Personality};

/// The program.
const SCRIPT: &str = include_str!("foreign.py");

pub struct Foreign {
    python: PathBuf,
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
    line: Line,
    /// The folder of the server that its paths begin at.
    root: String,
}

impl Foreign {
    /// Starts it; `root` is a path from the root of the server.
    pub fn start(python: &Path, line: &Line, root: &str) -> Result<Foreign> {
        let mut child = Command::new(python)
            .args(["-c", SCRIPT, &line.address.to_string(), root.trim_start_matches('/')])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", python.display()))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("no pipes to {}", python.display());
        };
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(answers).lines().map_while(Result::ok).try_for_each(|answer| send.send(answer))
        });
        Ok(Foreign {
            python: python.into(),
            child,
            requests,
            answers: receive,
            line: line.clone(),
            root: root.into(),
        })
    }

    /// Has it connect anew.
    pub fn connect(&mut self) -> Result<()> {
        let answer = tokio::task::block_in_place(|| self.ask(&json!({ "do": "connect" }), Duration::MAX))?;
        match answer.as_ref().and_then(|answer| answer["error"].as_str()) {
            Some(error) => bail!("nfs4fs: {error}"),
            None => Ok(()),
        }
    }

    /// What it took; nothing if it has no such thing. One that is stopped ends the process, and there is a new one then.
    ///
    /// # Errors
    /// What it said, or that it is gone.
    pub fn run(
        &mut self,
        workload: Workload,
        place: &Place<'_>,
        limit: Option<Limit>,
    ) -> Result<Option<Run>> {
        let Some(request) = self.request(workload, place) else { return Ok(None) };
        let (before, start) = (self.line.requests(), Instant::now());
        let patience = limit.map_or(Duration::MAX, |limit| limit.patience);
        let answer = tokio::task::block_in_place(|| self.ask(&request, patience))?;
        let seconds = start.elapsed().as_secs_f64();
        let made = (self.line.requests() - before) as f64;
        let Some(answer) = answer else {
            *self = Foreign::start(&self.python, &self.line, &self.root)?;
            return Ok(limit.map(|limit| Run::stopped(seconds, made, limit.round_trips)));
        };
        match answer["seconds"].as_f64() {
            Some(seconds) => Ok(Some(Run::whole(seconds, made))),
            None => bail!("nfs4fs: {}", answer["error"].as_str().unwrap_or("no answer")),
        }
    }

    /// Its answer; nothing if there is none within this time.
    fn ask(&mut self, request: &Value, patience: Duration) -> Result<Option<Value>> {
        writeln!(self.requests, "{request}")
            .and_then(|()| self.requests.flush())
            .context("nfs4fs is gone")?;
        match self.answers.recv_timeout(patience) {
            Ok(answer) => Ok(Some(serde_json::from_str(&answer).context("what nfs4fs answers")?)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("nfs4fs is gone"),
        }
    }

    /// A path from its root.
    fn path(&self, path: &str) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_owned()
    }

    fn request(&self, workload: Workload, place: &Place<'_>) -> Option<Value> {
        let files = |files: usize, size: usize| -> Vec<String> {
            (0..files).map(|n| self.path(&place.file(size, n))).collect()
        };
        let original = self.path(&place.original());
        let made = self.path(&place.made(workload));
        Some(match workload {
            Workload::Write { files: count, size } => {
                let fill = char::from(place.fill()).to_string();
                json!({ "do": "write", "files": files(count, size), "size": size, "fill": fill })
            }
            Workload::Read { files: count, size } => {
                json!({ "do": "read", "files": files(count, size), "size": size })
            }
            Workload::ReadAgain { size, times } => {
                json!({ "do": "again", "path": self.path(&place.again(size)), "size": size, "times": times })
            }
            Workload::Stat { files: count } => {
                json!({ "do": "stat", "files": files(count, 1 << 10), "size": 1 << 10 })
            }
            Workload::List => {
                json!({ "do": "list", "path": original, "names": place.tree.objects().count() })
            }
            Workload::Copy => json!({ "do": "copy", "source": original, "to": made }),
            // It makes one link at a time.
            Workload::Link => return None,
            Workload::Pack => json!({ "do": "pack", "path": original, "archive": place.packed }),
            // It sets no times.
            Workload::Unpack { touch: false } => return None,
            Workload::Unpack { touch: true } => {
                json!({ "do": "unpack", "archive": place.archive, "to": made })
            }
            Workload::Remove => json!({ "do": "remove", "path": made }),
            Workload::Page => {
                json!({ "do": "page", "path": self.path(&place.page()), "size": page::bytes() })
            }
            Workload::Load(personality) => {
                let folder = self.path(&place.load(personality));
                let threads: Vec<Value> =
                    (0..personality.threads).map(|thread| rounds(personality, thread, &folder)).collect();
                json!({ "do": "load", "threads": threads, "largest": personality.largest() })
            }
        })
    }
}

fn rounds(personality: Personality, thread: usize, folder: &str) -> Value {
    let act = |act: Act| match act {
        Act::Create { name, size } => json!(["create", format!("{folder}/{name}"), size]),
        Act::Append { name, size } => json!(["append", format!("{folder}/{name}"), size]),
        Act::Delete { name } => json!(["delete", format!("{folder}/{name}")]),
        Act::Read { name } => json!(["read", format!("{folder}/{name}")]),
        Act::Stat { name } => json!(["stat", format!("{folder}/{name}")]),
    };
    let rounds = personality.rounds(thread).into_iter();
    rounds.map(|acts| acts.into_iter().map(act).collect::<Vec<Value>>()).collect::<Vec<_>>().into()
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
