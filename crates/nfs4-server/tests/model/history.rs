//! What was done so far: to see that everything was, and to show what led to a failure.

use std::collections::{BTreeMap, VecDeque};

use nfs4::NfsStatus;

/// Steps that a failure shows.
const SHOWN: usize = 80;

#[derive(Default)]
pub struct History {
    last: VecDeque<String>,
    pub steps: u64,
    counts: BTreeMap<String, u64>,
}

impl History {
    pub fn note(&mut self, step: String) {
        self.steps += 1;
        self.last.push_back(format!("{}: {step}", self.steps));
        if self.last.len() > SHOWN {
            self.last.pop_front();
        }
    }

    /// Says more of the newest step.
    pub fn add(&mut self, more: &str) {
        if let Some(last) = self.last.back_mut() {
            last.push_str(" -> ");
            last.push_str(more);
        }
    }

    pub fn count(&mut self, what: &str, status: NfsStatus) {
        *self.counts.entry(format!("{what} {status:?}")).or_default() += 1;
    }

    pub fn count_event(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let last = self.last.iter().map(|step| format!("{step}\n")).collect::<String>();
        panic!("step {}: {why}\nthe last steps:\n{last}", self.steps)
    }

    /// Everything that matters has happened, or the steps are badly chosen.
    pub fn assert_covered(&self) {
        const WANTED: &[&str] = &[
            "CLOSE BadStateId",
            "CLOSE Ok",
            "CREATE_SESSION Ok",
            "CREATE_SESSION SeqMisordered",
            "CREATE_SESSION StaleClientId",
            "DELEGRETURN BadStateId",
            "DELEGRETURN Ok",
            "DESTROY_CLIENTID ClientIdBusy",
            "DESTROY_CLIENTID Ok",
            "DESTROY_SESSION BadSession",
            "DESTROY_SESSION Ok",
            "EXCHANGE_ID Ok",
            "FREE_STATEID LocksHeld",
            "FREE_STATEID Ok",
            "LOCK Denied",
            "LOCK Ok",
            "LOCK OldStateId",
            "LOCK OpenMode",
            "LOCKT Denied",
            "LOCKT Ok",
            "LOCKU Ok",
            "OPEN Delay",
            "OPEN Grace",
            "OPEN NoGrace",
            "OPEN Ok",
            "OPEN ShareDenied",
            "OPEN_DOWNGRADE Inval",
            "OPEN_DOWNGRADE Ok",
            "READ Locked",
            "READ Ok",
            "RECLAIM_COMPLETE CompleteAlready",
            "RECLAIM_COMPLETE Ok",
            "SEQUENCE BadSession",
            "SEQUENCE BadSlot",
            "SEQUENCE Ok",
            "SEQUENCE SeqFalseRetry",
            "SEQUENCE SeqMisordered",
            "SETATTR Delay",
            "SETATTR Ok",
            "TEST_STATEID Ok",
            "WRITE Ok",
            "WRITE OpenMode",
            "a client was forgotten because another wanted something",
            "a client was silent for too long",
            "a delegation was given",
            "a delegation was recalled",
            "a delegation was revoked",
            "a lock was reclaimed",
            "a reply was repeated",
            "an expired client came back",
            "an open was reclaimed",
            "the server restarted",
        ];
        let missing: Vec<_> = WANTED.iter().filter(|what| !self.counts.contains_key(**what)).collect();
        assert!(missing.is_empty(), "never happened: {missing:?}; what did: {:#?}", self.counts);
    }
}
