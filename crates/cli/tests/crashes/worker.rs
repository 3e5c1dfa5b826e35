//! One client of the load, with its log of what was acknowledged.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use nfs4::{FileType, StableHow, Verifier};
use nfs4_client::ClientError;

use crate::model::{Model, Object, Seen, SeenObject};
use crate::step::Step;
use crate::support::{Client, Random};

/// A folder that all clients work in; names in it begin with the client's own.
pub const SHARED: &str = "shared";

/// Names of [`SHARED`] that somebody has seen in this life of the server.
pub type Observed = Arc<Mutex<HashSet<String>>>;

pub struct Worker {
    name: String,
    model: Model,
    in_flight: Option<Step>,
    random: Random,
    /// Numbers given out for names and files; names are never used again.
    numbers: u32,
    /// Verifiers of all lives of the server so far.
    verifiers: HashMap<Verifier, u64>,
    /// Steps, of all lives.
    pub acknowledged: u64,
    /// Whether it does hardly anything but transactions.
    pub prefers_together: bool,
}

/// Whether an error means that the server has ended.
fn is_end(error: &ClientError) -> bool {
    matches!(error, ClientError::Rpc(_) | ClientError::NoSlots)
}

impl Worker {
    pub fn new(number: usize, random: Random) -> Worker {
        Worker {
            name: format!("t{number}"),
            model: Model::default(),
            in_flight: None,
            random,
            numbers: 0,
            verifiers: HashMap::new(),
            acknowledged: 0,
            prefers_together: false,
        }
    }

    /// Whether a transaction was under way when the server ended.
    pub fn is_together(&self) -> bool {
        matches!(self.in_flight, Some(Step::Together(_)))
    }

    /// Makes the client's own folder.
    pub async fn settle(&mut self, server: SocketAddr) {
        let client = Client::connect(server, &self.name).await;
        client.make_directory(&self.name).await;
        self.model.names.insert(self.name.clone(), Object::Directory);
    }

    /// Works until the server ends, in its `life`.
    pub async fn work(&mut self, server: SocketAddr, life: u64) {
        let client = match Client::try_connect(server, &self.name).await {
            Ok(client) => client,
            Err(error) if is_end(&error) => return,
            Err(error) => panic!("{}: connecting: {error}", self.name),
        };
        loop {
            let step = self.choose();
            let request = step.request(&client);
            self.in_flight = Some(step.clone());
            match client.run(&request).await {
                Ok(results) => {
                    if let Some(verifier) = step.verifier(&results) {
                        let first = *self.verifiers.entry(verifier).or_insert(life);
                        assert_eq!(
                            first, life,
                            "the write verifier of life {first} came back in life {life}"
                        );
                    }
                    step.apply(&mut self.model, Some(&results));
                    self.in_flight = None;
                    self.acknowledged += 1;
                }
                Err(error) if is_end(&error) => return,
                Err(error) => panic!("{}: {step:?}: {error}", self.name),
            }
        }
    }

    /// Compares what the server shows with what it promised. False when the server ended meanwhile.
    pub async fn verify(&mut self, server: SocketAddr, observed: &HashSet<String>) -> bool {
        match self.try_verify(server, observed).await {
            Ok(()) => true,
            Err(error) if is_end(&error) => false,
            Err(error) => panic!("{}: {error}", self.name),
        }
    }

    async fn try_verify(
        &mut self,
        server: SocketAddr,
        observed: &HashSet<String>,
    ) -> Result<(), ClientError> {
        let client = Client::try_connect(server, &self.name).await?;
        let seen = self.look(&client).await?;
        let Some(step) = self.in_flight.clone() else {
            match self.model.explain(&seen) {
                Ok((model, _)) => self.model = model,
                Err(what) => panic!("{}: {what}", self.name),
            }
            return Ok(());
        };
        let mut after = self.model.clone();
        step.apply(&mut after, None);
        let undone = self.model.explain(&seen);
        let done = after.explain(&seen);
        let was_seen = step.makes().into_iter().find(|path| {
            observed.contains(path) && !self.model.names.contains_key(path) // not one that is replaced
        });
        self.model = match (done, undone, was_seen) {
            (Ok((model, _)), ..) => model,
            (Err(_), Ok(_), Some(path)) => panic!("{}: {path} was seen by a client and is gone", self.name),
            (Err(_), Ok((model, _)), None) => model,
            (Err(done), Err(undone), _) => {
                let step = format!("{step:?}");
                let step = &step[..step.len().min(200)];
                panic!("{}: as if {step} is done: {done}; as if it is not: {undone}", self.name)
            }
        };
        if let Step::CreateExclusive { path, number, .. } = &step {
            // A client that got no answer sends the same again.
            client.run(&step.request(&client)).await?;
            self.model.names.entry(path.clone()).or_insert(Object::File(*number));
            self.model.files.entry(*number).or_default();
        }
        self.in_flight = None;
        Ok(())
    }

    /// Everything of this client that the server shows.
    async fn look(&self, client: &Client) -> Result<Seen, ClientError> {
        let mut seen = Seen::default();
        seen.names.insert(self.name.clone(), SeenObject::Directory);
        let mut folders = vec![self.name.clone(), SHARED.to_owned()];
        let prefix = format!("{}-", self.name);
        while let Some(folder) = folders.pop() {
            for entry in client.list(&folder).await? {
                if folder == SHARED && !entry.name.starts_with(&prefix) {
                    continue;
                }
                let path = format!("{folder}/{}", entry.name);
                let object = match entry.kind {
                    FileType::Directory => {
                        folders.push(path.clone());
                        SeenObject::Directory
                    }
                    FileType::SymbolicLink => SeenObject::Link(client.read_link(&path).await?),
                    FileType::Regular => {
                        if let Entry::Vacant(unread) = seen.contents.entry(entry.id) {
                            let content = client.read(&path).await?;
                            assert_eq!(
                                content.len() as u64,
                                entry.size,
                                "{path}: READDIR tells another size"
                            );
                            unread.insert(content);
                        }
                        SeenObject::File { id: entry.id, links: entry.links }
                    }
                    other => panic!("{path} is {other:?}"),
                };
                seen.names.insert(path, object);
            }
        }
        Ok(seen)
    }

    /// Another gateway must show the same; nothing is under way.
    pub async fn expect_same(&self, server: SocketAddr) {
        let client = Client::connect(server, &self.name).await;
        let seen = self.look(&client).await.unwrap();
        if let Err(what) = self.model.explain(&seen) {
            panic!("{}: {what}", self.name);
        }
    }

    fn choose(&mut self) -> Step {
        self.numbers += 1;
        let number = self.numbers;
        let files: Vec<(String, u32)> = self
            .model
            .names
            .iter()
            .filter_map(|(path, object)| Some((path.clone(), object.file()?)))
            .collect();
        let pending = files.iter().find(|(_, number)| self.model.files[number].unstable() >= 3).cloned();
        if let Some((path, number)) = pending {
            return Step::Commit { path, number };
        }
        let crowded = self.model.names.len() > 30;
        if self.prefers_together {
            return match crowded {
                true => Step::Together(vec![self.choose_removal()]),
                false => self.choose_together(number, &files),
            };
        }
        let kind = self.random.below(100);
        if crowded && kind < 40 {
            return self.choose_removal();
        }
        match (kind, self.random.pick(&files).cloned()) {
            (0..15, _) | (_, None) => {
                let length = self.length();
                Step::Create { path: self.new_path(number), number, data: self.random.bytes(length) }
            }
            (15..20, _) => {
                Step::CreateExclusive { path: self.new_path(number), number, verifier: self.random.next() }
            }
            (20..45, Some((path, number))) => {
                let how = [StableHow::FileSync, StableHow::DataSync][self.random.below(2) as usize];
                self.write(path, number, how)
            }
            (45..58, Some((path, number))) => self.write(path, number, StableHow::Unstable),
            (58..62, Some((path, number))) => Step::Commit { path, number },
            (62..68, Some((path, number))) => {
                let size = self.model.files[&number].size();
                let size = if self.random.percent(70) { self.random.below(size + 1) } else { size + 70_000 };
                Step::Resize { path, number, size: size.min(2 << 20) }
            }
            (68..78, Some((from, _))) => self.choose_rename(from, number, &files),
            (78..83, _) => Step::MakeDirectory { path: self.new_path(number) },
            (83..88, Some((from, _))) => Step::Link { from, to: self.new_path(number) },
            (88..91, _) => Step::SymbolicLink { path: self.new_path(number), target: format!("to/{number}") },
            (94..97, _) => self.choose_together(number, &files),
            (91..94, _) => {
                let folder = self.folder();
                let names = (0..1 + self.random.below(8)).map(|at| format!("{}-s{number}.{at}", self.name));
                Step::Several { folder, names: names.collect(), target: format!("several/{number}") }
            }
            _ => self.choose_removal(),
        }
    }

    /// A new file, a directory and a link; of the files that there are one is written, one renamed and one removed.
    fn choose_together(&mut self, number: u32, files: &[(String, u32)]) -> Step {
        let length = self.length();
        let data = self.random.bytes(length);
        let mut steps = vec![Step::Create { path: self.new_path(number), number, data }];
        let mut another = || {
            self.numbers += 1;
            self.new_path(self.numbers)
        };
        steps.push(Step::MakeDirectory { path: another() });
        steps.push(Step::SymbolicLink { path: another(), target: format!("together/{number}") });
        let to = another();
        if let Some(first) = files.len().checked_sub(2) {
            let first = self.random.below(first as u64 + 1) as usize;
            let [(written, file), (renamed, _)] = &files[first..first + 2] else { unreachable!() };
            steps.push(self.write(written.clone(), *file, StableHow::Unstable));
            steps.push(Step::Rename { from: renamed.clone(), to });
            steps.push(Step::Remove { path: written.clone() });
            if self.random.percent(70) {
                steps.pop();
            }
        }
        Step::Together(steps)
    }

    fn choose_rename(&mut self, from: String, number: u32, files: &[(String, u32)]) -> Step {
        let folders: Vec<String> = self.own_folders().into_iter().filter(|path| *path != self.name).collect();
        match self.random.below(4) {
            0 => {
                // Onto another file.
                let onto = self.random.pick(files).cloned();
                match onto.filter(|(to, other)| *to != from && self.model.names[&from].file() != Some(*other))
                {
                    Some((to, _)) => Step::Rename { from, to },
                    None => Step::Rename { from, to: self.new_path(number) },
                }
            }
            1 if !folders.is_empty() => {
                // A folder with all that is in it.
                let from = folders[self.random.below(folders.len() as u64) as usize].clone();
                Step::Rename { from, to: format!("{}/d{number}", self.name) }
            }
            _ => Step::Rename { from, to: self.new_path(number) },
        }
    }

    fn choose_removal(&mut self) -> Step {
        let removable: Vec<String> = self
            .model
            .names
            .iter()
            .filter(|(path, object)| {
                **path != self.name && (**object != Object::Directory || self.model.is_empty_directory(path))
            })
            .map(|(path, _)| path.clone())
            .collect();
        match self.random.pick(&removable) {
            Some(path) => Step::Remove { path: path.clone() },
            None => Step::MakeDirectory { path: format!("{}/d{}", self.name, self.numbers) },
        }
    }

    fn write(&mut self, path: String, number: u32, how: StableHow) -> Step {
        let size = self.model.files[&number].size();
        let offset = match self.random.below(4) {
            0 => size,
            1 => self.random.below(size + 100_000),
            _ => self.random.below(size + 1),
        };
        let length = self.length();
        Step::Write { path, number, offset: offset.min(1 << 20), data: self.random.bytes(length), how }
    }

    /// 1 byte to 256 KiB; small ones are as frequent as large ones.
    fn length(&mut self) -> usize {
        let magnitude = self.random.below(19);
        1 + self.random.below(1 << magnitude) as usize
    }

    fn own_folders(&self) -> Vec<String> {
        let folders = self.model.names.iter().filter(|(_, object)| **object == Object::Directory);
        let own = format!("{}/", self.name);
        folders
            .map(|(path, _)| path.clone())
            .filter(|path| *path == self.name || path.starts_with(&own))
            .collect()
    }

    fn folder(&mut self) -> String {
        let folders: Vec<String> =
            self.own_folders().into_iter().filter(|path| path.matches('/').count() < 4).collect();
        self.random.pick(&folders).cloned().unwrap_or_else(|| self.name.clone())
    }

    fn new_path(&mut self, number: u32) -> String {
        if self.random.percent(30) {
            format!("{SHARED}/{}-{number}", self.name)
        } else {
            format!("{}/{number}", self.folder())
        }
    }
}

/// Lists the shared folder until the server ends, and notes every name.
pub async fn observe(server: SocketAddr, observed: Observed) {
    let Ok(client) = Client::try_connect(server, "observer").await else { return };
    loop {
        match client.list(SHARED).await {
            Ok(entries) => {
                let paths = entries.into_iter().map(|entry| format!("{SHARED}/{}", entry.name));
                observed.lock().unwrap().extend(paths);
            }
            Err(error) if is_end(&error) => return,
            Err(error) => panic!("observer: {error}"),
        }
    }
}
