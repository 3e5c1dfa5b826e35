//! The drivers that need no server.

use cloud::conformance::Abilities;
use cloud::{Cloud, Memory};

use crate::hard::good_times;
use crate::trial::{connect, patient};

const MANY: usize = 10_000;

#[tokio::test]
async fn a_directory_lives_through_much_and_many() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("dir://{}", folder.path().display());
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(connect(&url, &patient(None)).await);
    }
    let several: Vec<&dyn Cloud> = connections.iter().map(|connection| &**connection).collect();
    good_times(several[0], &several, Abilities::ALL, MANY).await;
}

#[tokio::test]
async fn memory_lives_through_much_and_many() {
    let memory = Memory::new("memory");
    good_times(&*memory, &[&*memory], Abilities::ALL, MANY).await;
}
