//! Symbolic links on the way, which the server leaves to the client.

use vector_client::{AttributeSet, Client, Creation, Done, Error, Open, Read, Step, Target, Write};

use crate::world::World;

async fn worlds() -> Vec<World> {
    let worlds = World::each().await;
    for world in &worlds {
        fill(&world.client).await;
    }
    worlds
}

async fn fill(client: &Client) {
    let directories = ["/home/real", "/home/real/deep"].map(|path| (Target::from(path), 0o755));
    client.vmkdir(directories.into()).await.unwrap();
    let links = [
        ("/home/short", "real/deep"),
        ("/home/absolute", "/home/real"),
        ("/home/real/deep/up", "../.."),
        ("/home/file", "short/content"),
        ("/home/loop", "loop"),
    ];
    client.vsymlink(links.map(|(path, text)| (path.into(), text.into())).into()).await.unwrap();
    client.vwrite(vec![Write::whole("/home/real/deep/content", 0o600, "found")]).await.unwrap();
}

#[tokio::test]
async fn links_lead_on_wherever_they_are_in_a_path() {
    for world in worlds().await {
        let paths = [
            "/home/short/content",
            "/home/absolute/deep/content",
            "/home/file",
            "/home/short/up/short/content",
            "/home/short/../deep/content",
            "/home/short/../../../home/file",
            "/home/../../../home/file",
            "/../home/absolute/../../../../home/file",
            "/home/real/deep/content",
        ];
        let data =
            world.client.vread(paths.iter().map(|path| Read::new(*path, 0, 9)).collect()).await.unwrap();
        assert!(data.into_iter().all(|data| data.into_bytes() == "found"));
        world.client.vwrite(vec![Write::whole("/home/short/new", 0o600, "new")]).await.unwrap();
        world.client.vrename(vec![("/home/short/new".into(), "/home/absolute/new".into())]).await.unwrap();
        world.client.vmkdir(vec![("/home/short/directory".into(), 0o755)]).await.unwrap();
        let there = vec!["/home/real/new".into(), "/home/real/deep/directory".into()];
        world.client.vgetattrs(there, AttributeSet::KIND).await.unwrap();
        let mut names = Vec::new();
        world
            .client
            .vlistdir(vec!["/home/short".into()], AttributeSet::NONE, false, |_, entry| {
                names.push(entry.name.clone());
            })
            .await
            .unwrap();
        names.sort();
        assert_eq!(names, ["content", "directory", "up"]);
    }
}

#[tokio::test]
async fn a_link_itself_is_what_is_removed_and_renamed() {
    for world in worlds().await {
        world.client.vrename(vec![("/home/file".into(), "/home/other".into())]).await.unwrap();
        let text = world.client.vreadlink(vec!["/home/other".into()]).await.unwrap();
        assert_eq!(text[0], "short/content");
        world.client.vremove(vec!["/home/other".into(), "/home/short".into()]).await.unwrap();
        world.client.vgetattrs(vec!["/home/real/deep/content".into()], AttributeSet::KIND).await.unwrap();
    }
}

#[tokio::test]
async fn links_that_lead_nowhere_or_round_and_round_are_errors() {
    for world in worlds().await {
        let failure = world.client.vread(vec![Read::new("/home/loop", 0, 9)]).await.unwrap_err();
        assert!(matches!(failure.error, Error::TooManyLinks(_)), "{failure}");
        let no_follow = Open { follow: false, ..Open::read("/home/file") };
        let failure = world.client.vopen(vec![no_follow]).await.unwrap_err();
        assert_eq!(failure.error.errno(), 40, "{failure}");
        let failure =
            world.client.vread(vec![Read::new("/home/real/deep/content/x", 0, 9)]).await.unwrap_err();
        assert_eq!(failure.error.errno(), 20, "{failure}");
    }
}

#[tokio::test]
async fn a_link_is_in_the_way_of_what_has_to_be_new_wherever_it_leads() {
    for world in worlds().await {
        let text = vec![("/home/nowhere".into(), "missing".into())];
        world.client.vsymlink(text).await.unwrap();
        for path in ["/home/nowhere", "/home/file"] {
            let new = Creation { mode: 0o600, exclusive: true };
            let open = Open { create: Some(new), ..Open::read(path) };
            let refused = world.client.vopen(vec![open]).await.unwrap_err();
            assert_eq!(refused.error.errno(), 17, "{refused}");
            let write = Write { create: Some(new), ..Write::new(path, 0, "new") };
            let refused = world.client.vwrite(vec![write]).await.unwrap_err();
            assert_eq!(refused.error.errno(), 17, "{refused}");
        }
        let missing = world.client.vread(vec![Read::new("/home/missing", 0, 1)]).await.unwrap_err();
        assert!(missing.error.is_not_found(), "{missing}");
    }
}

#[tokio::test]
async fn a_link_is_followed_before_what_comes_after_is_done() {
    for world in worlds().await {
        let steps = vec![
            Step::GetAttributes { target: "/home/file".into(), wanted: AttributeSet::SIZE, follow: true },
            Step::Remove("/home/file".into()),
            Step::Remove("/home/real/deep/content".into()),
        ];
        let done = world.client.execute(steps).await.unwrap();
        assert!(matches!(&done[0], Done::Attributes(of_content) if of_content.size == Some(5)));
    }
}
