//! Reading ahead: what a page refers to, and what that refers to, one vector for each level.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use vector_client::{Attributes, Done, Error, Kind, Step};

use crate::memory::Coming;
use crate::references::{self, references};
use crate::site::{FIRST, Object, Site, above, kind, whole};

/// Levels below a page: its style sheets, what they import, and the images of that.
const LEVELS: usize = 3;

/// Steps of a level that may fail, as each costs a round trip; after more, the rest is not read ahead.
const MISSES: usize = 4;

impl Site {
    /// Remembers a page or a style sheet, and begins to read what it refers to. Requests for that wait from now on.
    pub(crate) fn read_ahead(self: &Arc<Site>, kind: references::Kind, place: &Bytes, object: &Object) {
        if object.content.len() as u64 != object.size() || self.bounds.ahead_files == 0 {
            return;
        }
        let Ok(permit) = Arc::clone(&self.ahead).try_acquire_owned() else { return };
        let now = self.environment.clock.monotonic();
        self.memory.put(place.clone(), object.clone(), now);
        let files = references(kind, place, &object.content, self.bounds.ahead_files);
        let coming = self.memory.announce(files, now);
        let site = Arc::clone(self);
        tokio::spawn(async move {
            // Whatever the server takes for it: those who wait have a time of their own.
            site.levels(coming).await;
            drop(permit);
        });
    }

    async fn levels(&self, mut coming: Coming) {
        let (mut files, mut bytes) = (self.bounds.ahead_files, self.bounds.ahead_bytes);
        for _ in 0..LEVELS {
            if coming.files.is_empty() {
                return;
            }
            files -= coming.files.len();
            let objects = self.level(&coming.files, &mut bytes).await;
            let mut next = Vec::new();
            for (file, object) in &objects {
                if let (true, Some(kind)) = (object.size() <= FIRST, references::Kind::of(file)) {
                    next.extend(references(kind, file, &object.content, files));
                }
            }
            // Before anybody can see what refers to them.
            let now = self.environment.clock.monotonic();
            let mut next = self.memory.announce(next, now);
            next.keep(files);
            for (file, object) in objects {
                self.memory.put(file, object, now);
            }
            coming = next;
        }
    }

    /// Those of these files that can be read, all of each, as long as there are no more than `bytes` of them.
    async fn level(&self, files: &[Bytes], bytes: &mut u64) -> Vec<(Bytes, Object)> {
        let mut directories = BTreeSet::new();
        // Paths may be deep: of too many directories the rest is not read ahead.
        let few = files.iter().take_while(|file| {
            directories.extend(above(file));
            directories.len() <= self.bounds.ahead_files
        });
        let files = &files[..few.count()];
        let directories: Vec<_> = directories.into_iter().collect();
        let steps = directories.iter().chain(files).map(|place| self.ask(place)).collect();
        let mut results = self.as_many_as_possible(steps).await.into_iter();
        // What is below a symbolic link, or is one, is for the requests themselves.
        let is_directory = |done: Option<Option<Done>>| kind(done.flatten()) == Some(Kind::Directory);
        let followed: Vec<_> = directories.into_iter().filter(|_| !is_directory(results.next())).collect();
        let mut wanted: Vec<(Bytes, Attributes)> = Vec::new();
        for (file, result) in files.iter().zip(results) {
            let Some(Done::Attributes(attributes)) = result else { continue };
            let size = attributes.size.unwrap_or(u64::MAX);
            let is_below_link = above(file).iter().any(|directory| followed.contains(directory));
            if attributes.is(Kind::File) && size <= *bytes && !is_below_link {
                *bytes -= size;
                wanted.push((file.clone(), *attributes));
            }
        }
        let read = |(file, attributes): &(Bytes, Attributes)| {
            [self.read(file, 0, attributes.size.unwrap_or(0)), self.ask(file)]
        };
        let mut results = self.as_many_as_possible(wanted.iter().flat_map(read).collect()).await.into_iter();
        let mut objects = Vec::new();
        for (file, before) in wanted {
            if let (Some(Some(Done::Read(data))), Some(Some(Done::Attributes(after)))) =
                (results.next(), results.next())
                && let Some(object) = whole(&before, data, &after)
            {
                objects.push((file, object));
            }
        }
        objects
    }

    /// The results of these steps, going on after those that fail, [`MISSES`] times.
    async fn as_many_as_possible(&self, steps: Vec<Step>) -> Vec<Option<Done>> {
        let mut results = Vec::with_capacity(steps.len());
        for _ in 0..=MISSES {
            match self.client.execute(steps[results.len()..].to_vec()).await {
                Ok(done) => results.extend(done.into_iter().map(Some)),
                Err(failure) => {
                    results.extend(failure.done.into_iter().map(Some));
                    results.push(None);
                    if matches!(failure.error, Error::Connection(_)) {
                        break;
                    }
                }
            }
            if results.len() >= steps.len() {
                break;
            }
        }
        results.resize_with(steps.len(), || None);
        results
    }
}
