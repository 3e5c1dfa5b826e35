//! Servers that fall silent, and lines that break.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nfs4_server::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::compiler::{SUITE, run};
use crate::world::World;

/// Runs a case that says whenever it is ready for what happens to the server, and is told when that has happened.
pub fn check(case: &str, address: &str, mut happens: impl FnMut()) {
    let mut child = Command::new(&*SUITE)
        .args([case, "nfs", address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut times = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        assert_eq!(line.unwrap(), "ready");
        happens();
        input.write_all(b"g").unwrap();
        times += 1;
    }
    let status = child.wait().unwrap();
    assert!(status.success() && times > 0, "{case}: {status}, {times} times");
}

#[test]
fn a_server_that_is_gone_ends_calls_and_lets_go_of_memory() {
    let world = World::nfs(Limits::default());
    let [_, address] = world.arguments().map(str::to_owned);
    let mut world = Some(world);
    check("a_server_that_is_gone_ends_calls_and_lets_go_of_memory", &address, || drop(world.take()));
}

/// Passes on what is sent, and what is answered until it is silent.
async fn pass(client: TcpStream, server: String, is_silent: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(server).await.unwrap().into_split();
    let answers = async {
        let mut data = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from_server.read(&mut data).await {
            if !is_silent.load(Ordering::SeqCst) && to_client.write_all(&data[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        () = answers => {}
    }
}

#[test]
fn a_lost_answer_is_told_as_unknown_and_nothing_is_repeated() {
    let world = World::nfs(Limits::default());
    let World::Nfs { address, runtime } = &world else { unreachable!() };
    let is_silent = Arc::new(AtomicBool::new(false));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let proxy = listener.local_addr().unwrap().to_string();
    let (server, silent) = (address.clone(), is_silent.clone());
    runtime.spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass(client, server.clone(), silent.clone()));
        }
    });
    let silence = || is_silent.store(true, Ordering::SeqCst);
    check("a_lost_answer_is_told_as_unknown_and_nothing_is_repeated", &proxy, silence);
    run(Command::new(&*SUITE).args(["what_was_left_by_a_lost_answer_was_done_once", "nfs", address]));
}

/// Programs, and how often the line breaks for one of them; after each break they wait for longer.
const PROGRAMS: usize = 4;
const BREAKS: usize = 20;

/// Passes on what is sent and answered, until so many bytes have been sent. What was sent beyond is on its way then.
async fn pass_some(client: TcpStream, server: String, mut left: usize) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(server).await.unwrap().into_split();
    let calls = async {
        let mut data = vec![0; 64 << 10];
        while left > 0 {
            let most = left.min(data.len());
            let Ok(length @ 1..) = from_client.read(&mut data[..most]).await else { return };
            left -= length;
            if to_server.write_all(&data[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = calls => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
}

#[test]
fn a_line_that_breaks_again_and_again_loses_nothing() {
    let case = "a_line_that_breaks_again_and_again_loses_nothing";
    let world = World::nfs(Limits::default());
    let World::Nfs { address, runtime } = &world else { unreachable!() };
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let proxy = listener.local_addr().unwrap().to_string();
    let server = address.clone();
    runtime.spawn(async move {
        let lengths =
            (0..BREAKS).map(|number| (number % 6 + 1) * 300_000).chain(std::iter::repeat(usize::MAX));
        for length in lengths {
            let Ok((client, _)) = listener.accept().await else { return };
            tokio::spawn(pass_some(client, server.clone(), length));
        }
    });
    let program = || run(Command::new(&*SUITE).args([case, "nfs", &proxy]));
    std::thread::scope(|scope| {
        for _ in 0..PROGRAMS {
            scope.spawn(program);
        }
    });
}
