//! What `kurma cost` says, against what servers saw.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Gateway, S3StandIn};

/// Requests by class, in the order of [`CLASSES`].
pub type Requests = [u64; 4];

const CLASSES: [&str; 4] = ["put", "get", "list", "delete"];

pub fn class_of(method: &str, target: &str) -> usize {
    match method {
        "GET" if target.contains("list-type=") => 2,
        "GET" | "HEAD" => 1,
        "DELETE" => 3,
        "POST" if target.ends_with("?delete") || target.ends_with("?delete=") => 3,
        _ => 0,
    }
}

/// What was asked of a stand-in.
pub fn requests_to(store: &S3StandIn) -> Requests {
    let mut requests = Requests::default();
    store.requests().iter().for_each(|(method, target)| requests[class_of(method, target)] += 1);
    requests
}

/// The line of a cloud.
pub fn line<'a>(bill: &'a Value, cloud: &str) -> &'a Value {
    let lines = bill["clouds"].as_array().unwrap();
    lines.iter().find(|line| line["cloud"] == cloud).unwrap_or_else(|| panic!("no {cloud} in {bill}"))
}

pub fn requests_of(line: &Value) -> Requests {
    CLASSES.map(|class| line["requests"][class].as_u64().unwrap())
}

/// The bill equals what the servers saw. It is taken while nothing is going on: between two equal looks at the servers. Only what
/// nobody waited for any more, as another request was answered first, may not have reached its server.
pub fn assert_agrees(gateway: &Gateway, seen: impl Fn() -> BTreeMap<&'static str, Requests>) -> Value {
    for _ in 0..100 {
        let before = seen();
        let bill = gateway.json(&["cost"], &[0]);
        if seen() != before {
            continue;
        }
        for (cloud, seen) in before {
            let line = line(&bill, cloud);
            let (billed, given_up) = (requests_of(line), line["requests"]["given_up"].as_u64().unwrap());
            let agrees = (0..CLASSES.len()).all(|class| match CLASSES[class] {
                "put" | "get" => (seen[class]..=seen[class] + given_up).contains(&billed[class]),
                _ => billed[class] == seen[class],
            });
            assert!(agrees, "{cloud}: billed {billed:?}, seen {seen:?}: {line}");
        }
        return bill;
    }
    panic!("the servers are never quiet");
}
