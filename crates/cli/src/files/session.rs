//! One run of a tool: its connections, what it prints, how it ends.

use std::ffi::OsStr;
use std::io::{BufRead, BufWriter, ErrorKind, Stdout, Write};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use onc_rpc::{AuthSys, Credential};
use vector_client::{Client, Error, Options, Target};
use xdr::{BoundedOpaque, BoundedVec};

use super::place::{Place, Server, Url};
use super::quote::quoted;
use crate::outcome::{Failure, Outcome};

/// There is no such process.
const NOWHERE: &str = "/proc/0/nothing";

/// Options that every tool has.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Common {
    /// Print how many round trips it took, on standard error
    #[arg(long)]
    pub stats: bool,
    /// Let each request to a server be done whole or not at all, so that small files never are there in part (Kurma only)
    #[arg(long)]
    pub atomic: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// What a tool works with.
pub struct Session {
    /// Its name.
    pub tool: &'static str,
    servers: Vec<Connected>,
    /// Whether requests are done whole or not at all.
    atomic: bool,
    local: Option<Client>,
    out: BufWriter<Stdout>,
    status: u8,
    /// Bytes of content that went through, for `--stats`.
    pub bytes: u64,
}

/// A server, by all the names that it was called by.
struct Connected {
    names: Vec<Server>,
    addresses: Vec<SocketAddr>,
    client: Client,
}

/// Runs a tool.
pub fn run(
    tool: &'static str,
    common: &Common,
    work: impl AsyncFnOnce(&mut Session) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(Failure::failed)?.block_on(async {
        let out = BufWriter::with_capacity(64 << 10, std::io::stdout());
        let (servers, local) = (Vec::new(), None);
        let atomic = common.atomic;
        let mut session = Session { tool, servers, atomic, local, out, status: 0, bytes: 0 };
        let result = work(&mut session).await;
        session.flush();
        if common.stats {
            session.print_statistics();
        }
        for server in &session.servers {
            // Whoever does not say goodbye is forgotten with his lease.
            let _ = server.client.close().await;
        }
        result.map(|()| Outcome::Told(session.status))
    })
}

impl Session {
    /// What an argument names: `nfs://HOST[:PORT]/PATH`, or a path of this machine.
    pub async fn place(&mut self, argument: &OsStr) -> Result<Place, Failure> {
        let shown = argument.as_bytes().to_vec();
        match Url::of(argument)? {
            Some(url) => {
                let client = self.client(url.server).await?;
                Ok(Place { client, target: Target::from(url.path), shown, is_local: false })
            }
            None => {
                let client = match &self.local {
                    Some(client) => client.clone(),
                    None => self.local.insert(Client::local("/").map_err(Failure::failed)?).clone(),
                };
                // An empty name leads nowhere, nor does any from a directory that was removed.
                let path: PathBuf = match argument.is_empty() {
                    true => NOWHERE.into(),
                    false => std::env::current_dir().unwrap_or_else(|_| NOWHERE.into()).join(argument),
                };
                let path = path.into_os_string().into_encoded_bytes();
                Ok(Place { client, target: Target::from(path), shown, is_local: true })
            }
        }
    }

    /// One for each server: two names of one must not make two of it, as a file would be copied onto itself.
    async fn client(&mut self, server: Server) -> Result<Client, Failure> {
        if let Some(known) = self.servers.iter().find(|known| known.names.contains(&server)) {
            return Ok(known.client.clone());
        }
        let found = tokio::net::lookup_host((server.host.as_str(), server.port)).await;
        // Whoever connects says why there is none.
        let addresses: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
        let is_it = |known: &Connected| known.addresses.iter().any(|address| addresses.contains(address));
        if let Some(index) = self.servers.iter().position(is_it) {
            self.servers[index].names.push(server);
            return Ok(self.servers[index].client.clone());
        }
        let client = connect(&server, self.atomic).await?;
        self.servers.push(Connected { names: vec![server], addresses, client: client.clone() });
        Ok(client)
    }

    /// What all of these arguments name.
    pub async fn places(
        &mut self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Vec<Place>, Failure> {
        let mut places = Vec::new();
        for argument in arguments {
            places.push(self.place(argument.as_ref()).await?);
        }
        Ok(places)
    }

    /// Says what went wrong, on standard error; the exit status will be 1 at least.
    pub fn complain(&mut self, message: impl std::fmt::Display) {
        self.complain_with(1, message);
    }

    /// Says what went wrong; the exit status will be this at least.
    pub fn complain_with(&mut self, status: u8, message: impl std::fmt::Display) {
        self.flush();
        self.status = self.status.max(status);
        // Nowhere to tell of a standard error that is closed.
        let _ = writeln!(std::io::stderr(), "{}: {message}", self.tool);
    }

    /// Says that something cannot be done to what `shown` names.
    pub fn cannot(&mut self, act: &str, shown: &[u8], error: &Error) {
        self.complain(format_args!("cannot {act} {}: {}", quoted(shown), words(error)));
    }

    /// Prints bytes. A reader that has gone away ends the tool quietly.
    pub fn print(&mut self, bytes: impl AsRef<[u8]>) {
        if let Err(error) = self.out.write_all(bytes.as_ref()) {
            self.broken(&error);
        }
    }

    /// Prints a line.
    pub fn say(&mut self, line: impl std::fmt::Display) {
        if let Err(error) = writeln!(self.out, "{line}") {
            self.broken(&error);
        }
    }

    pub fn flush(&mut self) {
        if let Err(error) = self.out.flush() {
            self.broken(&error);
        }
    }

    fn broken(&self, error: &std::io::Error) -> ! {
        if error.kind() != ErrorKind::BrokenPipe {
            let why = error.raw_os_error().map_or_else(|| error.to_string(), errno_words);
            let _ = writeln!(std::io::stderr(), "{}: write error: {why}", self.tool);
        }
        std::process::exit(if self.tool == "ls" { 2 } else { 1 });
    }

    /// Asks a question on standard error; whether the answer begins with y or Y.
    pub fn ask(&mut self, question: impl std::fmt::Display) -> bool {
        self.flush();
        ask(self.tool, question)
    }

    fn print_statistics(&self) {
        let (mut trips, mut operations) = (0, 0);
        for server in &self.servers {
            let statistics = server.client.statistics();
            trips += statistics.round_trips;
            operations += statistics.operations;
        }
        let each = operations as f64 / trips.max(1) as f64;
        let bytes = self.bytes;
        let _ = writeln!(
            std::io::stderr(),
            "{trips} round trips, {operations} operations, {each:.1} operations per round trip, {bytes} bytes"
        );
    }
}

/// Asks on standard error, and hears the answer on standard input.
pub fn ask(tool: &str, question: impl std::fmt::Display) -> bool {
    let _ = write!(std::io::stderr(), "{tool}: {question} ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let heard = std::io::stdin().lock().read_line(&mut answer);
    heard.is_ok() && answer.starts_with(['y', 'Y'])
}

async fn connect(server: &Server, atomic: bool) -> Result<Client, Failure> {
    // No tool reads anything again: nothing is kept, and no file delegated.
    let mut options = Options { atomic, cache_bytes: 0, ..Options::default() };
    options.nfs.credential = Credential::Sys(who_we_are());
    let connected = Client::connect(server, options).await;
    connected.map_err(|error| {
        if let Error::Unsupported(what) = error {
            return Failure::failed(format_args!("{what} is more than {server} can do: leave --atomic out"));
        }
        let mut cause: &dyn std::error::Error = &error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        Failure::failed(format_args!("no NFS server answers at {server}: {cause}"))
    })
}

/// User and groups of this process.
fn who_we_are() -> AuthSys {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let groups = rustix::process::getgroups().unwrap_or_default();
    let groups = groups.iter().map(|group| group.as_raw()).filter(|further| *further != group).take(16);
    let machine = rustix::system::uname().nodename().to_bytes().to_vec();
    AuthSys {
        machine: BoundedOpaque::new(machine).unwrap_or_default(),
        gids: BoundedVec::new(groups.collect()).unwrap_or_default(),
        ..AuthSys::new(user, group)
    }
}

/// The words of the C library for an error, or our own where it has none.
pub fn words(error: &Error) -> String {
    match error {
        Error::Connection(_) | Error::DataLost(_) | Error::Unsupported(_) | Error::Invalid { .. } => {
            error.to_string()
        }
        error => errno_words(error.errno()),
    }
}

/// The words of the C library for an error number.
pub fn errno_words(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
