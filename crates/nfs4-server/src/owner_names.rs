//! What users and groups are called on the wire (RFC 8881 §5.9): decimal numbers, or `name@domain` where a name service is
//! asked.
//!
//! A name service may be slow or away, and no request may be. Each question is asked in a task of its own, once for all
//! who want to know, and requests wait for a moment only; while answers are late nobody waits. A user or group whose name is
//! not known by then is shown by its number; a name whose number is not known is `NFS4ERR_DELAY`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use environment::Clock;
use nfs4::{NfsStatus, Utf8String};
use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;
use tokio::sync::{Semaphore, watch};

/// How long a request waits for answers.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long an answer may take to be of use to anybody.
const LOOKUP_LIMIT: Duration = Duration::from_secs(10);

/// How long a name is believed, and that there is none.
const KNOWN: Duration = Duration::from_secs(600);
const UNKNOWN: Duration = Duration::from_secs(60);

/// How soon a question is asked again that got no answer.
const RETRY: Duration = Duration::from_secs(5);

/// Answers that are kept.
const KEPT: usize = 1 << 14;

/// Questions that are open, and how many of them the name service is asked at one time.
const OPEN_QUESTIONS: usize = 1024;
const TURNS: usize = 8;

/// How many of these are for names, which clients may make up: they must not keep numbers from being shown as names.
const TURNS_OF_NAMES: usize = TURNS / 2;

/// Longest name, without its domain.
const MAX_NAME: usize = 255;

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// A user.
    User,
    /// A group.
    Group,
}

/// Who knows what users and groups are called, such as the system's name service. Names have no domain here.
#[async_trait]
pub trait NameService: Send + Sync {
    /// The name; `None` if there is none.
    async fn name(&self, kind: IdKind, id: u32) -> Result<Option<String>, NameServiceError>;

    /// The number; `None` if nobody is called that.
    async fn id(&self, kind: IdKind, name: &str) -> Result<Option<u32>, NameServiceError>;
}

/// The name service cannot say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name service does not answer ({0}); users and groups are shown by their numbers meanwhile")]
pub struct NameServiceError(pub String);

/// Who is asked, and the domain of all names.
#[derive(Clone)]
pub struct NameMapping {
    /// Who is asked.
    pub service: Arc<dyn NameService>,
    /// What comes behind the `@`.
    pub domain: String,
}

/// What the users and groups of a server are called; replaceable while it serves. At first they are numbers.
#[derive(Default)]
pub(crate) struct OwnerNames(RwLock<Owners>);

impl OwnerNames {
    /// Asks somebody else from now on, or nobody.
    pub fn replace(&self, mapping: Option<NameMapping>, clock: Arc<dyn Clock>) {
        *self.0.write() = Owners(mapping.map(|mapping| Arc::new(Book::new(mapping, clock))));
    }

    /// What they are called now.
    pub fn current(&self) -> Owners {
        self.0.read().clone()
    }
}

/// What users and groups are called. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Owners(Option<Arc<Book>>);

impl Owners {
    /// By their numbers.
    #[cfg(test)]
    pub const NUMBERS: Owners = Owners(None);

    /// Whether they are always numbers, so that nothing has to be found out.
    pub fn are_numbers(&self) -> bool {
        self.0.is_none()
    }

    /// Finds out what these are called, if that does not take long.
    pub async fn find_names(&self, ids: HashSet<(IdKind, u32)>) {
        if let Some(book) = &self.0 {
            let questions = ids.into_iter().map(|(kind, id)| Question::Name(kind, id)).collect();
            book.learn(questions).await;
        }
    }

    /// What it is called, as far as that is known.
    pub fn name(&self, kind: IdKind, id: u32) -> Utf8String {
        let named = self.0.as_ref().and_then(|book| book.known.get(&Question::Name(kind, id)));
        match named {
            Some(Known { answer: Answer::Name(name), .. }) => name,
            _ => Utf8String::from(id.to_string()),
        }
    }

    /// Finds out who is called that, if it does not take long.
    pub async fn find_ids(&self, names: Vec<(IdKind, Utf8String)>) {
        let Some(book) = &self.0 else { return };
        let question = |(kind, text): &(IdKind, Utf8String)| book.question(*kind, text.as_str().ok()?);
        let questions = names.iter().filter_map(question).collect();
        book.learn(questions).await;
    }

    /// Who is called that: `NFS4ERR_BADOWNER` if nobody is, `NFS4ERR_DELAY` if that is not known yet. The largest number
    /// stands for nobody in system calls.
    pub fn id(&self, kind: IdKind, text: &Utf8String) -> Result<u32, NfsStatus> {
        let text = text.as_str().map_err(|_| NfsStatus::BadOwner)?;
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().filter(|&id| id != u32::MAX).ok_or(NfsStatus::BadOwner);
        }
        let asked = self.0.as_ref().and_then(|book| Some((book, book.question(kind, text)?)));
        let (book, question) = asked.ok_or(NfsStatus::BadOwner)?;
        match book.known.get(&question).filter(|known| known.until > book.clock.monotonic()) {
            Some(Known { answer: Answer::Id(id), .. }) => Ok(id),
            Some(Known { answer: Answer::Nothing, .. }) => Err(NfsStatus::BadOwner),
            _ => Err(NfsStatus::Delay),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Question {
    Name(IdKind, u32),
    /// Without domain.
    Id(IdKind, Arc<str>),
}

#[derive(Clone)]
enum Answer {
    /// With domain.
    Name(Utf8String),
    Id(u32),
    Nothing,
    /// It could not be found out.
    Failure,
}

#[derive(Clone)]
struct Known {
    answer: Answer,
    /// When to ask again.
    until: Duration,
}

/// What is known of a name service's answers.
struct Book {
    mapping: NameMapping,
    clock: Arc<dyn Clock>,
    known: Cache<Question, Known>,
    /// Closed when the answer is known.
    open: Mutex<HashMap<Question, watch::Receiver<()>>>,
    turns: Semaphore,
    turns_of_names: Semaphore,
    /// Whether the last answer came late: then it is not waited for.
    late: AtomicBool,
}

impl Book {
    fn new(mapping: NameMapping, clock: Arc<dyn Clock>) -> Book {
        Book {
            mapping,
            clock,
            known: Cache::new(KEPT),
            open: Mutex::default(),
            turns: Semaphore::new(TURNS),
            turns_of_names: Semaphore::new(TURNS_OF_NAMES),
            late: AtomicBool::new(false),
        }
    }

    /// What to ask for the number of `name@domain`; nothing if nobody can be called that.
    fn question(&self, kind: IdKind, text: &str) -> Option<Question> {
        let (name, domain) = text.rsplit_once('@')?;
        let ours = domain.eq_ignore_ascii_case(&self.mapping.domain);
        (ours && is_name(name)).then(|| Question::Id(kind, name.into()))
    }

    /// Returns when the answers are known, or when that takes too long.
    async fn learn(self: &Arc<Book>, questions: HashSet<Question>) {
        let now = self.clock.monotonic();
        let mut awaited = Vec::new();
        for question in questions {
            // What somebody was called will do for show; who may do something is asked anew.
            let usable = match self.known.get(&question) {
                Some(known) if known.until > now => continue,
                Some(Known { answer: Answer::Name(_), .. }) => true,
                _ => false,
            };
            let answered = self.ask(question);
            if !usable {
                awaited.extend(answered);
            }
        }
        if awaited.is_empty() || self.late.load(Ordering::Relaxed) {
            return;
        }
        let all = async {
            for mut answered in awaited {
                let _ = answered.changed().await; // nothing is sent; it ends when the answer is known
            }
        };
        tokio::select! {
            biased;
            () = all => {}
            () = self.clock.sleep(PATIENCE) => self.late.store(true, Ordering::Relaxed),
        }
    }

    /// Asks, if nobody has yet and not too much is asked; names of clients' making leave room for others.
    fn ask(self: &Arc<Book>, question: Question) -> Option<watch::Receiver<()>> {
        let mut open = self.open.lock();
        if let Some(answered) = open.get(&question) {
            return Some(answered.clone());
        }
        let limit = match question {
            Question::Name(..) => OPEN_QUESTIONS,
            Question::Id(..) => OPEN_QUESTIONS / 2,
        };
        if open.len() >= limit {
            return None;
        }
        let (asking, answered) = watch::channel(());
        open.insert(question.clone(), answered.clone());
        let lookup = Lookup { book: self.clone(), question, _asking: asking };
        tokio::spawn(async move { lookup.run().await });
        Some(answered)
    }
}

/// One open question, until it is dropped.
struct Lookup {
    book: Arc<Book>,
    question: Question,
    _asking: watch::Sender<()>,
}

impl Lookup {
    async fn run(&self) {
        let book = &self.book;
        let _turn_of_names = match self.question {
            Question::Id(..) => book.turns_of_names.acquire().await.ok(),
            Question::Name(..) => None,
        };
        let Ok(_turn) = book.turns.acquire().await else { return };
        let started = book.clock.monotonic();
        let result = tokio::select! {
            biased;
            result = self.ask() => result,
            () = book.clock.sleep(LOOKUP_LIMIT) => Err(NameServiceError("it takes too long".into())),
        };
        let now = book.clock.monotonic();
        let late = result.is_err() || now - started >= PATIENCE;
        let was_late = book.late.swap(late, Ordering::Relaxed);
        let known = match result {
            Ok(Answer::Nothing) => Known { answer: Answer::Nothing, until: now + UNKNOWN },
            Ok(answer) => Known { answer, until: now + KNOWN },
            Err(error) => {
                if !was_late {
                    tracing::warn!(%error);
                }
                let before = book.known.get(&self.question);
                Known { answer: before.map_or(Answer::Failure, |known| known.answer), until: now + RETRY }
            }
        };
        book.known.insert(self.question.clone(), known);
    }

    async fn ask(&self) -> Result<Answer, NameServiceError> {
        let NameMapping { service, domain } = &self.book.mapping;
        Ok(match &self.question {
            Question::Name(kind, id) => match service.name(*kind, *id).await?.filter(|name| is_name(name)) {
                Some(name) => Answer::Name(format!("{name}@{domain}").into()),
                None => Answer::Nothing,
            },
            Question::Id(kind, name) => match service.id(*kind, name).await?.filter(|&id| id != u32::MAX) {
                Some(id) => Answer::Id(id),
                None => Answer::Nothing,
            },
        })
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.book.open.lock().remove(&self.question);
    }
}

/// Whether somebody may be called that: what could be taken for a number, or for part of a command line or a database's line,
/// is nobody's name.
fn is_name(name: &str) -> bool {
    let odd = |byte: u8| byte.is_ascii_control() || matches!(byte, b'@' | b':' | b'/');
    (1..=MAX_NAME).contains(&name.len())
        && !name.starts_with('-')
        && !name.bytes().any(odd)
        && !name.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
pub(crate) mod tests;
