//! One file at a time, as in POSIX (V8, V23).

use std::io::SeekFrom;

use vector_client::{AttributeSet, Creation, Kind, Open, Owner, SetTime, Time};

use crate::world::World;

#[tokio::test]
async fn a_posix_program_runs_after_renaming_calls() {
    for world in World::each().await {
        let client = &world.client;
        client.mkdir("/home/d", 0o755).await.unwrap();
        let file = client.create("/home/d/f", 0o640).await.unwrap();
        assert_eq!(client.write(file, "hello ").await.unwrap(), 6);
        assert_eq!(client.write(file, "world").await.unwrap(), 5);
        client.fsync(file).await.unwrap();
        assert_eq!(client.lseek(file, SeekFrom::Start(4)).await.unwrap(), 4);
        assert_eq!(client.read(file, 3).await.unwrap().into_bytes(), "o w");
        assert_eq!(client.read(file, 99).await.unwrap().into_bytes(), "orld");
        assert!(client.read(file, 99).await.unwrap().is_empty());
        assert_eq!(client.pread(file, 0, 5).await.unwrap().into_bytes(), "hello");
        assert_eq!(client.lseek(file, SeekFrom::Current(0)).await.unwrap(), 11);
        assert_eq!(client.lseek(file, SeekFrom::End(-1)).await.unwrap(), 10);
        client.pwrite(file, 0, "J").await.unwrap();
        client.append(file, "!").await.unwrap();
        assert_eq!(client.read(file, 99).await.unwrap().into_bytes(), "d!");
        assert_eq!(client.lseek(file, SeekFrom::Current(-99)).await.unwrap_err().errno(), 22);
        assert_eq!(client.fstat(file).await.unwrap().size, Some(12));
        client.ftruncate(file, 5).await.unwrap();
        client.close_file(file).await.unwrap();
        assert_eq!(client.read(file, 1).await.unwrap_err().errno(), 9);

        client.symlink("f", "/home/d/s").await.unwrap();
        assert_eq!(client.readlink("/home/d/s").await.unwrap(), "f");
        assert!(client.lstat("/home/d/s").await.unwrap().is(Kind::SymbolicLink));
        assert_eq!(client.stat("/home/d/s").await.unwrap().size, Some(5));
        client.link("/home/d/f", "/home/d/g").await.unwrap();
        assert_eq!(client.stat("/home/d/f").await.unwrap().links, Some(2));
        client.rename("/home/d/g", "/home/d/h").await.unwrap();
        assert!(!client.exists("/home/d/g").await.unwrap());
        client.chmod("/home/d/s", 0o600).await.unwrap();
        let time = SetTime::To(Time { seconds: 1234, nanoseconds: 5000 });
        client.utimens("/home/d/f", Some(time), Some(time)).await.unwrap();
        client.truncate("/home/d/f", 2).await.unwrap();
        client.utimens("/home/d/f", None, Some(time)).await.unwrap();
        let stat = client.stat("/home/d/f").await.unwrap();
        assert_eq!((stat.mode, stat.size), (Some(0o600), Some(2)));
        assert_eq!(stat.modified, Some(Time { seconds: 1234, nanoseconds: 5000 }));
        client.chown("/home/d/f", Some(Owner::Id(world.user())), None).await.unwrap();

        let mut names: Vec<_> =
            client.list("/home/d", AttributeSet::NONE).await.unwrap().into_iter().map(|it| it.name).collect();
        names.sort();
        assert_eq!(names, ["f", "h", "s"]);
        for name in ["/home/d/f", "/home/d/h", "/home/d/s"] {
            client.unlink(name).await.unwrap();
        }
        client.rmdir("/home/d").await.unwrap();
        assert!(!client.exists("/home/d").await.unwrap());
    }
}

#[tokio::test]
async fn calls_fail_as_posix_says() {
    for world in World::each().await {
        let client = &world.client;
        client.mkdir("/home/d", 0o755).await.unwrap();
        let file = client.create("/home/f", 0o644).await.unwrap();
        client.close_file(file).await.unwrap();
        let errno = |result: Result<(), vector_client::Error>| result.unwrap_err().errno();
        assert_eq!(errno(client.unlink("/home/d").await), 21);
        assert_eq!(errno(client.rmdir("/home/f").await), 20);
        assert_eq!(errno(client.unlink("/home/none").await), 2);
        assert_eq!(errno(client.mkdir("/home/f", 0o755).await), 17);
        assert_eq!(errno(client.truncate("/home/none", 0).await), 2);
        let exclusive = Some(Creation { mode: 0o644, exclusive: true });
        let again = client.open(Open { create: exclusive, ..Open::write("/home/f") }).await;
        assert_eq!(again.unwrap_err().errno(), 17);
        assert!(client.exists("/home/d").await.unwrap() && client.exists("/home/f").await.unwrap());
    }
}

#[tokio::test]
async fn readers_of_one_descriptor_never_get_the_same_bytes() {
    for world in World::each().await {
        let client = &world.client;
        let file = client.create("/home/f", 0o644).await.unwrap();
        client.pwrite(file, 0, (0..=255).collect::<Vec<u8>>()).await.unwrap();
        let reads = (0..32).map(|_| client.read(file, 8));
        let mut all = Vec::new();
        for data in futures::future::join_all(reads).await {
            all.extend(data.unwrap().into_bytes());
        }
        all.sort_unstable();
        assert_eq!(all, (0..=255).collect::<Vec<u8>>());
    }
}
