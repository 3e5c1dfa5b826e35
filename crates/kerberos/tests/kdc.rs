//! Contexts with a client on MIT Kerberos, by tickets of a real KDC. `scripts/setup test` installs both.

#![allow(clippy::unwrap_used)] // set-up is test code, though not inside a test function

use std::hash::BuildHasher;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::{Clock, Environment};
use ids::Timestamp;
use kerberos::{Kerberos, Keytab};
use onc_rpc::gss::{GssError, GssLimits, GssServer, UnixUser, Users};
use onc_rpc::{Call, Connection, Credential, Limits, Peer, Reply, Security, Service};

const REALM: &str = "TEST.KURMA";
const TYPES: [&str; 4] = [
    "aes128-cts-hmac-sha1-96",
    "aes256-cts-hmac-sha1-96",
    "aes128-cts-hmac-sha256-128",
    "aes256-cts-hmac-sha384-192",
];

/// A KDC in a folder of its own, on a free port of loopback; it ends with this.
struct Kdc {
    folder: tempfile::TempDir,
    process: Child,
}

impl Drop for Kdc {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Kdc {
    fn start() -> Kdc {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let port = free_port();
        let types = TYPES.join(" ");
        let client = format!(
            "[libdefaults]\n default_realm = {REALM}\n dns_canonicalize_hostname = false\n dns_lookup_kdc = false\n \
             permitted_enctypes = {types}\n[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        );
        std::fs::write(path("krb5.conf"), client).unwrap();
        let server = format!(
            "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n {REALM} = {{\n  \
             database_name = {}\n  key_stash_file = {}\n  acl_file = {}\n  supported_enctypes = {}\n }}\n[logging]\n kdc = FILE:{}\n",
            path("principal"),
            path("stash"),
            path("acl"),
            TYPES.map(|kind| format!("{kind}:normal")).join(" "),
            path("kdc.log"),
        );
        std::fs::write(path("kdc.conf"), server).unwrap();
        run(program(folder.path(), "kdb5_util").args(["create", "-s", "-r", REALM, "-P", "master"]));
        let admin =
            |request: String| run(program(folder.path(), "kadmin.local").args(["-r", REALM, "-q", &request]));
        admin("addprinc -pw secret anna".into());
        for kind in TYPES {
            admin(format!("addprinc -randkey -e {kind}:normal nfs/{kind}"));
            admin(format!("setstr nfs/{kind} session_enctypes {kind}"));
            admin(format!("ktadd -norandkey -k {} nfs/{kind}", path("keytab")));
        }
        // Another service of the same keytab, and one whose key the keytab does not have.
        admin("addprinc -randkey host/box".into());
        admin(format!("ktadd -norandkey -k {} host/box", path("keytab")));
        admin("addprinc -randkey nfs/unknown".into());
        let process = program(folder.path(), "krb5kdc")
            .args(["-n", "-r", REALM, "-P"])
            .arg(folder.path().join("pid"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut kdc = Kdc { folder, process };
        // The KDC does not say when it is ready; a client that finds nobody fails at once.
        assert!((0..200).any(|_| kdc.log_in()), "no ticket from the KDC");
        kdc
    }

    /// Whether `anna` gets a ticket.
    fn log_in(&mut self) -> bool {
        assert!(self.process.try_wait().unwrap().is_none(), "the KDC does not run");
        let mut kinit = self.program("kinit");
        let kinit = kinit.arg("anna").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut kinit = kinit.spawn().unwrap();
        let _ = kinit.stdin.take().unwrap().write_all(b"secret\n"); // fails when it has ended already
        kinit.wait().unwrap().success()
    }

    fn program(&self, name: &str) -> Command {
        program(self.folder.path(), name)
    }

    fn keytab(&self) -> Keytab {
        Keytab::read(&std::fs::read(self.folder.path().join("keytab")).unwrap()).unwrap()
    }
}

fn program(folder: &Path, name: &str) -> Command {
    let path = ["/usr/sbin", "/usr/bin"].map(|place| PathBuf::from(place).join(name));
    let path = path.into_iter().find(|path| path.exists());
    let mut command =
        Command::new(path.unwrap_or_else(|| panic!("{name} is missing: run scripts/setup test")));
    command.env("KRB5_CONFIG", folder.join("krb5.conf"));
    command.env("KRB5_KDC_PROFILE", folder.join("kdc.conf"));
    command.env("KRB5CCNAME", format!("FILE:{}", folder.join("tickets").display()));
    command
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A port of loopback that nobody has now, in neither protocol. Below those that connections begin at, so that none takes it before
/// the server does; by chance, so that tests side by side do not take the same.
fn free_port() -> u16 {
    let random = std::hash::RandomState::new();
    let mut ports = (0..1000_u32).map(|at| 10_240 + (random.hash_one(at) % 22_000) as u16);
    let is_free = |port: &u16| {
        TcpListener::bind(("127.0.0.1", *port)).is_ok() && UdpSocket::bind(("127.0.0.1", *port)).is_ok()
    };
    ports.find(is_free).expect("a free port")
}

/// The machine's clock, set forward.
struct Ahead(i64, Arc<dyn Clock>);

#[async_trait]
impl Clock for Ahead {
    fn wall(&self) -> Timestamp {
        let now = self.1.wall();
        Timestamp { seconds: now.seconds + self.0, ..now }
    }

    fn monotonic(&self) -> Duration {
        self.1.monotonic()
    }

    async fn sleep(&self, duration: Duration) {
        self.1.sleep(duration).await;
    }
}

/// Gives arguments back, or says who calls.
struct Echo;

#[async_trait]
impl Service for Echo {
    async fn call(&self, call: Call, _peer: &Peer) -> Reply {
        match (call.procedure, call.credential) {
            (0, _) => Reply::Success(Vec::new()),
            (1, _) => Reply::Success(vec![call.body]),
            (_, Credential::Gss(caller)) => {
                let who = format!("{} {}", caller.principal, caller.protection as u32);
                Reply::Success(vec![xdr::to_bytes(&Bytes::from(who))])
            }
            _ => Reply::SystemError,
        }
    }
}

struct Nobody;

#[async_trait]
impl Users for Nobody {
    async fn user(&self, _principal: &str) -> Result<Option<UnixUser>, GssError> {
        Ok(None)
    }
}

/// Runs the client against a server whose clock is so far ahead.
async fn client(kdc: &Kdc, ahead: i64, service: &str, mode: &str) {
    let real = Environment::real();
    let kerberos = Kerberos::new("nfs", kdc.keytab(), real.entropy.clone());
    let environment = Environment { clock: Arc::new(Ahead(ahead, real.clock.clone())), ..real };
    let gss = GssServer::new(Arc::new(kerberos), Arc::new(Nobody), environment, GssLimits::default());
    let security = Security { gss: Some(Arc::new(gss)), ..Security::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let connection = Connection::tcp(stream, Arc::new(Echo), Limits::default()).unwrap();
            tokio::spawn(connection.with_security(&security).run());
        }
    });
    let mut command = kdc.program("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client.py")).args([
        &port.to_string(),
        service,
        mode,
    ]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    server.abort();
    assert!(output.status.success(), "{service} {mode}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_client_on_mit_kerberos_and_we_understand_each_other() {
    let kdc = Kdc::start();
    for kind in TYPES {
        client(&kdc, 0, &format!("nfs/{kind}@{REALM}"), "calls").await;
    }
    let service = format!("nfs/{}@{REALM}", TYPES[1]);
    client(&kdc, 7 * 24 * 3600, &service, &GssError::EXPIRED.to_string()).await;
    client(&kdc, 600, &service, &GssError::DEFECTIVE_CREDENTIAL.to_string()).await;
    client(&kdc, 0, &format!("host/box@{REALM}"), &GssError::NO_CREDENTIAL.to_string()).await;
    client(&kdc, 0, &format!("nfs/unknown@{REALM}"), &GssError::NO_CREDENTIAL.to_string()).await;
}
