//! What every implementation of [`Cloud`] must do, as a suite that each one runs.

use bytes::Bytes;

use crate::{Cloud, ErrorKind, MAX_OBJECT, ObjectName, PutMode};

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).expect("the suite uses valid names")
}

/// What not every store can do.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// [`PutMode::Create`]; it is refused otherwise.
    pub creates: bool,
    /// Objects `a/b` and `a/b/c` beside each other.
    pub nests: bool,
}

impl Abilities {
    /// All.
    pub const ALL: Abilities = Abilities { creates: true, nests: true };
}

/// Runs the suite on an empty cloud and leaves it empty. Panics at the first broken promise.
pub async fn run(cloud: &dyn Cloud) {
    run_with(cloud, Abilities::ALL).await;
}

/// As [`run`], on a cloud that lacks some ability.
pub async fn run_with(cloud: &dyn Cloud, abilities: Abilities) {
    keeps_what_all_promise(cloud).await;
    listings_are_sorted_and_complete(cloud, abilities).await;
    match abilities.creates {
        true => {
            create_keeps_what_is_there(cloud).await;
            one_of_many_creators_wins(cloud).await;
        }
        false => create_is_refused(cloud).await,
    }
    assert_eq!(listed(cloud, "", None, 10).await, [""; 0], "the suite cleans up");
}

async fn create_is_refused(cloud: &dyn Cloud) {
    let object = name("created");
    let refused = cloud.put(&object, vec!["x".into()], PutMode::Create).await.expect_err("create");
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert_eq!(cloud.get(&object, None).await.expect_err("refused").kind(), ErrorKind::NotFound);
}

async fn keeps_what_all_promise(cloud: &dyn Cloud) {
    assert_eq!(listed(cloud, "", None, 10).await, [""; 0], "the suite needs an empty cloud");
    whole_objects_and_ranges_come_back(cloud).await;
    missing_objects_are_reported(cloud).await;
    overwrite_replaces(cloud).await;
    too_large_objects_are_refused(cloud).await;
}

async fn whole_objects_and_ranges_come_back(cloud: &dyn Cloud) {
    let object = name("some/object_1-a");
    let parts: Vec<Bytes> = vec!["0123".into(), Bytes::new(), "456789".into()];
    cloud.put(&object, parts, PutMode::Overwrite).await.expect("put");
    assert_eq!(cloud.get(&object, None).await.expect("get"), "0123456789");
    assert_eq!(cloud.head(&object).await.expect("head"), 10);
    for (range, bytes) in
        [(0..10, "0123456789"), (3..5, "34"), (8..100, "89"), (10..20, ""), (5..5, ""), (90..99, "")]
    {
        assert_eq!(cloud.get(&object, Some(range.clone())).await.expect("range"), bytes, "{range:?}");
    }
    cloud.put(&object, vec![], PutMode::Overwrite).await.expect("put nothing");
    assert_eq!(cloud.get(&object, None).await.expect("get nothing"), "");
    assert_eq!(cloud.get(&object, Some(0..4)).await.expect("range of nothing"), "");
    cloud.delete(&object).await.expect("delete");

    let megabytes = Bytes::from((0..3_000_000u32).map(|i| (i ^ (i >> 8)) as u8).collect::<Vec<_>>());
    cloud.put(&object, vec![megabytes.clone()], PutMode::Overwrite).await.expect("put much");
    assert!(cloud.get(&object, None).await.expect("get much") == megabytes, "3 MB came back changed");
    cloud.delete(&object).await.expect("delete");
}

async fn missing_objects_are_reported(cloud: &dyn Cloud) {
    let missing = name("missing");
    assert_eq!(cloud.get(&missing, None).await.expect_err("get").kind(), ErrorKind::NotFound);
    assert_eq!(cloud.get(&missing, Some(0..1)).await.expect_err("range").kind(), ErrorKind::NotFound);
    assert_eq!(cloud.head(&missing).await.expect_err("head").kind(), ErrorKind::NotFound);
    cloud.delete(&missing).await.expect("deleting what is missing is fine");
}

async fn overwrite_replaces(cloud: &dyn Cloud) {
    let object = name("replaced");
    for content in ["first", "the second is longer", "3"] {
        cloud.put(&object, vec![content.into()], PutMode::Overwrite).await.expect("overwrite");
        assert_eq!(cloud.get(&object, None).await.expect("get"), content);
        assert_eq!(cloud.head(&object).await.expect("head"), content.len() as u64);
    }
    cloud.delete(&object).await.expect("delete");
    assert_eq!(cloud.get(&object, None).await.expect_err("deleted").kind(), ErrorKind::NotFound);
}

async fn create_keeps_what_is_there(cloud: &dyn Cloud) {
    let object = name("taken");
    cloud.put(&object, vec!["first".into()], PutMode::Create).await.expect("create");
    let taken = cloud.put(&object, vec!["second".into()], PutMode::Create).await.expect_err("create again");
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    assert_eq!(cloud.get(&object, None).await.expect("get"), "first");
    cloud.put(&object, vec!["third".into()], PutMode::Overwrite).await.expect("overwrite");
    assert_eq!(cloud.get(&object, None).await.expect("get"), "third");
    cloud.delete(&object).await.expect("delete");
    cloud.put(&object, vec!["fourth".into()], PutMode::Create).await.expect("create after delete");
    cloud.delete(&object).await.expect("delete");
}

async fn one_of_many_creators_wins(cloud: &dyn Cloud) {
    let object = name("race");
    let racers =
        (0..8u8).map(|i| {
            let object = &object;
            async move {
                cloud.put(object, vec![vec![i; 1000].into()], PutMode::Create).await.is_ok().then_some(i)
            }
        });
    let winners: Vec<u8> = futures::future::join_all(racers).await.into_iter().flatten().collect();
    assert_eq!(winners.len(), 1, "winners: {winners:?}");
    assert!(
        cloud.get(&object, None).await.expect("get") == vec![winners[0]; 1000],
        "the winner's object is whole"
    );
    cloud.delete(&object).await.expect("delete");
}

async fn too_large_objects_are_refused(cloud: &dyn Cloud) {
    let piece = Bytes::from(vec![0; 1 << 20]);
    let parts = vec![piece; (MAX_OBJECT >> 20) as usize + 1];
    let error = cloud.put(&name("huge"), parts, PutMode::Overwrite).await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::Refused);
}

async fn listings_are_sorted_and_complete(cloud: &dyn Cloud, abilities: Abilities) {
    let names = ["a-", "a/b", "a/b/c", "a0", "aa", "ab", "ab/c", "ab0", "abc", "b/", "b_", "zz"];
    let names = names.into_iter().filter(|text| ObjectName::new(text).is_ok());
    let is_folder = |text: &str| ["a/b", "ab"].contains(&text);
    let names: Vec<&str> = names.filter(|text| abilities.nests || !is_folder(text)).collect();
    for (size, text) in names.iter().rev().enumerate() {
        cloud.put(&name(text), vec![vec![0; size].into()], PutMode::Overwrite).await.expect("put");
    }
    let of = |prefix: &str| names.iter().copied().filter(|text| text.starts_with(prefix)).collect::<Vec<_>>();
    for prefix in ["", "a", "a/", "a/b", "ab", "abc", "b", "c", "zz", "zzz"] {
        assert_eq!(listed(cloud, prefix, None, 100).await, of(prefix), "prefix {prefix:?}");
    }
    for page in 1..4 {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let after = seen.last().map(|last| name(last));
            let found = listed(cloud, "a", after.as_ref(), page).await;
            let done = found.len() < page;
            seen.extend(found);
            if done {
                break;
            }
        }
        assert_eq!(seen, of("a"), "pages of {page}");
    }
    let after_another = listed(cloud, "ab", Some(&name("a0")), 2).await;
    assert_eq!(after_another, of("ab")[..2], "after a name before the prefix");
    assert_eq!(listed(cloud, "ab", Some(&name("b_")), 2).await, [""; 0], "after a name behind the prefix");
    let sizes = cloud.list("zz", None, 1).await.expect("list");
    assert_eq!(sizes, [(name("zz"), 0)]);
    for text in names {
        cloud.delete(&name(text)).await.expect("delete");
    }
}

async fn listed(cloud: &dyn Cloud, prefix: &str, after: Option<&ObjectName>, limit: usize) -> Vec<String> {
    let found = cloud.list(prefix, after, limit).await.expect("list");
    found.into_iter().map(|(name, _)| name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn the_memory_cloud_keeps_the_contract() {
        super::run(&*crate::Memory::new("memory")).await;
    }
}
