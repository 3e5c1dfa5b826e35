//! What a page refers to is read before it is asked for.

use bytes::Bytes;
use futures::future::join_all;
use kurma_web::{Bounds, Limits};

use crate::world::{World, bounds};

/// Bytes that say which file they are.
fn content(name: &str, size: usize) -> Bytes {
    name.bytes().cycle().take(size).collect()
}

/// The page of the paper (kurma.md, figure 3.13): 10 pages, 23 scripts, 7 style sheets, 56 images.
fn page_of_96() -> Vec<(String, Bytes)> {
    let names = |count, form: fn(usize) -> String| (0..count).map(form).collect::<Vec<_>>();
    let kinds = [
        (names(9, |n| format!("frames/{n}.html")), 5_500),
        (names(23, |n| format!("scripts/{n}.js")), 20_000),
        (names(7, |n| format!("styles/{n}.css")), 7_500),
        (names(56, |n| format!("images/{n}.png")), 28_000),
    ];
    let mut files: Vec<_> = kinds
        .into_iter()
        .flat_map(|(names, size)| names.into_iter().map(move |name| (content(&name, size), name)))
        .map(|(content, name)| (name, content))
        .collect();
    let refer = |(name, _): &(String, Bytes)| match name.rsplit_once('.').unwrap().1 {
        "html" => format!("<iframe src='{name}'></iframe>"),
        "js" => format!("<script src='/{name}?v=1'></script>"),
        "css" => format!("<link rel=stylesheet href='./{name}'>"),
        _ => format!("<img src={name}>"),
    };
    let page = files.iter().map(refer).collect::<String>();
    files.push(("index.html".into(), page.into()));
    files
}

#[tokio::test]
async fn a_page_of_96_files_takes_three_round_trips() {
    let world = World::nfs(bounds(), None).await;
    let files = page_of_96();
    assert_eq!(files.len(), 96);
    world.fill(files.clone()).await;
    let browser = world.browser().await;
    let before = world.files.statistics().round_trips;
    let page = browser.get("/").await;
    assert_eq!(page.content.as_ref(), Some(&files[95].1));
    let answers = join_all(files.iter().map(|(name, _)| {
        let (browser, path) = (browser.clone(), format!("/{name}"));
        async move { browser.get(&path).await }
    }));
    for ((name, content), answer) in files.iter().zip(answers.await) {
        assert_eq!(answer.status, 200, "{name}");
        assert!(answer.content.as_ref() == Some(content), "{name}");
    }
    let round_trips = world.files.statistics().round_trips - before;
    assert_eq!(round_trips, 3, "the page; the attributes of all the others; their content. The paper has 4");
}

#[tokio::test]
async fn each_level_costs_two_round_trips() {
    for world in World::each(bounds()).await {
        world
            .fill([
                ("p/index.html".into(), "<link rel=stylesheet href=/css/one.css><img src=empty.png>".into()),
                ("p/empty.png".into(), Bytes::new()),
                ("css/one.css".into(), "@import 'two.css'; p { background: url(../p/1.png) }".into()),
                ("css/two.css".into(), "p { background: url(2.png) }".into()),
                ("p/1.png".into(), "one".into()),
                ("css/2.png".into(), "two".into()),
            ])
            .await;
        let browser = world.browser().await;
        let before = world.files.statistics().round_trips;
        for path in ["/p/", "/css/one.css", "/css/two.css", "/p/1.png", "/css/2.png", "/p/empty.png"] {
            assert_eq!(browser.get(path).await.status, 200, "{path}");
        }
        let round_trips = world.files.statistics().round_trips - before;
        assert_eq!(round_trips, if before == 0 { 0 } else { 1 + 3 * 2 }, "the page and three levels");
    }
}

#[tokio::test]
async fn what_is_missing_does_not_keep_the_rest_from_being_read() {
    for world in World::each(bounds()).await {
        let page =
            "<img src=a.png><img src=missing.png><img src=link.png><img src=in/link/b.png><img src=in/c.png>";
        let files = [("a.png", "a"), ("real/b.png", "b"), ("in/c.png", "c"), ("index.html", page)];
        world
            .fill(files.map(|(name, content)| (name.to_owned(), Bytes::from_static(content.as_bytes()))))
            .await;
        world.link("link.png", "a.png").await;
        world.link("in/link", "../real").await;
        let browser = world.browser().await;
        let expected =
            [("/", page), ("/a.png", "a"), ("/link.png", "a"), ("/in/link/b.png", "b"), ("/in/c.png", "c")];
        for (path, content) in expected {
            assert_eq!(browser.get(path).await.content.unwrap(), content, "{path}");
        }
        assert_eq!(browser.get("/missing.png").await.status, 404);
        // From now on what was read ahead is in memory, and what was not is read.
        let before = world.files.statistics().round_trips;
        for path in ["/", "/a.png", "/in/c.png"] {
            assert_eq!(browser.get(path).await.status, 200, "{path}");
        }
        assert_eq!(world.files.statistics().round_trips, before);
    }
}

#[tokio::test]
async fn no_more_is_read_ahead_than_the_bounds_allow() {
    let bounds = Bounds { ahead_files: 2, ahead_bytes: 150, ..bounds() };
    let world = World::nfs(bounds, None).await;
    let files = ["1.png", "2.png", "3.png"].map(|name| (name.to_owned(), content(name, 100)));
    world.fill(files.clone()).await;
    let page = "<img src=1.png><img src=2.png><img src=3.png>";
    world.fill([("index.html".to_owned(), Bytes::from(page))]).await;
    let browser = world.browser().await;
    browser.get("/").await;
    for (expected, (name, content)) in [0, 1, 1].into_iter().zip(files) {
        let before = world.files.statistics().round_trips;
        // The first one waits for what is under way.
        let (answer, before) = if name == "1.png" {
            let answer = browser.get("/1.png").await;
            (answer, world.files.statistics().round_trips)
        } else {
            (browser.get(&format!("/{name}")).await, before)
        };
        assert_eq!(answer.content.unwrap(), content);
        assert_eq!(world.files.statistics().round_trips - before, expected, "{name}");
    }
}

#[tokio::test]
async fn without_memory_and_without_reading_ahead_everything_is_served_all_the_same() {
    for bounds in [Bounds { memory_bytes: 0, ..bounds() }, Bounds { ahead_files: 0, ..bounds() }] {
        let world = World::local(bounds, Limits::default()).await;
        let files = page_of_96();
        world.fill(files.clone()).await;
        let browser = world.browser().await;
        assert_eq!(browser.get("/").await.content.unwrap(), files[95].1);
        for (name, content) in &files {
            assert_eq!(browser.get(&format!("/{name}")).await.content.unwrap(), content, "{name}");
        }
    }
}
