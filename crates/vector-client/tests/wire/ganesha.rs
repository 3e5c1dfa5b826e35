//! The same with a server of another make. `make foreign` runs it.

use vector_client::{Client, Open, Options, Read, Write};

use crate::calls::{self, Has};
use crate::counted::Counted;
use crate::page;
use crate::world::ganesha_server::Ganesha;

/// Operations that NFS-Ganesha 4.3 takes at once, whatever it grants.
const OPERATIONS: u32 = 100;

/// What it does, the way it is told to be.
const GANESHA: Has = Has { copy: false, delegations: false };

#[tokio::test]
#[ignore = "needs NFS-Ganesha: make foreign"]
async fn the_same_calls_cost_the_same_with_ganesha() {
    let server = Ganesha::start().await;
    let counted = Counted::connect(server.address).await;
    calls::vectors(&counted, 10, &GANESHA).await;
    calls::scalars(&counted).await;
    counted.check_with("calls");
}

#[tokio::test]
#[ignore = "needs NFS-Ganesha: make foreign"]
async fn trees_cost_round_trips_by_their_depth_with_ganesha() {
    for depth in 1..=4 {
        let server = Ganesha::start().await;
        let counted =
            Counted::connect_with(server.address, |options| options.nfs.operations = OPERATIONS).await;
        calls::tree(&counted, depth, &GANESHA).await;
        counted.check_with(&format!("a tree of depth {depth}"));
    }
}

#[tokio::test]
#[ignore = "needs NFS-Ganesha: make foreign"]
async fn a_page_of_96_files_costs_as_many_round_trips_as_its_operations_need_with_ganesha() {
    let server = Ganesha::start().await;
    let counted = Counted::connect_with(server.address, |options| options.nfs.operations = OPERATIONS).await;
    // Three operations for the attributes of an object, five for its content, and the ways to the folders.
    page::get(&counted, [1, 4, 5]).await;
    counted.check_with("the page");
}

#[tokio::test]
#[ignore = "needs NFS-Ganesha: make foreign"]
async fn vectors_longer_than_a_server_takes_or_can_even_decode_are_done_in_parts() {
    let server = Ganesha::start().await;
    for many in [150, 250, 1000] {
        let client = Client::connect(server.address, Options::default()).await.unwrap();
        let names: Vec<String> = (0..many).map(|n| format!("/home/{many}-{n}")).collect();
        let writes = names.iter().map(|name| Write::whole(name.as_str(), 0o644, name.clone()));
        client.vwrite(writes.collect()).await.unwrap();
        // None of what another one has learnt.
        let client = Client::connect(server.address, Options::default()).await.unwrap();
        let reads = names.iter().map(|name| Read::new(name.as_str(), 0, 100));
        let read = client.vread(reads.collect()).await.unwrap();
        for (data, name) in read.into_iter().zip(&names) {
            assert_eq!(data.into_bytes(), name.as_bytes());
        }
        client.vremove(names.iter().map(|name| name.as_str().into()).collect()).await.unwrap();
        client.close().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs NFS-Ganesha, and root, to whom alone it serves folders: make foreign"]
async fn open_files_are_reclaimed_when_ganesha_was_killed_and_started_again() {
    let mut server = Ganesha::start_in_folder().await;
    let client = Client::connect(server.address, Options::default()).await.unwrap();
    let opens = (0..100).map(|n| Open::create(format!("/home/{n}"), 0o600)).collect();
    let files = client.vopen(opens).await.unwrap();
    // Its name leads nowhere any more: who opens it anew does not find it.
    client.rename("/home/0", "/home/renamed").await.unwrap();
    for round in 0..3_u64 {
        let safe = |file| Write { stable: true, ..Write::new(file, round, format!("{round}")) };
        client.vwrite(files.iter().copied().map(safe).collect()).await.unwrap();
        server.restart().await;
        let read = client.vread(files.iter().map(|file| Read::new(*file, 0, 9)).collect()).await.unwrap();
        for data in read {
            assert_eq!(data.into_bytes(), &b"012"[..=round as usize]);
        }
    }
    client.vclose(files).await.unwrap();
    // Another one, whom nobody keeps out any more.
    let other = Client::connect(server.address, Options::default()).await.unwrap();
    let data = other.vread(vec![Read::new("/home/renamed", 0, 9)]).await.unwrap().remove(0);
    assert_eq!(data.into_bytes(), "012");
    other.close().await.unwrap();
    client.close().await.unwrap();
}
