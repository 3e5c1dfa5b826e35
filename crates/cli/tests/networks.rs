//! Clients that are not on this machine: what they may without a proof of who their users are.
//!
//! The gateway runs in network namespaces that the test makes, for which it needs root, or user namespaces; where it has
//! neither, it fails and says so.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // test code at the edge

mod support;

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use nfs4::{NfsArgOp, NfsResOp, NfsStatus, Outcome, SecInfo, SecInfoArgs};
use nfs4_client::operations::lookup;
use nfs4_client::{ClientError, Config, Session};
use onc_rpc::{AuthSys, Credential};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use support::{Gateway, Settings, free_port};

/// What is in namespaces of its own; the rest of the command line is run there, as their root. `/run` becomes empty, so
/// that the names of other namespaces are not in the way.
const NETWORKS: &str = "mount -t tmpfs none /run && ip netns add elsewhere && ip link set lo up \
    && ip link add gateway type veth peer name eth0 netns elsewhere \
    && ip addr add 10.213.0.1/24 dev gateway && ip link set gateway up \
    && ip -n elsewhere addr add 10.213.0.2/24 dev eth0 && ip -n elsewhere link set eth0 up \
    && ip -n elsewhere link set lo up && exec \"$@\"";

/// Tells the test that it is in there.
const INSIDE: &str = "KURMA_IN_NAMESPACES";

/// How a process gets namespaces of its own here, or why it does not.
fn namespaces() -> Result<&'static [&'static str], String> {
    let ways: [&[&str]; 3] = [
        &["unshare", "--mount", "--net"],
        &["unshare", "--mount", "--net", "--user", "--map-root-user"],
        &["sudo", "-n", "--preserve-env", "unshare", "--mount", "--net"],
    ];
    let mut tried = String::new();
    for way in ways {
        let mut command = Command::new(way[0]);
        command.args(&way[1..]).args(["sh", "-c", NETWORKS, "sh", "true"]);
        match command.stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => return Ok(way),
            Ok(output) => {
                tried += &format!("{}: {}\n", way.join(" "), String::from_utf8_lossy(&output.stderr).trim())
            }
            Err(error) => tried += &format!("{}: {error}\n", way.join(" ")),
        }
    }
    Err(tried)
}

#[test]
fn other_machines_are_believed_only_where_the_export_says_so() {
    if std::env::var_os(INSIDE).is_some() {
        return tokio::runtime::Runtime::new().unwrap().block_on(inside());
    }
    let way = namespaces().unwrap_or_else(|tried| {
        panic!(
            "no network namespaces with a veth pair between them: run this as root, with sudo, or where users may make \
             namespaces, and with iproute2. Tried:\n{tried}"
        )
    });
    let mut command = Command::new(way[0]);
    command.args(&way[1..]).args(["sh", "-c", NETWORKS, "sh"]).arg(std::env::current_exe().unwrap());
    let this = "other_machines_are_believed_only_where_the_export_says_so";
    command.args(["--exact", this, "--nocapture"]).env(INSIDE, "1");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Does `work` with the network of the other namespace.
fn elsewhere<F: Future>(work: impl FnOnce() -> F + Send) -> F::Output
where
    F::Output: Send,
{
    let thread = || {
        let namespace = File::open("/run/netns/elsewhere").unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work())
    };
    std::thread::scope(|scope| scope.spawn(thread).join().unwrap())
}

/// How the way to `home` ends.
async fn end_of_lookup(session: &Session) -> NfsStatus {
    match session.compound(&[NfsArgOp::PutRootFh, lookup("home")]).await {
        Ok(reply) => reply.status,
        Err(error) => panic!("{error}"),
    }
}

async fn connect(server: SocketAddr, credential: Credential) -> Result<Session, ClientError> {
    let config = Config { credential, ..Config::new(format!("client at {server}"), [1; 8]) };
    Session::connect(server, config, None).await
}

/// How it ends for AUTH_SYS and AUTH_NONE, and what is offered instead.
async fn outcome(server: SocketAddr) -> (NfsStatus, NfsStatus, Vec<SecInfo>) {
    let somebody = connect(server, Credential::Sys(AuthSys::new(1000, 100))).await.unwrap();
    let nobody = somebody.with_credential(Credential::None);
    let ask = NfsArgOp::SecInfo(SecInfoArgs { name: "home".into() });
    let results = somebody.execute(&[NfsArgOp::PutRootFh, ask]).await.unwrap();
    let Some(NfsResOp::SecInfo(Outcome::Ok(ways))) = results.last() else { panic!("{results:?}") };
    (end_of_lookup(&somebody).await, end_of_lookup(&nobody).await, ways.clone())
}

/// The test itself, in the namespaces.
async fn inside() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings::in_folder(folder.path());
    let mut gateway = Gateway::new(&folder.path().join("data"));
    let port = free_port().port();
    gateway.nfs = SocketAddr::from(([0, 0, 0, 0], port));
    let here = SocketAddr::from(([127, 0, 0, 1], port));
    let there = SocketAddr::from(([10, 213, 0, 1], port));
    let offered = vec![SecInfo::SYS, SecInfo::NONE];
    let refused = (NfsStatus::WrongSec, NfsStatus::WrongSec, Vec::new());
    let taken = (NfsStatus::Ok, NfsStatus::Ok, offered);

    settings.write(&gateway.data);
    gateway.launch();
    assert_eq!(outcome(here).await, taken, "this machine is believed");
    assert_eq!(elsewhere(|| outcome(there)), refused, "others are not");
    let line = "request refused: the export does not trust this address (`trusted`)";
    let lines: Vec<String> =
        gateway.log().lines().filter(|said| said.contains(line)).map(String::from).collect();
    assert_eq!(lines.len(), 1, "told once: {}", gateway.log());
    assert!(
        lines[0].contains("client=10.213.0.2 export=\"home\""),
        "for programs that look for it: {lines:?}"
    );
    assert_eq!(gateway.stop(), Some(0));

    let text = settings.text() + "export = { trusted = ['10.213.0.0/24'] }\n";
    std::fs::write(gateway.data.join("kurma.toml"), text).unwrap();
    gateway.launch();
    assert_eq!(elsewhere(|| outcome(there)), taken, "the export says so");
    assert_eq!(outcome(here).await, refused, "and says nothing of this machine");
    assert_eq!(gateway.stop(), Some(0));
}
