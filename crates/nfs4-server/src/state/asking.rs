//! What the holder of a delegation for writing says about its file (CB_GETATTR, RFC 8881 §10.4.3, §20.1).
//!
//! Each question has a number, and whoever needs an answer waits for the end of one that began after it came: an older
//! answer may be from before what it wants to see. There is one question of a delegation at a time, however many wait.
//! A holder that does not answer has the delegation recalled.

use std::collections::HashMap;
use std::time::Duration;

use file_system::FileId;
use nfs4::{ClientId, StateId};

use super::callback::Notice;
use super::delegation::Delegation;
use super::{Held, Other, Refusal, State};

/// What the holder says: attributes as it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HolderSays {
    pub change: u64,
    pub size: u64,
}

/// Somebody waits until this question to the holder of a delegation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub delegation: Other,
    pub number: u64,
}

/// What is known of what the holder of a delegation writes.
#[derive(Debug)]
pub(super) struct Writing {
    /// The `change` attribute when the file was delegated. Its holder says the same as long as it has changed nothing. It
    /// is never replaced (as §10.4.3 has it): a holder may count up once for all that it changes, and would then be
    /// taken for one that has changed nothing.
    granted: u64,
    /// What the holder said last, if it had changed something.
    said: Option<HolderSays>,
    /// Questions that somebody wants, that began, and that ended.
    wanted: u64,
    begun: u64,
    ended: u64,
    /// The last one was not answered.
    failed: bool,
}

impl Writing {
    pub fn new(granted: u64) -> Writing {
        Writing { granted, said: None, wanted: 0, begun: 0, ended: 0, failed: false }
    }

    fn size(&self) -> Option<u64> {
        self.said.map(|said| said.size)
    }

    fn fail(&mut self) {
        self.begun = self.begun.max(self.wanted);
        (self.ended, self.failed) = (self.begun, true);
    }
}

impl State {
    /// The size that the holder of `file` says it has, if that is not `client` and it has changed something. `asked` is
    /// the question that the same request waited for already.
    pub fn size_by_holder(
        &mut self,
        client: Option<ClientId>,
        file: FileId,
        asked: &[Question],
        now: Duration,
    ) -> Result<Option<u64>, Refusal> {
        let Some((delegation, holder)) = self.writer_of(file, client) else { return Ok(None) };
        let (expired, hears) = (self.is_expired(holder, now), self.can_call_back(holder));
        let Some(Held::Delegation(held)) = self.held.get_mut(&delegation) else { return Ok(None) };
        let recalled = held.recalled.is_some();
        let Some(writing) = &mut held.writing else { return Ok(None) };
        if expired {
            // Nobody is in its way, and it does not answer any more.
            return Ok(writing.size());
        }
        let asked = asked.iter().find(|question| question.delegation == delegation);
        let number = match asked.map(|question| question.number) {
            Some(number) if number <= writing.ended && !writing.failed => return Ok(writing.size()),
            Some(number) if number > writing.ended => number,
            // Who did not answer before is not asked again.
            None if hears && !(writing.failed && recalled) => {
                let number = writing.begun + 1;
                writing.wanted = writing.wanted.max(number);
                number
            }
            _ => return self.recall_writers(client, file, now).map(|()| None),
        };
        self.ask_if_wanted(delegation);
        Err(Refusal::Asked(Question { delegation, number }))
    }

    /// The sizes that holders other than `client` have said last, if they had changed something. Nobody is asked.
    pub fn sizes_by_holders(&self, client: Option<ClientId>) -> HashMap<FileId, u64> {
        let others = self.sizes_said.iter().filter(|(_, (holder, _))| Some(*holder) != client);
        others.map(|(file, (_, size))| (*file, *size)).collect()
    }

    /// Begins the question that somebody wants, unless there is one under way.
    fn ask_if_wanted(&mut self, other: Other) {
        if let Some(Held::Delegation(held)) = self.held.get_mut(&other)
            && let Some(writing) = &mut held.writing
            && writing.begun == writing.ended
            && writing.wanted > writing.begun
        {
            writing.begun += 1;
            let (client, file, number) = (held.client, held.file, writing.begun);
            let id = StateId { seqid: Delegation::SEQID, other };
            self.notify(client, Notice::Ask { id, file, number });
        }
    }

    /// Whether the question has ended, in whatever way, or its delegation has.
    pub fn has_ended(&self, question: &Question) -> bool {
        self.writing(&question.delegation).is_none_or(|writing| question.number <= writing.ended)
    }

    /// Whether the question is under way.
    pub(super) fn is_asked(&self, other: &Other, number: u64) -> bool {
        self.writing(other).is_some_and(|writing| writing.ended < number)
    }

    fn writing(&self, other: &Other) -> Option<&Writing> {
        match self.held.get(other) {
            Some(Held::Delegation(held)) if !held.revoked => held.writing.as_ref(),
            _ => None,
        }
    }

    fn writing_mut(&mut self, other: &Other) -> Option<&mut Writing> {
        match self.held.get_mut(other) {
            Some(Held::Delegation(held)) if !held.revoked => held.writing.as_mut(),
            _ => None,
        }
    }

    /// Whether what the holder says is something new, so that the file has to look changed before it is told to others
    /// (§10.4.3). If so the file is marked as changing.
    pub fn is_news(&mut self, other: &Other, file: FileId, says: HolderSays) -> bool {
        let is_news = self
            .writing(other)
            .is_some_and(|writing| says.change != writing.granted && writing.said != Some(says));
        if is_news {
            self.mark_changing(file);
        }
        is_news
    }

    /// A question was answered.
    pub fn answered(&mut self, other: Other, number: u64, says: HolderSays) {
        if let Some(Held::Delegation(held)) = self.held.get_mut(&other)
            && !held.revoked
            && let Some(writing) = &mut held.writing
        {
            // Who has written everything that it changed says so, and the file has the size then.
            writing.said = Some(says).filter(|says| says.change != writing.granted);
            writing.ended = writing.ended.max(number);
            writing.failed = false;
            match writing.size() {
                Some(size) => self.sizes_said.insert(held.file, (held.client, size)),
                None => self.sizes_said.remove(&held.file),
            };
        }
        self.ask_if_wanted(other);
        self.signals.answered.notify_waiters();
    }

    /// A question was not answered, or is not waited for any longer: so are all that wait.
    pub fn not_answered(&mut self, other: &Other, number: u64) {
        if let Some(writing) = self.writing_mut(other)
            && writing.ended < number
        {
            writing.fail();
        }
        self.signals.answered.notify_waiters();
    }
}
