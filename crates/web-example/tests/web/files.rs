//! Files, parts of them, and whether they are still the same.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use kurma_web::Bounds;
use vector_client::{NewAttributes, SetTime, Time, Write};

use crate::world::{World, bounds};

fn file(name: &str, content: impl Into<Bytes>) -> (String, Bytes) {
    (name.to_owned(), content.into())
}

#[tokio::test]
async fn a_file_comes_with_its_type_its_size_and_what_to_know_it_by() {
    for world in World::each(bounds()).await {
        world.fill([file("a b.html", "<p>"), file("x.unknown", "?"), file("img.png", "")]).await;
        let modified = SetTime::To(Time { seconds: 784_111_777, nanoseconds: 5 });
        let attributes = NewAttributes { modified: Some(modified), ..NewAttributes::default() };
        world.files.vsetattrs(vec![("/home/site/a b.html".into(), attributes)]).await.unwrap();
        let browser = world.browser().await;
        for method in ["GET", "HEAD"] {
            let answer = browser.ask(method, "/a%20b.html?q", &[]).await;
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("content-type"), "text/html");
            assert_eq!(answer.header("content-length"), "3");
            assert_eq!(answer.header("last-modified"), "Sun, 06 Nov 1994 08:49:37 GMT");
            assert!(answer.header("etag").starts_with('"'));
            assert_eq!(answer.content.unwrap(), if method == "GET" { "<p>" } else { "" });
        }
        assert_eq!(browser.get("/x.unknown").await.header("content-type"), "application/octet-stream");
        let empty = browser.get("/img.png").await;
        assert_eq!((empty.status.as_u16(), empty.header("content-type")), (200, "image/png"));
        assert_eq!(browser.ask("POST", "/img.png", &[]).await.header("allow"), "GET, HEAD");
    }
}

#[tokio::test]
async fn what_the_client_has_already_is_not_sent_again() {
    for world in World::each(Bounds { memory_age: Duration::ZERO, ..bounds() }).await {
        world.fill([file("a.txt", "old")]).await;
        let browser = world.browser().await;
        let first = browser.get("/a.txt").await;
        let (tag, modified) = (first.header("etag"), first.header("last-modified"));
        for (name, value) in [("if-none-match", tag), ("if-modified-since", modified)] {
            let same = browser.ask("GET", "/a.txt", &[(name, value)]).await;
            assert_eq!(same.status, 304, "{name}");
            assert_eq!(same.header("etag"), tag);
            assert!(same.content.unwrap().is_empty());
        }
        assert_eq!(browser.ask("GET", "/a.txt", &[("if-match", "\"other\"")]).await.status, 412);
        world.fill([file("a.txt", "new")]).await;
        let changed = browser.ask("GET", "/a.txt", &[("if-none-match", tag)]).await;
        assert_eq!(changed.content.as_ref().unwrap(), "new", "of the same size, at about the same time");
        assert_ne!(changed.header("etag"), tag);
    }
}

#[tokio::test]
async fn large_files_come_in_parts_or_whole() {
    let content: Bytes = (0..3_000_001_u32).map(|n| (n / 7) as u8).collect();
    for world in World::each(bounds()).await {
        world.fill([file("big", content.clone())]).await;
        let browser = world.browser().await;
        let whole = browser.get("/big").await;
        assert!(whole.content.as_ref() == Some(&content));
        let tag = whole.header("etag");
        // Around where the first read ends, which is 256 KiB, and beyond it.
        for (first, last) in [(0, 0), (262_143, 262_144), (5, 2_999_999), (1_000_000, 3_000_000)] {
            let range = format!("bytes={first}-{last}");
            let part = browser.ask("GET", "/big", &[("range", &range), ("if-range", tag)]).await;
            assert_eq!(part.status, 206);
            assert_eq!(part.header("content-range"), format!("bytes {first}-{last}/3000001"));
            assert!(part.content.unwrap() == content.slice(first..=last), "{range}");
        }
        let beyond = browser.ask("GET", "/big", &[("range", "bytes=3000001-")]).await;
        assert_eq!((beyond.status.as_u16(), beyond.header("content-range")), (416, "bytes */3000001"));
        let other = browser.ask("GET", "/big", &[("range", "bytes=0-1"), ("if-range", "\"other\"")]).await;
        assert_eq!(other.status, 200);
    }
}

#[tokio::test]
async fn an_answer_whose_file_changes_on_the_way_is_cut_off() {
    for world in World::each(bounds()).await {
        world.fill([file("big", vec![1; 16 << 20])]).await;
        let browser = world.browser().await;
        // Of 16 MiB there is room for a part on the way.
        let begun = browser.begin("GET", "/big", &[]).await;
        assert_eq!(begun.headers()["content-length"], "16777216");
        world.fill([file("big", vec![2; 16 << 20])]).await;
        let mut content = begun.into_body();
        let mut is_cut_off = false;
        while let Some(frame) = content.frame().await {
            match frame {
                Ok(frame) => assert!(frame.data_ref().unwrap().iter().all(|byte| *byte == 1)),
                Err(_) => {
                    is_cut_off = true;
                    break;
                }
            }
        }
        assert!(is_cut_off);
        assert!(browser.get("/big").await.content.unwrap().iter().all(|byte| *byte == 2));
    }
}

#[tokio::test]
async fn directories_show_their_index_and_nothing_else() {
    for world in World::each(bounds()).await {
        world.fill([file("with/index.html", "index"), file("without/secret", "secret")]).await;
        let browser = world.browser().await;
        assert_eq!(browser.get("/with/").await.content.unwrap(), "index");
        let moved = browser.get("/with?q=1").await;
        assert_eq!((moved.status.as_u16(), moved.header("location")), (301, "/with/?q=1"));
        for (path, status) in [
            ("/without/", 403),
            ("/", 403),
            ("/none/", 404),
            ("/none", 404),
            ("/without/secret/", 404),
            ("/without/secret/below", 404),
        ] {
            assert_eq!(browser.get(path).await.status, status, "{path}");
        }
    }
}

#[tokio::test]
async fn symbolic_links_lead_on_but_not_out() {
    for world in World::each(bounds()).await {
        world.fill([file("real/deep/a.txt", "inside"), file("real/index.html", "index")]).await;
        world.files.vwrite(vec![Write::whole("/home/secret", 0o644, "secret")]).await.unwrap();
        let links = [
            ("file", "real/deep/a.txt"),
            ("directory", "./real//deep"),
            ("chain", "directory/a.txt"),
            ("absolute", "/home/site/real"),
            ("real/deep/up", "../.."),
            ("out", "../secret"),
            ("far", "/home/secret"),
            ("above", ".."),
            ("deeper", "real/deep/up/../secret"),
            ("beside", "/home/site2/x"),
            ("loop", "loop"),
            ("gone", "nothing"),
        ];
        for (name, text) in links {
            world.link(name, text).await;
        }
        let browser = world.browser().await;
        for path in [
            "/file",
            "/directory/a.txt",
            "/chain",
            "/absolute/deep/a.txt",
            "/directory/up/file",
            "/real/deep/up/chain",
        ] {
            let answer = browser.get(path).await;
            assert_eq!(answer.status, 200, "{path}");
            assert_eq!(answer.content.unwrap(), "inside", "{path}");
        }
        assert_eq!(browser.get("/absolute").await.header("location"), "/absolute/");
        assert_eq!(browser.get("/absolute/").await.content.unwrap(), "index");
        for path in ["/out", "/far", "/above/secret", "/beside", "/loop", "/loop/x"] {
            assert_eq!(browser.get(path).await.status, 403, "{path}");
            assert_eq!(browser.ask("HEAD", path, &[]).await.status, 403, "{path}");
        }
        assert_eq!(browser.get("/gone").await.status, 404);
        assert_eq!(browser.get("/deeper").await.status, 404, "`..` is taken from the text, and stays inside");
    }
}
