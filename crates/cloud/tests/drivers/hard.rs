//! Hard times that every driver has to live through: large objects and many, connections that break, servers that
//! refuse, lie, dawdle and die.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use cloud::conformance::Abilities;
use cloud::{Cloud, Connection, ErrorKind, ObjectName, Options, PutMode, RetryPolicy, TimeoutPolicy};
use futures::{StreamExt, TryStreamExt};

use crate::proxy::{Fault, Proxy};
use crate::server::Mortal;
use crate::trial::{connect, name, patient};

const MIB: usize = 1 << 20;

/// Objects that are listed: more than one page; 10,000 in `tests/soak`, for which slow servers take minutes.
fn many() -> usize {
    std::env::var("KURMA_OBJECTS").map_or(1_200, |count| count.parse().expect("a number"))
}

/// A driver and what it is tried on.
pub struct Subject<'a> {
    /// The address of an empty store behind a port.
    pub url: &'a dyn Fn(u16) -> String,
    pub credentials: Option<PathBuf>,
    pub port: u16,
    pub server: &'a dyn Mortal,
    /// It keeps what it acknowledged when it is killed.
    pub is_lasting: bool,
    pub speaks_http: bool,
    pub abilities: Abilities,
}

/// Creates until it is decided who has. What failed for a while may have taken effect: then the content tells.
async fn has_created(connection: &dyn Cloud, object: &ObjectName, content: Bytes) -> bool {
    let mut failure = None;
    for _ in 0..1_000 {
        match connection.put(object, vec![content.clone()], PutMode::Create).await {
            Ok(()) => return true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return failure.is_some() && connection.get(object, None).await.unwrap() == content;
            }
            Err(error) if error.kind().is_retryable() => failure = Some(error),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("nobody creates {object}: {}", failure.unwrap())
}

/// What is hard for a driver without anybody making it so; `several` are as many connections to the same empty store.
pub async fn good_times(direct: &dyn Cloud, several: &[&dyn Cloud], abilities: Abilities, many: usize) {
    objects_of_all_sizes_come_back(direct).await;
    names_at_the_edge_are_names_like_others(direct, abilities.nests).await;
    if abilities.creates {
        one_of_many_creators_on_several_connections_wins(direct, several).await;
    }
    thousands_of_objects_are_listed(direct, many).await;
}

impl Subject<'_> {
    async fn connect(&self, port: u16, options: Options) -> Connection {
        connect(&(self.url)(port), &options).await
    }

    fn tries(&self, tries: u32) -> Options {
        let retry = RetryPolicy { tries, first_wait: Duration::from_millis(1), ..RetryPolicy::default() };
        Options { retry, ..patient(self.credentials.as_deref()) }
    }

    fn mode(&self) -> PutMode {
        if self.abilities.creates { PutMode::Create } else { PutMode::Overwrite }
    }

    pub async fn run(&self) {
        // A server may close connections that nothing was asked on for a while, many at once, just when something is.
        let direct = self.connect(self.port, self.tries(5)).await;
        direct.check().await.unwrap();
        let mut connections = Vec::new();
        for _ in 0..4 {
            connections.push(self.connect(self.port, self.tries(4)).await);
        }
        let several: Vec<&dyn Cloud> = connections.iter().map(|connection| &**connection).collect();
        good_times(&*direct, &several, self.abilities, many()).await;

        let proxy = Proxy::start(self.port).await;
        let again = self.connect(proxy.port, self.tries(5)).await;
        if self.speaks_http {
            self.storms_of_errors_pass(&proxy, &again).await;
            self.a_wrong_length_is_noticed(&proxy, &direct).await;
        }
        self.interrupted_uploads_leave_nothing(&proxy, &again, &direct).await;
        self.interrupted_downloads_are_noticed(&proxy, &again, &direct).await;
        self.a_slow_drip_ends_in_a_timeout(&proxy).await;
        match self.is_lasting {
            true => self.a_server_killed_in_the_middle_keeps_what_was_there(&proxy).await,
            false => self.a_server_killed_in_the_middle_has_nothing_in_part(&proxy).await,
        }
    }

    /// Connections that nothing has happened to yet, and that try once.
    async fn once(&self, proxy: &Proxy, fault: Fault) -> Connection {
        proxy.set(fault);
        self.connect(proxy.port, self.tries(1)).await
    }

    async fn storms_of_errors_pass(&self, proxy: &Proxy, again: &Connection) {
        let object = name("in-a-storm");
        for code in [429, 500, 503] {
            proxy.set(Fault::Status { code, times: 3 });
            again.put(&object, vec!["through".into()], self.mode()).await.unwrap();
            proxy.set(Fault::Status { code, times: 3 });
            assert_eq!(again.get(&object, None).await.unwrap(), "through");
            let once = self.once(proxy, Fault::Status { code, times: usize::MAX }).await;
            let failures = [
                once.put(&object, vec!["never".into()], PutMode::Overwrite).await,
                once.get(&object, None).await.map(|_| ()),
                once.head(&object).await.map(|_| ()),
                once.delete(&object).await,
                once.list("", None, 10).await.map(|_| ()),
            ];
            for failure in failures {
                let failure = failure.unwrap_err();
                assert_eq!(failure.kind(), ErrorKind::Transient, "{code}: {failure}");
            }
            proxy.set(Fault::None);
            assert_eq!(again.get(&object, None).await.unwrap(), "through");
            again.delete(&object).await.unwrap();
        }
    }

    async fn interrupted_uploads_leave_nothing(
        &self,
        proxy: &Proxy,
        again: &Connection,
        direct: &Connection,
    ) {
        let (old, new) = (name("old"), name("new"));
        direct.put(&old, vec!["old".into()], PutMode::Overwrite).await.unwrap();
        let much = content(8 * MIB);
        for (object, mode) in [(&old, PutMode::Overwrite), (&new, self.mode())] {
            let once = self.once(proxy, Fault::CutUpload { after: MIB }).await;
            let failure = once.put(object, vec![much.clone()], mode).await.unwrap_err();
            assert_eq!(failure.kind(), ErrorKind::Transient, "{failure}");
        }
        assert_eq!(direct.get(&old, None).await.unwrap(), "old");
        assert_eq!(direct.head(&new).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(direct.list("", None, 10).await.unwrap(), [(old.clone(), 3)]);
        for (object, mode) in [(&old, PutMode::Overwrite), (&new, self.mode())] {
            proxy.set(Fault::CutUpload { after: MIB });
            again.put(object, vec![much.clone()], mode).await.unwrap();
            assert!(direct.get(object, None).await.unwrap() == much);
            direct.delete(object).await.unwrap();
        }
    }

    async fn a_wrong_length_is_noticed(&self, proxy: &Proxy, direct: &Connection) {
        let object = name("short");
        direct.put(&object, vec![content(100_000)], PutMode::Overwrite).await.unwrap();
        for range in [None, Some(0..50_000)] {
            let once = self.once(proxy, Fault::WrongLength).await;
            let failure = once.get(&object, range).await.map(|found| found.len()).unwrap_err();
            assert_eq!(failure.kind(), ErrorKind::Transient, "{failure}");
        }
        proxy.set(Fault::None);
        direct.delete(&object).await.unwrap();
    }

    async fn interrupted_downloads_are_noticed(
        &self,
        proxy: &Proxy,
        again: &Connection,
        direct: &Connection,
    ) {
        let (object, much) = (name("much"), content(8 * MIB));
        direct.put(&object, vec![much.clone()], PutMode::Overwrite).await.unwrap();
        let once = self.once(proxy, Fault::CutDownload { after: MIB }).await;
        let failure = once.get(&object, None).await.map(|found| found.len()).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Transient, "{failure}");
        proxy.set(Fault::CutDownload { after: MIB });
        assert!(again.get(&object, None).await.unwrap() == much);
        direct.delete(&object).await.unwrap();
    }

    async fn a_slow_drip_ends_in_a_timeout(&self, proxy: &Proxy) {
        let timeouts = TimeoutPolicy { base: Duration::from_secs(1), ..TimeoutPolicy::default() };
        let hasty = self.connect(proxy.port, Options { timeouts, ..self.tries(1) }).await;
        proxy.set(Fault::Drip);
        let failure = hasty.head(&name("any")).await.unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Timeout, "{failure}");
        proxy.set(Fault::None);
        let patient = self.connect(proxy.port, self.tries(2)).await;
        assert_eq!(patient.head(&name("any")).await.unwrap_err().kind(), ErrorKind::NotFound);
    }

    /// Kills the server when it has a part of what is put, and starts it again.
    async fn killed_in_the_middle(&self, proxy: &Proxy, object: &ObjectName, mode: PutMode) {
        let once = self.once(proxy, Fault::HoldUpload { after: MIB }).await;
        let put = once.put(object, vec![content(8 * MIB)], mode);
        let kill = async {
            proxy.held().await;
            self.server.kill();
            proxy.set(Fault::None);
        };
        let (failure, ()) = tokio::join!(put, kill);
        let failure = failure.unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Transient, "{failure}");
        assert_eq!(once.check().await.unwrap_err().kind(), ErrorKind::Transient, "nobody is there");
        self.server.start_again();
    }

    /// One that loses what it acknowledged, its buckets perhaps with it.
    async fn a_server_killed_in_the_middle_has_nothing_in_part(&self, proxy: &Proxy) {
        // Never whole before: it may lose a deletion, too.
        let object = name("never-whole");
        self.killed_in_the_middle(proxy, &object, self.mode()).await;
        let after = self.connect(self.port, self.tries(2)).await;
        let failure = after.get(&object, None).await.map(|found| found.len()).unwrap_err();
        // There is no such object, or there is no such bucket, which a human has to look at.
        assert!(matches!(failure.kind(), ErrorKind::NotFound | ErrorKind::Refused), "{failure}");
    }

    async fn a_server_killed_in_the_middle_keeps_what_was_there(&self, proxy: &Proxy) {
        let (old, new) = (name("old"), name("new"));
        let before = self.connect(self.port, self.tries(2)).await;
        before.put(&old, vec!["old".into()], PutMode::Overwrite).await.unwrap();
        for (object, mode) in [(&old, PutMode::Overwrite), (&new, self.mode())] {
            self.killed_in_the_middle(proxy, object, mode).await;
        }
        let after = self.connect(self.port, self.tries(2)).await;
        assert_eq!(after.get(&old, None).await.unwrap(), "old");
        assert_eq!(after.head(&new).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(after.list("", None, 10).await.unwrap(), [(old.clone(), 3)]);
        after.put(&new, vec!["new".into()], self.mode()).await.unwrap();
        for object in [&old, &new] {
            after.delete(object).await.unwrap();
        }
    }
}

fn content(length: usize) -> Bytes {
    (0..length as u32).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect::<Vec<_>>().into()
}

async fn objects_of_all_sizes_come_back(cloud: &dyn Cloud) {
    let object = name("of/some-size");
    for size in [1, 4095, 32 << 10, (32 << 10) + 1, 5 * MIB + 1, 64 * MIB] {
        let whole = content(size);
        // In pieces, as the caller has them.
        let parts = whole.chunks(MIB + 7).map(Bytes::copy_from_slice).collect();
        cloud.put(&object, parts, PutMode::Overwrite).await.unwrap();
        assert_eq!(cloud.head(&object).await.unwrap(), size as u64);
        assert!(cloud.get(&object, None).await.unwrap() == whole, "{size} bytes came back changed");
        for range in [0..1, size - 1..size, size / 2..size, size / 3..size / 3 + 40_000, size - 1..size + 9] {
            let expected = whole.slice(range.start..range.end.min(size));
            let range = range.start as u64..range.end as u64;
            assert!(cloud.get(&object, Some(range.clone())).await.unwrap() == expected, "{size}: {range:?}");
        }
        let behind = size as u64..size as u64 + 1;
        assert_eq!(cloud.get(&object, Some(behind)).await.unwrap(), "");
    }
    cloud.delete(&object).await.unwrap();
}

async fn names_at_the_edge_are_names_like_others(cloud: &dyn Cloud, nests: bool) {
    let longest = "x".repeat(200);
    let slashes = "s/".repeat(99) + "ss";
    let mut names =
        vec!["--", "-_", "0/-/_", "00", "a/a/a", "a/b-", "a/b/c", "con", "nul/aux", "__", &longest, &slashes];
    if nests {
        names.extend(["a/a", "a/b", "nul"]);
    }
    names.sort_unstable();
    for text in &names {
        cloud
            .put(&name(text), vec![Bytes::copy_from_slice(text.as_bytes())], PutMode::Overwrite)
            .await
            .unwrap();
    }
    let expected: Vec<_> = names.iter().map(|text| (name(text), text.len() as u64)).collect();
    assert_eq!(cloud.list("", None, 100).await.unwrap(), expected);
    for text in names {
        assert_eq!(cloud.get(&name(text), None).await.unwrap(), text.as_bytes());
        cloud.delete(&name(text)).await.unwrap();
    }
    assert_eq!(cloud.list("", None, 100).await.unwrap(), []);
}

async fn one_of_many_creators_on_several_connections_wins(direct: &dyn Cloud, several: &[&dyn Cloud]) {
    let object = name("wanted/by-many");
    for round in 0..5u8 {
        let racers = (0..16u8).map(|at| {
            let (connection, object) = (several[usize::from(at) % several.len()], &object);
            let content = Bytes::from(vec![at; 10_000 + usize::from(round)]);
            async move { has_created(connection, object, content).await.then_some(at) }
        });
        let winners: Vec<u8> = futures::future::join_all(racers).await.into_iter().flatten().collect();
        assert_eq!(winners.len(), 1, "winners: {winners:?}");
        let content = direct.get(&object, None).await.unwrap();
        assert!(content == vec![winners[0]; 10_000 + usize::from(round)], "the winner's object is whole");
        direct.delete(&object).await.unwrap();
    }
}

async fn thousands_of_objects_are_listed(cloud: &dyn Cloud, many: usize) {
    // Spread over directories as the names of fragments are.
    let names = (0..many).map(|at| name(&format!("{:04x}-{at}", (at * 40_503) & 0xffff)));
    let mut names: Vec<_> = names.collect();
    let puts = names.iter().map(|object| cloud.put(object, vec!["x".into()], PutMode::Overwrite));
    futures::stream::iter(puts).buffer_unordered(32).try_collect::<()>().await.unwrap();
    names.sort_unstable();
    let expected: Vec<_> = names.iter().map(|object| (object.clone(), 1)).collect();
    assert!(cloud.list("", None, names.len()).await.unwrap() == expected, "all at once");
    assert!(
        cloud.list("", Some(&names[698]), names.len()).await.unwrap() == expected[699..],
        "those after one"
    );
    let deletes = names.iter().map(|object| cloud.delete(object));
    futures::stream::iter(deletes).buffer_unordered(32).try_collect::<()>().await.unwrap();
    assert_eq!(cloud.list("", None, 10).await.unwrap(), []);
}
