use std::sync::atomic::{AtomicU64, Ordering};

use fuser::Errno;

use crate::errno::Answer;

/// What went wrong with data of a file after its `write` had returned. Everybody who has the file open is told once, by the next
/// write or fsync, and who opens it next as well, if nobody was told: as by Linux for its own files (`errseq_t`).
#[derive(Default)]
pub(crate) struct WriteErrors {
    last: Option<Errno>,
    number: u64,
    is_told: bool,
}

impl WriteErrors {
    /// The first of those that nobody was told of yet is the one that they will be told; whether it is that.
    pub fn add(&mut self, error: Errno) -> bool {
        let is_first = !self.is_untold();
        if is_first {
            *self = WriteErrors { last: Some(error), number: self.number + 1, is_told: false };
        }
        is_first
    }

    /// The number of the last one that does not concern who opens the file now.
    pub fn known_to_new(&self) -> u64 {
        self.number - u64::from(self.is_untold())
    }

    /// Whether there is one that nobody was told of.
    pub fn is_untold(&self) -> bool {
        self.last.is_some() && !self.is_told
    }

    /// The last one, if that came after the one with this number.
    pub fn after(&self, known: &AtomicU64) -> Answer<()> {
        match self.last {
            Some(error) if self.number > known.load(Ordering::Acquire) => Err(error),
            _ => Ok(()),
        }
    }

    /// The same, and it is known then.
    pub fn tell(&mut self, known: &AtomicU64) -> Answer<()> {
        let answer = self.after(known);
        if answer.is_err() {
            known.store(self.number, Ordering::Release);
            self.is_told = true;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(answer: Answer<()>) -> Option<i32> {
        answer.err().map(|error| error.code())
    }

    #[test]
    fn each_who_had_the_file_open_is_told_once() {
        let mut errors = WriteErrors::default();
        let [one, other] = [(); 2].map(|()| AtomicU64::new(errors.known_to_new()));
        assert_eq!(code(errors.tell(&one)), None);
        assert!(errors.add(Errno::ENOSPC));
        assert!(!errors.add(Errno::EIO));
        assert_eq!(code(errors.after(&one)), Some(Errno::ENOSPC.code()));
        for known in [&one, &other] {
            assert_eq!(code(errors.tell(known)), Some(Errno::ENOSPC.code()));
            assert_eq!(code(errors.tell(known)), None);
        }
        errors.add(Errno::EIO);
        assert_eq!(code(errors.tell(&other)), Some(Errno::EIO.code()));
        assert_eq!(code(errors.tell(&one)), Some(Errno::EIO.code()));
    }

    #[test]
    fn who_opens_it_next_is_told_if_nobody_was() {
        let mut errors = WriteErrors::default();
        errors.add(Errno::EIO);
        assert!(errors.is_untold());
        let [one, other] = [(); 2].map(|()| AtomicU64::new(errors.known_to_new()));
        assert_eq!(code(errors.tell(&one)), Some(Errno::EIO.code()));
        assert!(!errors.is_untold());
        let late = AtomicU64::new(errors.known_to_new());
        assert_eq!(code(errors.tell(&late)), None);
        assert_eq!(code(errors.tell(&other)), Some(Errno::EIO.code()));
    }
}
