//! The page of 96 objects (kurma.md, figure 3.13): 10 pages, 23 scripts, 7 style sheets, 56 images.

use anyhow::{Result, ensure};
use bytes::Bytes;
use vector_client::{AttributeSet, Client, Read, Target, Write};

/// Folder and ending, how many, bytes of each. The page itself is one more.
const KINDS: [(&str, &str, usize, usize); 4] = [
    ("frames", "html", 9, 5_500),
    ("scripts", "js", 23, 20_000),
    ("styles", "css", 7, 7_500),
    ("images", "png", 56, 28_000),
];

/// Bytes of the page itself.
const INDEX: usize = 5_500;

/// Most round trips that the paper has (V41).
pub const ROUND_TRIPS: u64 = 4;

/// What the page refers to: name and bytes.
pub fn objects() -> impl Iterator<Item = (String, usize)> {
    let named =
        |(folder, ending, count, size)| (0..count).map(move |n| (format!("{folder}/{n}.{ending}"), size));
    KINDS.into_iter().flat_map(named)
}

/// The names that a page refers to: one on each line.
pub fn references(page: &[u8]) -> Vec<String> {
    let lines = page.split(|byte| *byte == b'\n').filter(|line| line.contains(&b'/'));
    lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

/// Bytes of all of it.
pub fn bytes() -> u64 {
    (INDEX + objects().map(|(_, size)| size).sum::<usize>()) as u64
}

pub async fn make(client: &Client, folder: &str) -> Result<()> {
    client.ensure_directory(folder, 0o755).await?;
    client.vmkdir(KINDS.iter().map(|kind| (format!("{folder}/{}", kind.0).into(), 0o755)).collect()).await?;
    let mut page: Vec<u8> = objects().flat_map(|(name, _)| (name + "\n").into_bytes()).collect();
    page.resize(INDEX, b' ');
    let mut writes = vec![Write::whole(format!("{folder}/index.html"), 0o644, page)];
    for (name, size) in objects() {
        writes.push(Write::whole(format!("{folder}/{name}"), 0o644, Bytes::from(vec![b'p'; size])));
    }
    client.vwrite(writes).await?;
    Ok(())
}

/// Gets it as `kurma-web` does: the page; the attributes of what it refers to; the content of that.
pub async fn get(client: &Client, folder: &str) -> Result<()> {
    let index = Read::new(format!("{folder}/index.html"), 0, 256 << 10);
    let page = client.vread(vec![index]).await?.remove(0).into_bytes();
    let names = references(&page);
    let targets: Vec<Target> = names.iter().map(|name| format!("{folder}/{name}").into()).collect();
    let wanted = AttributeSet::KIND | AttributeSet::SIZE | AttributeSet::CHANGE;
    let attributes = client.vgetattrs(targets.clone(), wanted).await?;
    let sizes = attributes.iter().map(|attributes| attributes.size.unwrap_or(0));
    let reads = targets.into_iter().zip(sizes).map(|(target, size)| Read::new(target, 0, size)).collect();
    let data = client.vread(reads).await?;
    let got = page.len() as u64 + data.iter().map(|data| data.len()).sum::<u64>();
    ensure!(got == bytes() && data.len() == 95, "{got} bytes of the page");
    Ok(())
}
