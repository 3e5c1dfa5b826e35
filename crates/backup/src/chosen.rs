//! The backup that a store is made of again.

use bytes::Bytes;
use meta::{MetaStore, put_durably};

use crate::{
    BackupError, BackupKeys, Fetch, Finding, Head, Item, Items, Mark, Parent, Place, Survey, Unsaved,
};

/// A backup that can be restored.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Of its chain.
    pub head: Head,
    /// Which of the states of the chain.
    pub mark: Mark,
    /// The configuration that was in force then.
    pub configuration: String,
}

impl Chosen {
    /// The newest state that all objects are there for, of one branch if it is given. `None`: there is none. What was wrong on the way goes to `problems`.
    pub async fn newest(
        keys: &BackupKeys,
        (survey, places): (&Survey, &[Place]),
        branch: Option<u32>,
        problems: &mut Vec<String>,
    ) -> Option<Chosen> {
        for head in survey.candidates(branch) {
            let mut fetch = Fetch::of(keys, head, places);
            let mut configurations: Vec<(Mark, String)> = Vec::new();
            let mut configuration = String::new();
            let read: Result<(), BackupError> = async {
                while let Some(content) = fetch.next().await? {
                    for item in Items::of(content) {
                        match item? {
                            Item::Configuration(text) => configuration = text,
                            Item::End(mark) => configurations.push((mark, configuration.clone())),
                            Item::Row { .. } | Item::Unsaved(_) => {}
                        }
                    }
                }
                Ok(())
            }
            .await;
            let told = |Finding { place, object, wrong }: &Finding| {
                format!("cloud {place}: part {object} of backup {}: {wrong}", head.mark().backup)
            };
            problems.extend(fetch.findings.iter().map(told));
            let usable = match read {
                Ok(()) => fetch.mark(),
                Err(cause) => {
                    problems.push(format!("backup {}: {cause}", head.mark().backup));
                    None
                }
            };
            let Some(mark) = usable else { continue };
            if mark != head.mark() {
                problems.push(format!(
                    "backup {} of branch {} is not whole in any cloud; what it has up to {} is restored",
                    head.mark().backup,
                    head.branch,
                    mark.backup
                ));
            }
            let configuration = configurations.into_iter().find(|(end, _)| end.backup == mark.backup);
            if let Some((_, configuration)) = configuration {
                return Some(Chosen { head: head.clone(), mark, configuration });
            }
        }
        None
    }

    /// For the branch that goes on from here.
    pub fn as_parent(&self) -> Parent {
        let Chosen { head, mark, .. } = self;
        let link = head.links.iter().find(|(backup, _)| *backup == mark.backup);
        Parent {
            branch: head.branch,
            id: head.id,
            backup: mark.backup,
            link: link.map_or(head.link(), |(_, link)| *link),
        }
    }

    /// Puts all rows into a store that has none, as few at a time as fit a record of `max_record` bytes well, but for those that are of no use there;
    /// what was unsaved then.
    ///
    /// # Errors
    /// A part is gone, or cannot be read, or the store takes nothing: it has only a part then.
    pub async fn load(
        &self,
        keys: &BackupKeys,
        places: &[Place],
        (store, max_record): (&dyn MetaStore, u64),
        is_left_out: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Unsaved>, BackupError> {
        let mut fetch = Fetch::of(keys, &self.head, places);
        let (mut unsaved, mut next) = (Vec::new(), Vec::new());
        for _ in 0..self.mark.objects {
            let content = fetch.next().await?.ok_or(BackupError::Gone)?;
            let mut writes: Vec<(Bytes, Option<Bytes>)> = Vec::new();
            for item in Items::of(content) {
                match item? {
                    Item::Row { key, .. } if is_left_out(&key) => {}
                    Item::Row { key, value } => writes.push((key, value)),
                    Item::Unsaved(one) => next.push(one),
                    Item::Configuration(_) => {}
                    Item::End(_) => unsaved = std::mem::take(&mut next),
                }
            }
            let put = put_durably(store, writes, max_record).await;
            put.map_err(|cause| BackupError::Source(cause.to_string()))?;
        }
        Ok(unsaved)
    }
}
