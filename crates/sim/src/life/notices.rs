use file_system::{Authority, Caller, CommitMode, FileId, FileSystem, FsResult, Mode};
use parking_lot::Mutex;

use super::remote::Remote;
use super::scene::{Folder, a_name};
use crate::world::World;

/// The file that notices are in, one at a time.
pub const NOTICE_FILE: &str = "notice";
/// Bytes of a notice; one request writes or reads it.
const LENGTH: usize = 24_000;

/// A file that every client over the network writes as a whole and reads, caching what it may (RFC 8881 §10.3.1): who opens it finds what was there
/// when it was closed by the last who had written it, or something that came later. What was closed also lasts.
#[derive(Default)]
pub struct Notices(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Counts beginnings and ends.
    time: u64,
    notices: Vec<Notice>,
    /// There is one, and it lasts.
    is_up: bool,
}

/// The number of a notice is its place.
struct Notice {
    /// Which client, if one.
    writer: Option<usize>,
    begun: u64,
    /// From when on it cannot come any more.
    over: Option<u64>,
    /// It was there then, for good.
    is_certain: bool,
}

impl Inner {
    fn now(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    fn begin(&mut self, writer: Option<usize>) -> u64 {
        let begun = self.now();
        self.notices.push(Notice { writer, begun, over: None, is_certain: false });
        self.notices.len() as u64 - 1
    }

    fn end(&mut self, number: u64) {
        let now = self.now();
        if let Some(notice) = self.notices.get_mut(number as usize) {
            (notice.over, notice.is_certain) = (Some(now), true);
        }
    }

    /// What these have written and got no answer to cannot come any more.
    fn is_over(&mut self, of: impl Fn(&Notice) -> bool) {
        let now = self.now();
        for notice in self.notices.iter_mut().filter(|notice| of(notice)) {
            notice.over.get_or_insert(now);
        }
    }

    /// Whether who opens the file at this time may find this notice.
    fn may_be_found(&self, number: u64, opened: u64) -> bool {
        let Some(found) = self.notices.get(number as usize) else { return false };
        let replaced = |by: &Notice| {
            let was_before = found.over.is_some_and(|over| over < by.begun);
            was_before && by.is_certain && by.over.is_some_and(|over| over < opened)
        };
        !self.notices.iter().any(replaced)
    }

    fn check(&self, found: &[u8], opened: u64) -> Result<u64, String> {
        match parse(found) {
            Some(number) if self.may_be_found(number, opened) => Ok(number),
            Some(number) => Err(format!("notice {number} was found after another one had replaced it")),
            None => Err(format!("a notice of {} bytes is no whole one", found.len())),
        }
    }
}

fn text(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(LENGTH / 8)
}

/// The number of a whole notice.
fn parse(text: &[u8]) -> Option<u64> {
    let (first, rest) = text.as_chunks::<8>().0.split_first()?;
    (text.len() == LENGTH && rest.iter().all(|other| other == first)).then(|| u64::from_be_bytes(*first))
}

impl Notices {
    /// Puts up another one.
    pub async fn write(&self, remote: &Remote<'_>, world: &World) -> FsResult<()> {
        let number = self.0.lock().begin(Some(remote.number));
        let written = remote.write_whole(NOTICE_FILE, text(number)).await;
        if world.is_dead() {
            return Ok(()); // nobody was told
        }
        match &written {
            Ok(()) => {
                let mut inner = self.0.lock();
                inner.end(number);
                inner.is_over(|notice| notice.writer == Some(remote.number));
            }
            Err(_) => remote.start_anew(),
        }
        written
    }

    /// Opens the file and reads it.
    pub async fn read(&self, remote: &Remote<'_>, world: &World) -> FsResult<()> {
        let opened = self.0.lock().now();
        let found = remote.read_whole(NOTICE_FILE, LENGTH as u64).await?;
        let mut inner = self.0.lock();
        if !world.is_dead()
            && let Err(what) = inner.check(&found, opened)
        {
            world.violate(what);
        }
        // It had connected anew after whatever was not answered.
        inner.is_over(|notice| notice.writer == Some(remote.number));
        Ok(())
    }

    /// After an end of the machine, or a restore, before which nothing counts, and after which the file is whole unless it `is_lost`.
    pub async fn resume(
        &self,
        fs: &dyn FileSystem,
        shared: Folder,
        restored: Option<impl Fn(FileId) -> bool>,
    ) -> FsResult<Result<(), String>> {
        let mut tx = fs.begin(&Caller::root(), Mode::Optimistic).await?;
        let file = tx.lookup(shared.0, &a_name(NOTICE_FILE)).await?.file;
        let text = tx.read(file, 0, LENGTH as u32 + 1, Authority::Checked).await;
        drop(tx);
        if let Some(is_lost) = restored {
            let is_whole = is_lost(file) || {
                let text = text?.segments.concat();
                // It may be from before the first one.
                text.is_empty() || parse(&text).is_some()
            };
            self.begin(fs, file).await?;
            return Ok(is_whole.then_some(()).ok_or_else(|| "a restored notice is no whole one".to_owned()));
        }
        if !self.0.lock().is_up {
            return self.begin(fs, file).await.map(Ok);
        }
        let text = text?.segments.concat();
        let mut inner = self.0.lock();
        inner.is_over(|_| true);
        let now = inner.now();
        let checked = inner.check(&text, now);
        // It is there, and has outlived a machine.
        Ok(checked.map(|number| inner.end(number)))
    }

    async fn begin(&self, fs: &dyn FileSystem, file: FileId) -> FsResult<()> {
        let number = {
            let mut inner = self.0.lock();
            inner.is_up = false;
            inner.begin(None)
        };
        let mut tx = fs.begin(&Caller::root(), Mode::Exclusive).await?;
        tx.write(file, 0, text(number).into(), Authority::Checked).await?;
        tx.commit(CommitMode::Durable).await?;
        let mut inner = self.0.lock();
        for (_, notice) in (0..number).zip(&mut inner.notices) {
            (notice.over, notice.is_certain) = (Some(0), false);
        }
        inner.end(number);
        inner.is_up = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_may_be_found_until_another_one_was_there_for_certain() {
        let mut inner = Inner::default();
        let first = inner.begin(None);
        inner.end(first);
        let second = inner.begin(None);
        let during = inner.now();
        inner.end(second);
        let third = inner.begin(None);
        let after = inner.now();
        assert!(inner.may_be_found(first, during) && inner.may_be_found(second, during));
        assert!(!inner.may_be_found(first, after), "the second was closed");
        assert!(inner.may_be_found(second, after) && inner.may_be_found(third, after));
        // The third came to an end that nobody knows, long ago.
        let now = inner.now();
        inner.notices[third as usize].over = Some(now);
        let later = inner.now();
        assert!(inner.may_be_found(second, later) && inner.may_be_found(third, later));
        let fourth = inner.begin(None);
        inner.end(fourth);
        let now = inner.now();
        assert!((first..fourth).all(|number| !inner.may_be_found(number, now)));
        assert!(inner.may_be_found(fourth, now) && !inner.may_be_found(9, now));
    }

    #[test]
    fn half_a_notice_is_none() {
        assert_eq!(parse(&text(7)), Some(7));
        let mut torn = text(7);
        torn[LENGTH - 1] = 8;
        assert_eq!(parse(&torn), None);
        assert_eq!(parse(&text(7)[8..]), None);
        assert_eq!(parse(&[]), None);
    }
}
