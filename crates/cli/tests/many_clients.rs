//! Memory for many clients: a thousand of them, with ten files open each.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use nfs4::bits::share_access;
use nfs4::{NfsArgOp, NfsCbArgOp, NfsCbResOp, NfsStatus, OpenHow, StateId};
use nfs4_client::operations::{close, open, owner, put_handle, unchecked};
use nfs4_client::{Callback, Config, Session};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{Client, Gateway, Settings};

const CLIENTS: usize = 1000;
const FILES: usize = 10;
const RESIDENT: u64 = 256 << 20;

/// Clients at work at one time.
const AT_ONCE: usize = 32;

/// Clients that can be called back, so that files are delegated to it.
struct Agrees;

#[async_trait]
impl Callback for Agrees {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        NfsCbResOp::failure(operation.op_code(), NfsStatus::NotSupp)
    }
}

/// The clients are in this process, with a socket each.
fn allow_many_sockets() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

fn name(client: usize, file: usize) -> String {
    format!("{client}-{file}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_clients_with_ten_open_files_each_fit_into_256_mib() {
    allow_many_sockets();
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start_with(&folder.path().join("data"), &Settings::in_folder(folder.path()));
    let maker = Client::connect(gateway.nfs, "maker").await;
    for first in (0..CLIENTS).step_by(5) {
        let mut request = vec![];
        for number in first * FILES..(first + 5) * FILES {
            let name = name(number / FILES, number % FILES);
            let access = share_access::WRITE | share_access::WANT_NO_DELEG;
            request.push(put_handle(&maker.home));
            request.push(open(name, access, unchecked(0o666), owner("maker")));
            request.push(close(StateId::CURRENT));
        }
        maker.run(&request).await.unwrap();
    }
    let home = maker.home.clone();
    maker.session.destroy_client().await.unwrap();

    let callback: Arc<dyn Callback> = Arc::new(Agrees);
    let connect = |number: usize| {
        let (callback, home) = (callback.clone(), home.clone());
        async move {
            let config = Config::new(format!("client {number}"), [1; 8]);
            let session = Session::connect(gateway.nfs, config, Some(callback)).await.unwrap();
            let opens = (0..FILES).flat_map(|file| {
                let open = open(name(number, file), share_access::BOTH, OpenHow::NoCreate, owner("o"));
                [put_handle(&home), open]
            });
            session.execute(&opens.collect::<Vec<NfsArgOp>>()).await.unwrap();
            session
        }
    };
    let sessions: Vec<Session> =
        stream::iter(0..CLIENTS).map(connect).buffer_unordered(AT_ONCE).collect().await;
    let resident = gateway.resident();
    println!("resident with {CLIENTS} clients: {} MiB", resident >> 20);
    assert!(resident < RESIDENT, "{resident} bytes");
    for session in sessions {
        session.renew().await.expect("nobody was sent away to make room");
    }
}
