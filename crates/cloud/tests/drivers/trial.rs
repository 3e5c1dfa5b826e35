//! What all drivers are put through, whatever is behind them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cloud::{
    CloudUrl, Connection, Credentials, ErrorKind, ObjectName, Options, PutMode, RetryPolicy, TimeoutPolicy,
};
use environment::{Clock, Environment};
use ids::Timestamp;

pub fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

/// Two tries, much time.
pub fn patient(credentials: Option<&Path>) -> Options {
    Options {
        credentials: credentials.map(|path| Credentials::read(path).unwrap()),
        retry: RetryPolicy { tries: 2, first_wait: Duration::from_millis(1), ..RetryPolicy::default() },
        timeouts: TimeoutPolicy { base: Duration::from_secs(60), ..TimeoutPolicy::default() },
        ..Options::default()
    }
}

pub async fn connect(url: &str, options: &Options) -> Connection {
    let url = CloudUrl::parse(url).unwrap();
    Connection::open(&Environment::real(), "tried", &url, options).await.unwrap()
}

/// A clock that can be put on.
#[derive(Default)]
pub struct Ahead(AtomicU64);

impl Ahead {
    pub fn put_on(&self, by: Duration) {
        self.0.fetch_add(by.as_secs(), Ordering::Relaxed);
    }
}

#[async_trait]
impl Clock for Ahead {
    fn wall(&self) -> Timestamp {
        Environment::real().clock.wall()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    async fn sleep(&self, duration: Duration) {
        Environment::real().clock.sleep(duration).await;
    }
}

/// Leftovers of uploads: an old one, and one that may be of somebody who is still at it.
pub fn leave_behind(incoming: &Path) {
    for (file, age) in [("old", 7200), ("young", 60)] {
        let file = std::fs::File::create(incoming.join(file)).unwrap();
        let then = file.metadata().unwrap().modified().unwrap() - Duration::from_secs(age);
        file.set_modified(then).unwrap();
    }
}

/// What was left while the store is in use goes as well.
pub async fn what_is_left_meanwhile_goes_within_the_hour(url: &str, options: &Options, incoming: &Path) {
    let clock = Arc::new(Ahead::default());
    let environment = Environment { clock: clock.clone(), ..Environment::real() };
    let url = CloudUrl::parse(url).unwrap();
    let cloud = Connection::open(&environment, "tried", &url, options).await.unwrap();
    // As many as there are sessions.
    for _ in 0..4 {
        cloud.check().await.unwrap();
    }
    leave_behind(incoming);
    let object = name("object");
    let put = || cloud.put(&object, vec!["content".into()], PutMode::Overwrite);
    let old = || incoming.join("old").exists();
    clock.put_on(Duration::from_secs(1800));
    put().await.unwrap();
    assert!(old(), "not yet");
    clock.put_on(Duration::from_secs(1801));
    put().await.unwrap();
    cloud.check().await.unwrap();
    assert!(!old() && incoming.join("young").exists());
}

/// `whole` and `part` are the same store, the second in a prefix of the first.
pub async fn a_prefix_is_a_place_of_its_own(whole: &Connection, part: &Connection, prefix: &str) {
    let shared = name("shared");
    part.put(&shared, vec!["inside".into()], PutMode::Overwrite).await.unwrap();
    assert_eq!(whole.get(&shared, None).await.unwrap_err().kind(), ErrorKind::NotFound);
    let listed = whole.list("", None, 10).await.unwrap();
    assert_eq!(listed, [(name(&format!("{prefix}/shared")), 6)]);
    part.delete(&shared).await.unwrap();
}

/// Whatever is asked with them, wrong credentials are refused, and not told to anybody.
pub async fn credentials_are_refused(cloud: &Connection, secret: &str) {
    let object = name("object");
    let put = cloud.put(&object, vec!["x".into()], PutMode::Overwrite).await;
    let get = cloud.get(&object, None).await.map(|_| ());
    let deleted = cloud.delete(&object).await;
    for refusal in [cloud.check().await, put, get, deleted] {
        let refusal = refusal.unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Refused, "{refusal}");
        assert!(refusal.to_string().contains("credentials"), "{refusal}");
        assert!(!format!("{refusal} {refusal:?}").contains(secret), "{refusal}");
    }
}

/// There is no such bucket, container or directory.
pub async fn a_missing_place_is_for_a_human(cloud: &Connection, advice: &str) {
    let got = cloud.get(&name("object"), None).await.map(|_| ());
    for error in [cloud.check().await, got] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains(advice), "{error}");
    }
}
