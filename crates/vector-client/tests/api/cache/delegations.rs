//! Files that the server has delegated: nothing is asked, and nothing is older than what others, or the client itself, have
//! written.

use std::io::SeekFrom;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::task::Poll;
use std::time::Duration;

use environment::{Clock, Environment};
use ids::Timestamp;
use vector_client::{AttributeSet, NewAttributes, Open, Read, Step, Write};

use super::{content, cost, whole};
use crate::restart::{LEASE, Restarting};
use crate::world::World;

const WANTED: AttributeSet = AttributeSet::SIZE.with(AttributeSet::MODE).with(AttributeSet::CHANGE);

#[tokio::test]
async fn what_was_read_of_a_delegated_file_is_read_again_without_asking() {
    let world = World::new().await;
    let client = &world.client;
    let data = content((5 << 20) + 3, 1);
    client.vwrite(vec![Write::whole("/home/a", 0o600, data.clone())]).await.unwrap();
    let open = client.open(Open::read("/home/a")).await.unwrap();
    assert!(client.pread(open, 0, 6 << 20).await.unwrap().into_bytes() == data);
    let attributes = client.vgetattrs(vec![open.into()], WANTED).await.unwrap();
    let again = async {
        assert!(client.pread(open, 0, 6 << 20).await.unwrap().into_bytes() == data);
        for _ in 0..2 {
            assert!(
                client.pread(open, 1000, 3 << 20).await.unwrap().into_bytes() == data[1000..1000 + (3 << 20)]
            );
            assert_eq!(client.pread(open, 5 << 20, 1000).await.unwrap().len(), 3);
            assert!(client.pread(open, 6 << 20, 1000).await.unwrap().end_of_file);
        }
        assert_eq!(client.vgetattrs(vec![open.into()], WANTED).await.unwrap(), attributes);
        assert_eq!(client.lseek(open, SeekFrom::End(0)).await.unwrap(), data.len() as u64);
    };
    let ((), round_trips, bytes_in) = cost(client, again).await;
    assert_eq!((round_trips, bytes_in), (0, 0));
    let ((), round_trips, _) = cost(client, async { client.close_file(open).await.unwrap() }).await;
    assert_eq!(round_trips, 1, "open and delegation go together");
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_another_client_writes_is_seen_after_the_recall() {
    let world = World::new().await;
    let (client, other) = (&world.client, world.another().await);
    client.vwrite(vec![Write::whole("/home/a", 0o600, "0123456789")]).await.unwrap();
    let open = client.open(Open::read("/home/a")).await.unwrap();
    let read = || async { client.pread(open, 0, 100).await.unwrap().into_bytes() };
    let size = || async { client.vgetattrs(vec![open.into()], WANTED).await.unwrap()[0].size };
    assert_eq!((read().await, size().await), ("0123456789".into(), Some(10)));
    let (_, round_trips, _) = cost(client, async { (read().await, size().await) }).await;
    assert_eq!(round_trips, 0);
    other.vwrite(vec![Write::new("/home/a", 3, "xxx")]).await.unwrap();
    assert_eq!(read().await, "012xxx6789");
    other.truncate("/home/a", 5).await.unwrap();
    assert_eq!((read().await, size().await), ("012xx".into(), Some(5)));
    let (data, round_trips, _) = cost(client, read()).await;
    assert_eq!((&data[..], round_trips), (&b"012xx"[..], 1), "asked, as nothing is promised any more");
    client.close_file(open).await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_the_client_writes_itself_is_seen_though_the_server_recalls_nothing() {
    let world = World::new().await;
    let client = &world.client;
    client.vwrite(vec![Write::whole("/home/a", 0o600, "0123456789")]).await.unwrap();
    client.link("/home/a", "/home/b").await.unwrap();
    let open = client.open(Open::read("/home/a")).await.unwrap();
    let for_writing = client.open(Open::write("/home/b")).await.unwrap();
    let read = || async {
        let data = client.pread(open, 0, 100).await.unwrap().into_bytes();
        let (again, round_trips, _) = cost(client, client.pread(open, 0, 100)).await;
        assert_eq!((again.unwrap().into_bytes(), round_trips), (data.clone(), 0), "it is delegated still");
        let size = client.vgetattrs(vec![open.into()], WANTED).await.unwrap()[0].size;
        assert_eq!(size, Some(data.len() as u64));
        data
    };
    assert_eq!(read().await, "0123456789");
    client.pwrite(for_writing, 0, "w").await.unwrap();
    assert_eq!(read().await, "w123456789");
    client.vwrite(vec![Write::new("/home/b", 1, "x")]).await.unwrap();
    assert_eq!(read().await, "wx23456789");
    let transaction = client.transaction(|t| {
        t.set_attributes("/home/b", NewAttributes::size(4));
    });
    transaction.await.unwrap();
    assert_eq!(read().await, "wx23");
    let cut = client.open(Open { truncate: true, ..Open::write("/home/b") }).await.unwrap();
    assert_eq!(read().await, "");
    client.vsetattrs(vec![(cut.into(), NewAttributes::size(2))]).await.unwrap();
    assert_eq!(read().await, "\0\0");
    client.vclose(vec![open, for_writing, cut]).await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_is_closed_is_in_nobodys_way() {
    let world = World::new().await;
    let other = world.another().await;
    world.client.vwrite(vec![Write::whole("/home/a", 0o600, "a")]).await.unwrap();
    let open = world.client.open(Open::read("/home/a")).await.unwrap();
    world.client.pread(open, 0, 1).await.unwrap();
    world.client.close_file(open).await.unwrap();
    let (written, round_trips, _) = cost(&other, other.vwrite(vec![Write::new("/home/a", 0, "b")])).await;
    written.unwrap();
    assert_eq!(round_trips, 1, "nothing is recalled");
}

#[tokio::test]
async fn a_delegation_that_came_with_an_open_that_nobody_waited_for_is_given_back() {
    let world = World::new().await;
    let other = world.another().await;
    world.client.vwrite(vec![Write::whole("/home/a", 0o600, "a")]).await.unwrap();
    for _ in 0..8 {
        // Sent, and given up at once.
        let open = world.client.open(Open::read("/home/a"));
        futures::pin_mut!(open);
        assert!(matches!(futures::poll!(open.as_mut()), Poll::Pending));
    }
    // What waits for the server to give up the holder waits for a lease.
    let write = other.vwrite(vec![Write::new("/home/a", 0, "b")]);
    tokio::time::timeout(Duration::from_secs(20), write).await.expect("nobody has to wait").unwrap();
    assert_eq!(whole(&world.client, "/home/a").await, "b");
}

#[tokio::test]
async fn a_delegated_file_is_closed_in_a_transaction_and_the_delegation_goes_back_after_it() {
    let world = World::new().await;
    let (client, other) = (&world.client, world.another().await);
    client.vwrite(vec![Write::whole("/home/a", 0o600, "a")]).await.unwrap();
    for round in ["b", "c"] {
        let open = client.open(Open::read("/home/a")).await.unwrap();
        client.pread(open, 0, 1).await.unwrap();
        let transaction = client.transaction(|t| {
            t.write(Write::new("/home/a", 0, round));
            t.step::<()>(Step::Close(open));
        });
        transaction.await.unwrap();
        assert_eq!(client.pread(open, 0, 1).await.unwrap_err().errno(), 9);
        let write = other.vwrite(vec![Write::new("/home/a", 1, round)]);
        tokio::time::timeout(Duration::from_secs(20), write).await.expect("nobody has to wait").unwrap();
        assert_eq!(whole(client, "/home/a").await, format!("{round}{round}"));
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn an_own_change_that_nobody_waited_for_may_be_done_after_the_file_was_delegated() {
    let world = World::new().await;
    let client = &world.client;
    client.vwrite(vec![Write::whole("/home/a", 0o600, "0123")]).await.unwrap();
    let read = |open| async move {
        let first = client.pread(open, 0, 9).await.unwrap().into_bytes();
        let (again, round_trips, _) = cost(client, client.pread(open, 0, 9)).await;
        assert!(again.unwrap().into_bytes().len() == first.len());
        round_trips
    };
    {
        // Sent, and given up at once.
        let write = client.vwrite(vec![Write::new("/home/a", 0, "x")]);
        futures::pin_mut!(write);
        assert!(matches!(futures::poll!(write.as_mut()), Poll::Pending));
    }
    let open = client.open(Open::read("/home/a")).await.unwrap();
    assert_eq!(read(open).await, 1, "nobody knows in which order");
    client.close_file(open).await.unwrap();
    loop {
        // Answered at some time, and of no concern to what is opened then.
        let open = client.open(Open::read("/home/a")).await.unwrap();
        let round_trips = read(open).await;
        client.close_file(open).await.unwrap();
        if round_trips == 0 {
            break;
        }
    }
    assert_eq!(whole(client, "/home/a").await, "x123");
}

#[tokio::test]
async fn one_client_opens_a_file_that_is_delegated_to_it_as_often_as_it_likes() {
    let world = World::new().await;
    let client = &world.client;
    client.vwrite(vec![Write::whole("/home/a", 0o600, "0123")]).await.unwrap();
    let opened = client.vopen(vec![Open::read("/home/a"); 5]).await.unwrap();
    let reads = |opened: &[_]| opened.iter().map(|it| Read::new(*it, 0, 9)).collect::<Vec<_>>();
    client.vread(reads(&opened)).await.unwrap();
    let (data, round_trips, _) = cost(client, client.vread(reads(&opened))).await;
    assert!(data.unwrap().into_iter().all(|data| data.into_bytes() == "0123"));
    assert_eq!(round_trips, 0, "what is promised to one is true for all");
    client.close_file(opened[0]).await.unwrap();
    world.another().await.vwrite(vec![Write::new("/home/a", 0, "x")]).await.unwrap();
    for data in client.vread(reads(&opened[1..])).await.unwrap() {
        assert_eq!(data.into_bytes(), "x123");
    }
    client.vclose(opened[1..].to_vec()).await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_never_read_what_is_older_than_the_last_write_that_had_ended() {
    let world = World::new().await;
    let (client, writer) = (&world.client, world.another().await);
    // A file that was recalled is not delegated for some time.
    for file in 0..12 {
        let path = format!("/home/{file}");
        writer.vwrite(vec![Write::whole(&path, 0o600, "0000")]).await.unwrap();
        let written = AtomicU32::new(0);
        let opened = client.vopen(vec![Open::read(&path); 2]).await.unwrap();
        let own = client.open(Open::write(&path)).await.unwrap();
        let write = async {
            for number in 1..40_u32 {
                let text = format!("{number:04}");
                // By each way to write, the client's own too, which nobody recalls anything for.
                match number % 3 {
                    0 => drop(writer.vwrite(vec![Write::new(&path, 0, text)]).await.unwrap()),
                    1 => drop(client.pwrite(own, 0, text).await.unwrap()),
                    _ => drop(client.vwrite(vec![Write::new(&path, 0, text)]).await.unwrap()),
                }
                written.store(number, SeqCst);
            }
        };
        let read = |descriptor| {
            let written = &written;
            async move {
                while written.load(SeqCst) < 39 {
                    let before = written.load(SeqCst);
                    let data = client.pread(descriptor, 0, 4).await.unwrap().into_bytes();
                    let number: u32 = std::str::from_utf8(&data).unwrap().parse().unwrap();
                    assert!(number >= before, "{number} after {before}");
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::join!(write, read(opened[0]), read(opened[1]));
        client.vclose(vec![opened[0], opened[1], own]).await.unwrap();
    }
}

/// The machine's time, and more.
pub(super) struct AheadClock {
    pub real: Arc<dyn Clock>,
    pub by: AtomicU64,
}

#[async_trait::async_trait]
impl Clock for AheadClock {
    fn wall(&self) -> Timestamp {
        self.real.wall()
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic() + Duration::from_secs(self.by.load(SeqCst))
    }

    async fn sleep(&self, duration: Duration) {
        self.real.sleep(duration).await;
    }
}

#[tokio::test]
async fn nothing_is_believed_when_the_lease_may_have_run_out() {
    let mut world = Restarting::start().await;
    let clock = Arc::new(AheadClock { real: Environment::real().clock, by: AtomicU64::new(0) });
    let client = world.client_with(|options| options.nfs.environment.clock = clock.clone()).await;
    client.vwrite(vec![Write::whole("/home/a", 0o600, "0123")]).await.unwrap();
    let open = client.open(Open::read("/home/a")).await.unwrap();
    let known = || async {
        let data = client.pread(open, 0, 9).await.unwrap().into_bytes();
        (data, client.vgetattrs(vec![open.into()], WANTED).await.unwrap()[0].size)
    };
    let expected = ("0123".into(), Some(4));
    assert_eq!(known().await, expected);
    world.stop().await;
    assert_eq!(known().await, expected, "others can change nothing before the lease has run out");
    clock.by.store(LEASE.as_secs(), SeqCst);
    {
        let read = client.pread(open, 0, 9);
        let attributes = client.vgetattrs(vec![open.into()], WANTED);
        futures::pin_mut!(read, attributes);
        assert!(matches!(futures::poll!(read), Poll::Pending));
        assert!(matches!(futures::poll!(attributes), Poll::Pending));
    }
    world.start_again().await;
    assert_eq!(known().await, expected);
}

#[tokio::test]
async fn what_was_delegated_before_the_lease_may_have_run_out_is_asked_about_for_ever() {
    let world = Restarting::start().await;
    let clock = Arc::new(AheadClock { real: Environment::real().clock, by: AtomicU64::new(0) });
    let client = world.client_with(|options| options.nfs.environment.clock = clock.clone()).await;
    client.vwrite(vec![Write::whole("/home/a", 0o600, "0123")]).await.unwrap();
    let read = |open| {
        let client = &client;
        async move {
            client.pread(open, 0, 9).await.unwrap();
            cost(client, client.pread(open, 0, 9)).await.1
        }
    };
    let before = client.open(Open::read("/home/a")).await.unwrap();
    assert_eq!(read(before).await, 0);
    // The server has seen nothing of it, and might have given the file to others.
    clock.by.store(LEASE.as_secs(), SeqCst);
    assert_eq!(read(before).await, 1);
    assert_eq!(read(before).await, 1, "the lease is good again, the promise is not");
    client.close_file(before).await.unwrap();
    let after = client.open(Open::read("/home/a")).await.unwrap();
    assert_eq!(read(after).await, 0);
}

#[tokio::test]
async fn after_a_restart_of_the_server_everything_is_as_true_as_before() {
    let mut world = Restarting::start().await;
    let (client, other) = (world.client().await, world.client().await);
    client.vwrite(vec![Write::whole("/home/a", 0o600, "0123")]).await.unwrap();
    let open = client.open(Open::read("/home/a")).await.unwrap();
    let path = || whole(&client, "/home/a");
    for round in ["x", "y", "z"] {
        let before = path().await;
        assert_eq!(client.pread(open, 0, 9).await.unwrap().into_bytes(), before);
        world.restart().await;
        assert_eq!(client.pread(open, 0, 9).await.unwrap().into_bytes(), before);
        assert_eq!(path().await, before);
        other.vwrite(vec![Write::new("/home/a", 1, round)]).await.unwrap();
        let after = format!("0{round}23");
        assert_eq!(client.pread(open, 0, 9).await.unwrap().into_bytes(), after);
        assert_eq!(path().await, after);
    }
    client.close_file(open).await.unwrap();
    client.close().await.unwrap();
}
