//! What all drivers are put through, whatever is behind them.

use std::path::Path;
use std::time::Duration;

use cloud::{
    CloudUrl, Connection, Credentials, ErrorKind, ObjectName, Options, PutMode, RetryPolicy, TimeoutPolicy,
};
use environment::Environment;

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
