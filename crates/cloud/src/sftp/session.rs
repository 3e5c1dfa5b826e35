//! One `ssh` process with the subsystem `sftp`: many requests at a time, answers in any order.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};

use super::Location;
use super::wire::{self, MAX_PACKET, Reply, Request};

/// The number of requests whose answers are not looked at.
const UNHEARD: u32 = u32::MAX;
/// How long a last word of `ssh` is waited for.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Bytes of the last words that are kept.
const MAX_WORDS: u64 = 4 << 10;

/// Why there is no session, or no longer one.
#[derive(Clone, Debug)]
pub(crate) enum Broken {
    /// Ends by itself: the network, the server.
    Lost(String),
    /// Needs a human: keys, names, the server's abilities.
    Refused(String),
}

type Waiting = HashMap<u32, oneshot::Sender<Reply>>;

struct Shared {
    /// `None` once the session is over: nobody may wait any more.
    waiting: Mutex<Option<Waiting>>,
}

/// A running session. It ends, with its process, when it is dropped.
pub(super) struct Session {
    shared: Arc<Shared>,
    next: AtomicU32,
    /// As long as the operations that run make it: each has a window of requests, and refers to data that is there.
    requests: mpsc::UnboundedSender<(Vec<u8>, Bytes)>,
    pub has_link: bool,
    has_sync: bool,
    _process: Child,
    tasks: [tokio::task::JoinHandle<()>; 2],
}

impl Drop for Session {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|task| task.abort());
    }
}

impl Session {
    pub async fn start(location: &Location, identity: Option<&std::path::Path>) -> Result<Session, Broken> {
        let mut process = command(location, identity)
            .spawn()
            .map_err(|error| Broken::Refused(format!("the program ssh cannot be started: {error}")))?;
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(mut to), Some(mut from), Some(words)) = pipes else {
            return Err(Broken::Refused("the program ssh has no pipes".into()));
        };
        let hello = async {
            to.write_all(&wire::hello()).await?;
            read_packet(&mut from).await
        };
        let extensions = match hello.await.map(wire::extensions) {
            Ok(Some(extensions)) => extensions,
            Ok(None) => return Err(Broken::Refused("the server does not speak SFTP 3".into())),
            Err(error) => return Err(last_words(words, &error).await),
        };
        let has = |name: &str| extensions.iter().any(|extension| extension == name);
        if !has("posix-rename@openssh.com") {
            let cause = "the server cannot replace files at once (posix-rename@openssh.com); OpenSSH's can";
            return Err(Broken::Refused(cause.into()));
        }
        let shared = Arc::new(Shared { waiting: Mutex::new(Some(Waiting::new())) });
        let (requests, queue) = mpsc::unbounded_channel();
        // Whatever the program has to say is taken, or it would wait for us.
        tokio::spawn(async move { tokio::io::copy(&mut { words }, &mut tokio::io::sink()).await });
        let tasks = [
            tokio::spawn(write(to, queue, shared.clone())),
            tokio::spawn(read(from, shared.clone(), requests.downgrade())),
        ];
        Ok(Session {
            shared,
            next: AtomicU32::new(0),
            requests,
            has_link: has("hardlink@openssh.com"),
            has_sync: has("fsync@openssh.com"),
            _process: process,
            tasks,
        })
    }

    /// Whether it is of no more use.
    pub fn is_over(&self) -> bool {
        self.shared.waiting.lock().is_none()
    }

    /// Asks and waits for the answer.
    pub async fn ask(&self, request: Request<'_>) -> Result<Reply, Broken> {
        self.send(request, Bytes::new())?.await.map_err(|_| lost())
    }

    /// Sends a request, with the data of a write; the answer is waited for by the caller.
    pub fn send(&self, request: Request<'_>, data: Bytes) -> Result<oneshot::Receiver<Reply>, Broken> {
        let id = self.next.fetch_add(1, Ordering::Relaxed) % UNHEARD;
        let (answer, waits) = oneshot::channel();
        self.shared.waiting.lock().as_mut().ok_or_else(lost)?.insert(id, answer);
        self.requests.send((request.encode(id), data)).map_err(|_| lost())?;
        Ok(waits)
    }

    /// Sends a request whose answer nobody needs.
    pub fn tell(&self, request: Request<'_>) {
        let _ = self.send(request, Bytes::new()); // after the end of the session there is nobody to tell
    }

    /// Makes what was written durable, if the server can.
    pub async fn sync(&self, handle: &Bytes) -> Result<Option<Reply>, Broken> {
        match self.has_sync {
            true => self.ask(Request::Sync(handle)).await.map(Some),
            false => Ok(None),
        }
    }
}

fn lost() -> Broken {
    Broken::Lost("the connection was lost".into())
}

impl Shared {
    /// From now on nobody waits.
    fn end(&self) {
        *self.waiting.lock() = None;
    }
}

/// The user's own `ssh`, so that keys, agents, known hosts and hosts in between are what they are for the user.
fn command(location: &Location, identity: Option<&std::path::Path>) -> Command {
    let mut command = Command::new("ssh");
    // Never asks anybody, and notices in a minute that the other side has gone.
    for option in ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=15", "ServerAliveCountMax=3"] {
        command.args(["-o", option]);
    }
    command.args(["-o", "ClearAllForwardings=yes", "-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-T"]);
    if let Some(file) = &location.ssh_config {
        command.arg("-F").arg(file);
    }
    if let Some(identity) = identity {
        command.args(["-o", "IdentitiesOnly=yes", "-i"]).arg(identity);
    }
    if let Some(user) = &location.user {
        command.args(["-l", user]);
    }
    if let Some(port) = location.port {
        command.args(["-p", &port.to_string()]);
    }
    command.args(["-s", "--", &location.host, "sftp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// What `ssh` said before it gave up.
async fn last_words(words: impl AsyncRead + Unpin, error: &std::io::Error) -> Broken {
    let mut text = Vec::new();
    // In vain when another process keeps the pipe open.
    let _ = tokio::time::timeout(LAST_WORD, words.take(MAX_WORDS).read_to_end(&mut text)).await;
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if text.is_empty() {
        return Broken::Lost(format!("ssh ended without a word: {error}"));
    }
    let says = |part: &str| text.contains(part);
    if says("Permission denied") {
        Broken::Refused(format!("{text} (check the credentials: the user and the key)"))
    } else if says("Host key verification failed") || says("IDENTIFICATION HAS CHANGED") {
        Broken::Refused(format!("{text} (connect once by hand with ssh, and compare the key of the host)"))
    } else if says("Could not resolve") || says("Bad configuration") || says("subsystem request failed") {
        Broken::Refused(text)
    } else {
        Broken::Lost(text)
    }
}

async fn read_packet(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Bytes> {
    let length = from.read_u32().await?;
    if length == 0 || length > MAX_PACKET {
        let cause = format!("a packet of {length} bytes, where at most {MAX_PACKET} are taken");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, cause));
    }
    let mut packet = vec![0; length as usize];
    from.read_exact(&mut packet).await?;
    Ok(packet.into())
}

async fn write(
    mut to: ChildStdin,
    mut queue: mpsc::UnboundedReceiver<(Vec<u8>, Bytes)>,
    shared: Arc<Shared>,
) {
    while let Some((packet, data)) = queue.recv().await {
        let written = async {
            to.write_all(&packet).await?;
            to.write_all(&data).await
        };
        if written.await.is_err() {
            break;
        }
    }
    shared.end();
}

async fn read(
    from: impl AsyncRead + Unpin,
    shared: Arc<Shared>,
    requests: mpsc::WeakUnboundedSender<(Vec<u8>, Bytes)>,
) {
    let mut from = tokio::io::BufReader::with_capacity(64 << 10, from);
    while let Ok(packet) = read_packet(&mut from).await {
        let Some((id, reply)) = wire::reply(packet) else { break };
        let answer = match shared.waiting.lock().as_mut() {
            Some(waiting) => waiting.remove(&id),
            None => return,
        };
        // An answer to nothing is a server that cannot be followed; the close of a handle below has no number.
        let Some(answer) = answer else {
            if id == UNHEARD {
                continue;
            }
            break;
        };
        // Whoever asked for a handle may not wait for it any more.
        if let Err(Reply::Handle(handle)) = answer.send(reply)
            && let Some(requests) = requests.upgrade()
        {
            let _ = requests.send((Request::Close(&handle).encode(UNHEARD), Bytes::new()));
        }
    }
    shared.end();
}
