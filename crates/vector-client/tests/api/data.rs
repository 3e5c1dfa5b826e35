//! Reading and writing (V1 to V5, V26).

use bytes::Bytes;
use vector_client::{APPEND, AttributeSet, Copy, Creation, Done, Error, Open, Read, Step, Target, Write};

use crate::world::World;

fn whole(n: usize) -> Write {
    Write::whole(format!("/home/file-{n}"), 0o644, format!("content {n}"))
}

#[tokio::test]
async fn many_files_are_made_written_and_read_in_one_round_trip_each() {
    for world in World::each().await {
        let written = world.costing(1, world.client.vwrite((0..50).map(whole).collect())).await;
        assert_eq!(written.unwrap()[0], 9);
        let reads = (0..50).map(|n| Read::new(format!("/home/file-{n}"), 0, 100)).collect();
        let data = world.costing(1, world.client.vread(reads)).await;
        let data = data.unwrap();
        for (n, data) in data.into_iter().enumerate() {
            assert!(data.end_of_file);
            assert_eq!(data.into_bytes(), format!("content {n}"));
        }
    }
}

#[tokio::test]
async fn two_reads_of_one_path_share_an_open() {
    let world = World::over_nfs().await;
    world.client.vwrite(vec![whole(0)]).await.unwrap();
    let before = world.client.statistics().operations;
    let read = |offset| Read::new("/home/file-0", offset, 3);
    let data = world.client.vread(vec![read(0), read(4)]).await.unwrap();
    assert_eq!(data[1].clone().into_bytes(), "ent");
    // PUTROOTFH, LOOKUP, OPEN, GETATTR, READ, GETATTR, READ, CLOSE.
    assert_eq!(world.client.statistics().operations - before, 8);
}

#[tokio::test]
async fn a_file_may_be_written_and_read_in_one_vector() {
    for world in World::each().await {
        let steps = vec![
            Step::Write(whole(1)),
            Step::Read(Read::new("/home/file-1", 0, 100)),
            Step::Write(Write::new("/home/file-1", 2, "XX")),
            Step::Read(Read::new("/home/file-1", 0, 100)),
        ];
        let done = world.costing(1, world.client.execute(steps)).await;
        let vector_client::Done::Read(data) = done.unwrap().pop().unwrap() else { panic!() };
        assert_eq!(data.into_bytes(), "coXXent 1");
    }
}

#[tokio::test]
async fn the_third_of_five_fails_and_the_rest_is_untouched() {
    for world in World::each().await {
        let mut writes: Vec<_> = (0..5).map(whole).collect();
        writes[2].create = None;
        let failure = world.client.vwrite(writes).await.unwrap_err();
        assert_eq!((failure.index(), failure.unknown), (2, 0));
        assert!(failure.error.is_not_found(), "{failure}");
        let targets = (0..5).map(|n| format!("/home/file-{n}").into());
        for (n, target) in targets.enumerate() {
            let there = world.client.vgetattrs(vec![target], AttributeSet::SIZE).await;
            assert_eq!(there.is_ok(), n < 2, "{n}");
        }
    }
}

#[tokio::test]
async fn an_exclusive_creation_of_an_existing_file_fails() {
    for world in World::each().await {
        let mut write = whole(0);
        (write.truncate, write.create) = (false, Some(Creation { mode: 0o600, exclusive: true }));
        world.client.vwrite(vec![write.clone()]).await.unwrap();
        let failure = world.client.vwrite(vec![whole(1), write]).await.unwrap_err();
        assert_eq!(failure.index(), 1);
        assert!(failure.error.is_exists(), "{failure}");
    }
}

#[tokio::test]
async fn large_files_are_whole_and_no_message_is_too_long() {
    let world = World::with(nfs4_server::Limits::default(), |options| {
        options.nfs.message_bytes = 1 << 20;
    })
    .await;
    let data: Bytes = (0..20_000_000_u32).map(|n| (n / 7) as u8).collect::<Vec<_>>().into();
    let write = Write::whole("/home/large", 0o600, data.clone());
    let (written, trips) = world.round_trips(world.client.vwrite(vec![write])).await;
    assert_eq!(written.unwrap(), [20_000_000]);
    assert!(trips <= 22, "{trips}");
    let reads = vec![
        Read::new("/home/large", 0, 5_000_000),
        Read::new("/home/large", 5_000_000, 20_000_000),
        Read::new("/home/large", 30_000_000, 5),
    ];
    let read = world.client.vread(reads).await.unwrap();
    assert_eq!(read.iter().map(|data| data.len()).collect::<Vec<_>>(), [5_000_000, 15_000_000, 0]);
    assert_eq!(read.iter().map(|data| data.end_of_file).collect::<Vec<_>>(), [false, true, true]);
    let all: Vec<Bytes> = read.into_iter().map(|data| data.into_bytes()).collect();
    assert_eq!(all.concat(), data);
}

#[tokio::test]
async fn appended_records_of_many_clients_are_all_there() {
    for world in World::of_ours().await {
        world.client.vwrite(vec![Write::whole("/home/log", 0o600, "")]).await.unwrap();
        let mut writers = Vec::new();
        for writer in 0..8_u8 {
            let client = world.another().await;
            writers.push(tokio::spawn(async move {
                for record in 0..1000 {
                    let line = format!("{writer} {record:03}\n");
                    client.vwrite(vec![Write::append("/home/log", line)]).await.unwrap();
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        let log = world.client.vread(vec![Read::new("/home/log", 0, 1 << 20)]).await.unwrap().remove(0);
        let mut lines: Vec<String> =
            String::from_utf8(log.into_bytes().to_vec()).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        let expected: Vec<String> =
            (0..8).flat_map(|writer| (0..1000).map(move |record| format!("{writer} {record:03}"))).collect();
        assert_eq!(lines, expected);
    }
}

#[tokio::test]
async fn appending_goes_on_where_the_last_append_ended() {
    for world in World::of_ours().await {
        let create = Some(Creation { mode: 0o600, exclusive: false });
        let append = |text: &'static str| Write { create, ..Write::append("/home/log", text) };
        world.client.vwrite(vec![append("one "), append("two "), append("three")]).await.unwrap();
        let log = world.client.vread(vec![Read::new("/home/log", 0, 100)]).await.unwrap().remove(0);
        assert_eq!(log.into_bytes(), "one two three");
        let much = world.client.vwrite(vec![Write::append("/home/log", vec![0; 5 << 20])]).await;
        if world.is_nfs() {
            let failure = much.unwrap_err();
            assert!(matches!(failure.error, Error::Invalid { .. }), "{failure}");
        } else {
            assert_eq!(much.unwrap(), [5 << 20]);
        }
        assert_eq!(APPEND, u64::MAX);
    }
}

#[tokio::test]
async fn a_copy_within_the_server_sends_no_data() {
    for world in World::of_ours().await {
        let data: Bytes = (0..9_000_000_u32).map(|n| (n / 11) as u8).collect::<Vec<_>>().into();
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, data.clone()), whole(1)]).await.unwrap();
        let part = Copy {
            source_offset: 3,
            destination_offset: 1,
            length: 4,
            truncate: false,
            ..Copy::whole("/home/file-1", "/home/part", 0o644)
        };
        let copies = vec![Copy::whole("/home/a", "/home/b", 0o600), part];
        assert_eq!(world.client.vsscopy(copies).await.unwrap(), [9_000_000, 4]);
        let reads = vec![Read::new("/home/b", 0, 10_000_000), Read::new("/home/part", 0, 100)];
        let read = world.client.vread(reads).await.unwrap();
        assert_eq!(read[0].clone().into_bytes(), data);
        assert_eq!(read[1].clone().into_bytes(), "\0tent");
    }
}

#[tokio::test]
async fn many_whole_files_are_copied_in_one_round_trip() {
    for world in World::of_ours().await {
        world.client.vwrite((0..40).map(whole).collect()).await.unwrap();
        let copies =
            (0..40).map(|n| Copy::whole(format!("/home/file-{n}"), format!("/home/copy-{n}"), 0o600));
        let copied = world.costing(1, world.client.vsscopy(copies.collect())).await;
        assert_eq!(copied.unwrap()[39], 10);
    }
}

#[tokio::test]
async fn a_read_may_ask_for_more_than_any_file_has() {
    for world in World::each().await {
        let data: Bytes = (0..2_000_000_u32).map(|n| (n / 13) as u8).collect::<Vec<_>>().into();
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, data.clone()), whole(1)]).await.unwrap();
        let before = world.client.statistics().round_trips;
        let reads = ["/home/a", "/home/file-1"].map(|path| Read::new(path, 1, u64::MAX)).into();
        let read = world.client.vread(reads).await.unwrap();
        assert!(read.iter().all(|data| data.end_of_file));
        assert_eq!(read[0].clone().into_bytes(), data.slice(1..));
        assert_eq!(read[1].clone().into_bytes(), "ontent 1");
        assert!(world.client.statistics().round_trips - before <= 40);
    }
}

#[tokio::test]
async fn what_follows_a_copy_that_takes_several_requests_waits_for_all_of_it_and_is_never_done_twice() {
    for world in World::of_ours().await {
        let data: Bytes = (0..9_000_001_u32).map(|n| (n / 17) as u8).collect::<Vec<_>>().into();
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, data.clone()), whole(1)]).await.unwrap();
        let steps = vec![
            // The offsets keep the server from sharing blocks, so that it copies a part at a time.
            Step::Copy(Copy { source_offset: 1, ..Copy::whole("/home/a", "/home/b", 0o600) }),
            Step::Copy(Copy {
                create: Some(Creation { mode: 0o600, exclusive: true }),
                ..Copy::whole("/home/file-1", "/home/c", 0o600)
            }),
            Step::Copy(Copy { source_offset: 1, ..Copy::whole("/home/b", "/home/d", 0o600) }),
            Step::Remove("/home/a".into()),
            Step::Remove("/home/b".into()),
            Step::Rename { from: "/home/c".into(), to: "/home/a".into() },
        ];
        let done = world.client.execute(steps).await.unwrap();
        assert_eq!(done[..3], [9_000_000, 9, 8_999_999].map(Done::Copied));
        let reads = ["/home/d", "/home/a"].map(|path| Read::new(path, 0, 10_000_000));
        let read = world.client.vread(reads.into()).await.unwrap();
        assert_eq!(read[0].clone().into_bytes(), data.slice(2..));
        assert_eq!(read[1].clone().into_bytes(), "content 1");
    }
}

#[tokio::test]
async fn a_copy_of_what_is_being_copied_waits_for_it_however_it_is_named() {
    for world in World::of_ours().await {
        let data: Bytes = (0..9_000_001_u32).map(|n| (n / 17) as u8).collect::<Vec<_>>().into();
        world.client.vmkdir(vec![("/home/x".into(), 0o755)]).await.unwrap();
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, data.clone())]).await.unwrap();
        let open = world.client.open(Open::create("/home/b", 0o600)).await.unwrap();
        let both = world.client.open(Open { write: false, ..Open::read("/home/b") }).await.unwrap();
        for name in ["home/b".into(), "/home//b".into(), "/home/x/../b".into(), Target::from(both)] {
            for to in [Target::from("/home/b"), open.into()] {
                // The offset keeps the server from sharing blocks, so that it copies a part at a time.
                let first = Copy { source_offset: 1, ..Copy::whole("/home/a", to, 0o600) };
                let second = Copy::whole(name.clone(), "/home/c", 0o600);
                let copied = world.client.vsscopy(vec![first, second]).await.unwrap();
                assert_eq!(copied, [9_000_000, 9_000_000]);
            }
        }
        let copy = world.client.vread(vec![Read::new("/home/c", 0, 10_000_000)]).await.unwrap().remove(0);
        assert_eq!(copy.into_bytes(), data.slice(1..));
    }
}

#[tokio::test]
async fn a_long_write_through_a_descriptor_cuts_off_what_was_there_if_asked_to() {
    for world in World::of_ours().await {
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, "before")]).await.unwrap();
        let open = world.client.open(Open::write("/home/a")).await.unwrap();
        let data = vec![1; (2 << 20) + 1];
        let write = Write { truncate: true, ..Write::new(open, 3, data) };
        world.client.vwrite(vec![write]).await.unwrap();
        let start = world.client.pread(open, 0, 4).await.unwrap().into_bytes();
        assert_eq!(start[..], [0, 0, 0, 1]);
    }
}
