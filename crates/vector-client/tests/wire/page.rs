//! The page of 96 objects (kurma.md, figure 3.13): 10 pages, 23 scripts, 7 style sheets, 56 images.

use bytes::Bytes;
use vector_client::{AttributeSet, Read, Target, Write};

use crate::counted::Counted;

/// Ending, how many, bytes of each.
const KINDS: [(&str, usize, usize); 4] =
    [("html", 9, 5_500), ("js", 23, 20_000), ("css", 7, 7_500), ("png", 56, 28_000)];

/// Gets it as a browser does through `kurma-web`: the page; the attributes of what it refers to; the content of that. `trips`
/// of each of the three; the paper has four in all (V41).
pub async fn get(counted: &Counted, trips: [usize; 3]) {
    let client = &counted.client;
    let names: Vec<String> = KINDS
        .into_iter()
        .flat_map(|(kind, count, _)| (0..count).map(move |n| format!("/home/page/{kind}/{n}.{kind}")))
        .collect();
    client.mkdir("/home/page", 0o755).await.unwrap();
    let folders = KINDS.map(|(kind, ..)| (format!("/home/page/{kind}").into(), 0o755));
    client.vmkdir(folders.into()).await.unwrap();
    let sizes = KINDS.into_iter().flat_map(|(_, count, size)| std::iter::repeat_n(size, count));
    let objects = names.iter().zip(sizes).map(|(name, size)| {
        let content: Bytes = name.bytes().cycle().take(size).collect();
        Write::whole(name, 0o644, content)
    });
    client.vwrite(objects.collect()).await.unwrap();
    client.vwrite(vec![Write::whole("/home/page/index.html", 0o644, names.join("\n"))]).await.unwrap();

    let page = vec![Read::new("/home/page/index.html", 0, 256 << 10)];
    let page = counted.costs("the page", trips[0], client.vread(page)).await.unwrap().remove(0).into_bytes();
    let page = String::from_utf8(page.to_vec()).unwrap();
    let targets: Vec<Target> = page.lines().map(Target::from).collect();
    assert_eq!(targets.len(), 95);
    let wanted = AttributeSet::KIND | AttributeSet::SIZE | AttributeSet::CHANGE;
    let attributes = client.vgetattrs(targets.clone(), wanted);
    let attributes = counted.costs("attributes of a page's objects", trips[1], attributes).await.unwrap();
    let reads = targets.into_iter().zip(&attributes);
    let reads = reads.map(|(target, attributes)| Read::new(target, 0, attributes.size.unwrap())).collect();
    let data = counted.costs("a page's objects", trips[2], client.vread(reads)).await.unwrap();
    for (data, name) in data.into_iter().zip(names) {
        assert!(data.into_bytes().starts_with(name.as_bytes()));
    }
}
