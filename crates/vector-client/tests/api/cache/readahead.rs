//! Files that are read from front to back by small reads.

use std::time::Duration;

use vector_client::{Open, Write};

use super::{content, cost};
use crate::world::World;

const LENGTH: usize = (4 << 20) + 5;

#[tokio::test]
async fn a_file_is_read_from_front_to_back_in_few_round_trips() {
    let world = World::new().await;
    let client = &world.client;
    let data = content(LENGTH, 1);
    client.vwrite(vec![Write::whole("/home/a", 0o600, data.clone())]).await.unwrap();
    let open = client.open(Open::read("/home/a")).await.unwrap();
    let all = async {
        let mut read = Vec::new();
        loop {
            let part = client.read(open, 4096).await.unwrap();
            read.extend_from_slice(&part.clone().into_bytes());
            if part.end_of_file {
                return read;
            }
        }
    };
    let (read, round_trips, bytes_in) = cost(client, all).await;
    assert!(read == data);
    assert!(round_trips <= 20, "{round_trips} instead of 1025");
    assert!(bytes_in < LENGTH as u64 * 5 / 4, "hardly anything is read twice: {bytes_in}");
    client.close_file(open).await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn of_a_file_that_is_read_here_and_there_nothing_else_is_read() {
    let world = World::new().await;
    let client = &world.client;
    client.vwrite(vec![Write::whole("/home/a", 0o600, content(LENGTH, 1))]).await.unwrap();
    let open = client.open(Open::read("/home/a")).await.unwrap();
    let some = async {
        for number in 0..50_u64 {
            client.pread(open, (number * 7919 % 50) * 80_000, 1000).await.unwrap();
        }
    };
    let ((), _, bytes_in) = cost(client, some).await;
    assert!(bytes_in < 50 * 1500, "{bytes_in}");
}

#[tokio::test]
async fn what_is_written_while_the_file_is_read_ahead_is_read() {
    let world = World::new().await;
    let (client, other) = (&world.client, world.another().await);
    let mut data = content(LENGTH, 1).to_vec();
    for (file, own) in [("/home/a", false), ("/home/b", true)] {
        client.vwrite(vec![Write::whole(file, 0o600, data.clone())]).await.unwrap();
        let open = client.open(Open::read(file)).await.unwrap();
        for part in 0..100 {
            let start = part * 5000;
            let read = client.read(open, 5000).await.unwrap().into_bytes();
            assert!(read == data[start..start + 5000], "{part}");
            // Surely read ahead already.
            let place = start + 5000 + 17;
            data[place] = part as u8;
            let write = vec![Write::new(file, place as u64, vec![part as u8])];
            let writer = if own { client } else { &other };
            writer.vwrite(write).await.unwrap();
        }
        client.close_file(open).await.unwrap();
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_is_read_ahead_comes_though_the_runtime_of_the_reader_stands_still() {
    const PART: u64 = 4096;
    let world = World::new().await;
    let client = &world.client;
    let data = content(1 << 20, 1);
    client.vwrite(vec![Write::whole("/home/a", 0o600, data.clone())]).await.unwrap();
    let open = client.open(Open::read("/home/a")).await.unwrap();
    // Up to where the second part is asked for.
    let elsewhere = client.clone();
    let reader = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for number in 0..19 {
                elsewhere.pread(open, number * PART, PART).await.unwrap();
            }
        });
        runtime
    });
    let runtime = reader.await.unwrap();
    for number in 19..64 {
        let read = client.pread(open, number * PART, PART);
        let read = tokio::time::timeout(Duration::from_secs(20), read).await.expect("it is on its way");
        assert!(read.unwrap().into_bytes() == data[(number * PART) as usize..][..PART as usize]);
    }
    runtime.shutdown_background();
    client.close_file(open).await.unwrap();
}
