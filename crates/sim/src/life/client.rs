use std::time::Duration;

use bytes::Bytes;
use file_system::{Authority, Caller, CommitMode, FsError, FsResult, Mode};

use super::account::{Account, Slot};
use super::course::Stage;
use super::operation::{Change, Operation, Step, name_of};
use super::remote::{Remote, Undone};
use super::scene::list;

/// How often a transaction meets others before it keeps them out.
const CONFLICTS: usize = 4;

/// Somebody who does one thing after the other, and knows what he must find.
#[derive(Default)]
pub struct Client {
    pub number: usize,
    pub account: Account,
    /// Steps of this phase that have begun.
    pub begun: usize,
    /// Operations so far.
    pub operations: u64,
    /// Those that the gateway could not do then.
    pub refused: u64,
}

impl Client {
    /// Goes on with the steps.
    pub async fn work(&mut self, steps: &[Step], stage: &Stage<'_>) {
        while self.begun < steps.len() {
            let step = &steps[self.begun];
            self.begun += 1;
            self.operations += 1;
            stage.tick();
            self.account.told(stage.promise());
            self.act(step, stage).await;
            stage.machine.env.clock.sleep(pause(step)).await;
        }
    }

    async fn act(&mut self, step: &Step, stage: &Stage<'_>) {
        let operation = Operation::of(step, self.number, self.operations, self.account.now());
        stage.world.trace().note(format_args!("client {}: {}", self.number, Short(&operation)), &[]);
        // Now and then it matters that it lasts.
        let mode = if step[5].is_multiple_of(3) { CommitMode::Visible } else { CommitMode::Durable };
        let fs = &*stage.fs;
        let done = match (operation, stage.remote(self.number)) {
            (Operation::Change(Change::Write { slot, offset, data }), Some(remote))
                if mode == CommitMode::Visible && self.account.now().contains_key(&slot) =>
            {
                self.write_and_close((slot, offset, data), pause(step), remote, stage).await
            }
            (Operation::Change(change), Some(remote)) => self.change_remotely(&change, remote, stage).await,
            (Operation::Sync { slot }, Some(remote)) => self.sync_remotely(slot, remote, stage).await,
            (Operation::TakeTicket, Some(remote)) => stage.tickets.take_remotely(remote, stage.world).await,
            (Operation::LookAtTickets, Some(remote)) => {
                stage.tickets.look_remotely(remote, stage.world).await
            }
            (Operation::Change(change), None) => self.change(&change, mode, stage).await,
            (Operation::Read { slot, offset, length }, _) => self.read(slot, offset, length, stage).await,
            (Operation::List, _) => self.list(stage).await,
            (Operation::Sync { slot }, None) => self.sync(slot, stage).await,
            (Operation::TakeTicket, None) => {
                stage.tickets.take(fs, stage.scene.shared, mode, stage.world).await
            }
            (Operation::LookAtTickets, None) => stage.tickets.look(fs, stage.scene.shared, stage.world).await,
            (Operation::WriteNotice, Some(remote)) => stage.notices.write(remote, stage.world).await,
            (Operation::ReadNotice, Some(remote)) => stage.notices.read(remote, stage.world).await,
            // Nobody inside caches anything.
            (Operation::WriteNotice | Operation::ReadNotice, None) => Ok(()),
        };
        if let Err(error) = done
            && !stage.world.is_dead()
        {
            stage.world.trace().note(format_args!("client {}: {error}", self.number), &[]);
            self.refused += 1;
            stage.check_excuse(&error);
        }
    }

    async fn change(&mut self, change: &Change, mode: CommitMode, stage: &Stage<'_>) -> FsResult<()> {
        self.account.begin(change.applied(self.account.now()), stage.world.now());
        let folder = stage.scene.own[self.number];
        for attempt in 0.. {
            let how = if attempt < CONFLICTS { Mode::Optimistic } else { Mode::Exclusive };
            let run = async {
                let mut tx = stage.fs.begin(&Caller::root(), how).await?;
                change.run(&mut *tx, folder).await?;
                Ok(tx)
            };
            let committed = match run.await {
                Ok(tx) => tx.commit(mode).await,
                Err(FsError::Conflict) if how == Mode::Optimistic => continue,
                Err(error) => {
                    if !stage.world.is_dead() {
                        self.account.undo();
                    }
                    return Err(error);
                }
            };
            if stage.world.is_dead() {
                return Ok(()); // nobody was told
            }
            match committed {
                Ok(()) if mode == CommitMode::Durable => self.account.all_durable(stage.world.now()),
                Ok(()) => self.account.seen(stage.world.now()),
                Err(FsError::Conflict) if how == Mode::Optimistic => continue,
                Err(error) => {
                    self.find_out(stage).await?;
                    return Err(error);
                }
            }
            return Ok(());
        }
        Ok(())
    }

    async fn change_remotely(
        &mut self,
        change: &Change,
        remote: &Remote<'_>,
        stage: &Stage<'_>,
    ) -> FsResult<()> {
        self.account.begin(change.applied(self.account.now()), stage.world.now());
        let done = remote.change(change).await;
        if stage.world.is_dead() {
            return Ok(()); // nobody was told
        }
        match done {
            Ok(()) => self.account.all_durable(stage.world.now()),
            Err(Undone::Not(error)) => {
                self.account.undo();
                return Err(error);
            }
            Err(Undone::Perhaps(error)) => {
                remote.start_anew();
                self.find_out(stage).await?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes into a file that is there: what is seen at once, and lasts when the file was closed.
    async fn write_and_close(
        &mut self,
        (slot, offset, data): (Slot, u64, Bytes),
        pause: Duration,
        remote: &Remote<'_>,
        stage: &Stage<'_>,
    ) -> FsResult<()> {
        let file = remote.open(slot).await?;
        let change = Change::Write { slot, offset, data: data.clone() };
        self.account.begin(change.applied(self.account.now()), stage.world.now());
        let written = remote.write(file, offset, data).await;
        if stage.world.is_dead() {
            return Ok(()); // nobody was told
        }
        if let Err(error) = written {
            remote.start_anew();
            self.find_out(stage).await?;
            return Err(error);
        }
        self.account.seen(stage.world.now());
        stage.machine.env.clock.sleep(pause).await;
        let closed = remote.close(file).await;
        match closed {
            _ if stage.world.is_dead() => Ok(()),
            Ok(()) => {
                self.account.all_durable(stage.world.now());
                Ok(())
            }
            Err(error) => {
                remote.start_anew();
                Err(error)
            }
        }
    }

    /// Whether the last change was made.
    async fn find_out(&mut self, stage: &Stage<'_>) -> FsResult<()> {
        let found = stage.read_tree_patiently(self.number).await?;
        if !stage.world.is_dead() && !self.account.decide(&found, stage.world.now()) {
            stage.world.violate(format!("client {}: a commit that failed did something else", self.number));
        }
        Ok(())
    }

    async fn read(&mut self, slot: Slot, offset: u64, length: u32, stage: &Stage<'_>) -> FsResult<()> {
        let expected = self.account.now().get(&slot).cloned();
        let found = match stage.remote(self.number) {
            Some(remote) => remote.read(slot, offset, length).await?,
            None => {
                let mut tx = stage.fs.begin(&Caller::root(), Mode::Optimistic).await?;
                match tx.lookup(stage.scene.own[self.number].0, &name_of(slot)).await {
                    Ok(found) => {
                        let data = tx.read(found.file, offset, length, Authority::Checked).await?;
                        Some(data.segments.concat())
                    }
                    Err(FsError::NotFound) => None,
                    Err(error) => return Err(error),
                }
            }
        };
        let expected = expected.map(|content| {
            let start = content.len().min(offset as usize);
            content[start..content.len().min(start + length as usize)].to_vec()
        });
        if found != expected && !stage.world.is_dead() {
            let at = |text: &Option<Vec<u8>>| text.as_ref().map(Vec::len);
            let zip = found.iter().flatten().zip(expected.iter().flatten());
            let first = zip.clone().position(|(found, expected)| found != expected);
            stage.world.violate(format!(
                "client {}: file {slot} from {offset}: {:?} bytes instead of {:?}, the first different one at {first:?}",
                self.number,
                at(&found),
                at(&expected),
            ));
        }
        Ok(())
    }

    async fn list(&mut self, stage: &Stage<'_>) -> FsResult<()> {
        let found = match stage.remote(self.number) {
            Some(remote) => remote.list().await?,
            None => list(&*stage.fs, stage.scene.own[self.number]).await?,
        };
        let tree = self.account.now().iter();
        let mut expected: Vec<_> =
            tree.map(|(slot, content)| (name_of(*slot), content.len() as u64)).collect();
        expected.sort();
        if found != expected && !stage.world.is_dead() {
            stage
                .world
                .violate(format!("client {}: a listing shows {found:?}, not {expected:?}", self.number));
        }
        Ok(())
    }

    async fn sync(&mut self, slot: Slot, stage: &Stage<'_>) -> FsResult<()> {
        let mut tx = stage.fs.begin(&Caller::root(), Mode::Optimistic).await?;
        let found = tx.lookup(stage.scene.own[self.number].0, &name_of(slot)).await;
        drop(tx);
        let file = match found {
            Ok(found) => found.file,
            Err(FsError::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        };
        stage.fs.sync(file).await?;
        if !stage.world.is_dead() {
            self.account.durable(slot);
        }
        Ok(())
    }

    async fn sync_remotely(&mut self, slot: Slot, remote: &Remote<'_>, stage: &Stage<'_>) -> FsResult<()> {
        remote.sync(slot).await?;
        if !stage.world.is_dead() {
            self.account.durable(slot);
        }
        Ok(())
    }

    /// After an end of the machine: what is there must be what can be.
    pub async fn resume(&mut self, stage: &Stage<'_>) {
        match stage.read_tree_patiently(self.number).await {
            _ if stage.world.is_dead() => {}
            Ok(found) => {
                self.account.told(stage.restored_promise().unwrap_or(stage.promise()));
                let (now, resumed) = (stage.world.now(), stage.restored(self.number).await);
                let (after, resumed) = match resumed {
                    None => ("restart", self.account.resume(found, now)),
                    Some(Ok((instant, lost))) => {
                        ("restore", self.account.resume_restored(found, instant, &lost, now))
                    }
                    Some(Err(error)) => ("restore", Err(error.to_string())),
                };
                if let Err(what) = resumed {
                    stage.world.violate(format!("client {}: after a {after}, {what}", self.number));
                }
            }
            Err(error) => stage.world.violate(format!("client {}: after a restart, {error}", self.number)),
        }
    }

    /// What is there now is what was seen last.
    pub async fn check(&self, stage: &Stage<'_>) {
        match stage.read_tree(self.number).await {
            _ if stage.world.is_dead() => {}
            Ok(found) if found == *self.account.now() => {}
            Ok(_) => stage.world.violate(format!("client {}: in the end, files differ", self.number)),
            Err(error) => stage.world.violate(format!("client {}: in the end, {error}", self.number)),
        }
    }
}

fn pause(step: &Step) -> Duration {
    match step[2] % 4 {
        0 => Duration::ZERO,
        _ => Duration::from_millis(u64::from(step[4] % 200)),
    }
}

/// An operation without its data.
struct Short<'a>(&'a Operation);

impl std::fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Operation::Change(Change::Write { slot, offset, data }) => {
                write!(f, "write {} bytes at {offset} of {slot}", data.len())
            }
            other => write!(f, "{other:?}"),
        }
    }
}
