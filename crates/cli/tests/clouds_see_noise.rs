//! What clients store appears in no cloud, in no name of a cloud's objects, in no journal and in no cache file.
//!
//! The metadata store is not searched: it holds names in the clear and never leaves the machine (docs/security.md).

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use aho_corasick::AhoCorasick;
use bytes::{Bytes, BytesMut};
use data_encoding::{BASE32, BASE64, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use nfs4::{CreateType, StableHow};
use nfs4_client::operations;
use support::{Client, DISPERSALS, Gateway, Random, Settings, files_below, named_fragments, place_in_dir};

/// Sixteen random bytes and all the forms in which they could give themselves away.
struct Canaries {
    needles: Vec<Vec<u8>>,
    /// What each needle is a form of.
    meanings: Vec<&'static str>,
}

impl Canaries {
    fn add(&mut self, meaning: &'static str, canary: &[u8]) {
        let mut forms = vec![
            canary.to_vec(),
            canary.iter().rev().copied().collect(),
            HEXLOWER.encode(canary).into_bytes(),
            HEXUPPER.encode(canary).into_bytes(),
            canary.iter().flat_map(|byte| [*byte, 0]).collect(),
            canary.iter().flat_map(|byte| [0, *byte]).collect(),
        ];
        // At each position in a longer text these encodings look different; the middle of them is certain.
        for skipped in 0..3 {
            let aligned = &canary[skipped..skipped + 12];
            forms.extend([BASE64.encode(aligned), BASE64URL_NOPAD.encode(aligned)].map(String::into_bytes));
        }
        for skipped in 0..5 {
            forms.push(BASE32.encode(&canary[skipped..skipped + 10]).into_bytes());
        }
        self.meanings.extend(forms.iter().map(|_| meaning));
        self.needles.extend(forms);
    }

    /// Looks into every file below `folder` and at its name.
    fn expect_absent(&self, search: &AhoCorasick, folder: &Path) -> u64 {
        let mut bytes = 0;
        for file in files_below(folder) {
            let content = std::fs::read(&file).unwrap_or_default(); // collected meanwhile
            bytes += content.len() as u64;
            let name = file.to_string_lossy().into_owned().into_bytes();
            for text in [&content, &name] {
                if let Some(found) = search.find(text) {
                    let meaning = self.meanings[found.pattern().as_usize()];
                    panic!("{} shows {meaning} at byte {}", file.display(), found.start());
                }
            }
        }
        bytes
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_canary_leaves_the_machine_or_lies_in_journal_or_cache() {
    for policy in DISPERSALS {
        expect_no_canary(policy).await;
    }
}

async fn expect_no_canary(policy: &'static str) {
    let mut random = Random::from_environment("clouds see noise");
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { policy, write_back_wait: "1h", ..Settings::in_folder(folder.path()) };
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    let mut canaries = Canaries { needles: Vec::new(), meanings: Vec::new() };

    // Contents: tiny, small, large, sparse, rewritten.
    let mut contents: Vec<(String, Bytes)> = Vec::new();
    for (number, length) in [16, 1000, 65_536, 300_000, 2_000_000].into_iter().enumerate() {
        let canary = random.bytes(16);
        canaries.add("file content", &canary);
        let mut data = BytesMut::new();
        while data.len() < length {
            data.extend_from_slice(&canary); // everywhere: at every offset of every block
        }
        contents.push((format!("content{number}"), data.freeze()));
    }
    for (path, data) in &contents {
        client.write(path, data).await;
    }
    let sparse = random.bytes(16);
    canaries.add("sparse content", &sparse);
    let file = client.session.create(&client.home, "sparse", 0o644).await.unwrap();
    for offset in [0, 100_000, 10_000_000] {
        client
            .write_at(&file.handle, file.state_id, offset, StableHow::FileSync, sparse.clone())
            .await
            .unwrap();
    }
    client.session.close(&file).await.unwrap();

    // Names and targets: text, as names usually are.
    let mut word = |meaning| {
        let word = HEXLOWER.encode(&random.bytes(12));
        canaries.add(meaning, word.as_bytes());
        word
    };
    let (named, directory, link, target) =
        (word("a file name"), word("a directory name"), word("a link name"), word("a link target"));
    client.write(&named, &Bytes::from_static(b"x")).await;
    client.make_directory(&directory).await;
    let mut request = client.walk(&directory);
    request.push(operations::create(CreateType::SymbolicLink(target.as_str().into()), link.as_str(), 0o777));
    client.run(&request).await.unwrap();

    let search = AhoCorasick::new(&canaries.needles).unwrap();
    let data = gateway.data.clone();
    let expect_noise = |moment: &str| {
        let mut searched = 0;
        for place in [folder.path().join("clouds"), data.join("journal"), data.join("cache")] {
            searched += canaries.expect_absent(&search, &place);
        }
        println!("{policy}, {moment}: {searched} bytes searched");
        searched
    };
    assert!(expect_noise("before the flush") > 2_000_000, "the journal is not where it was looked for");
    gateway.flush();
    expect_noise("after the flush");
    for (path, data) in &contents {
        client.expect(path, data).await;
    }
    gateway.drop_cache();
    for (path, data) in &contents {
        client.expect(path, data).await; // fills the disk cache
    }
    expect_noise("after reads");
    assert_eq!(gateway.stop(), Some(0));
    expect_noise("after the stop");
    assert!(files_below(&folder.path().join("clouds")).len() > 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn equal_contents_do_not_look_equal_in_the_clouds() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { gc_delay: "1h", ..Settings::in_folder(folder.path()) };
    let gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    let data = Bytes::from(vec![b'e'; 4 * 65_536]);
    let mut seen = std::collections::HashSet::new();
    for path in ["one", "other", "one"] {
        client.write(path, &data).await;
        gateway.flush();
        for place in named_fragments(&gateway, path) {
            let cloud = folder.path().join("clouds").join(&place.cloud);
            let bytes = std::fs::read(place_in_dir(&cloud, &place.name)).unwrap();
            // Header and checksum differ by construction; the body must, too.
            assert!(seen.insert(bytes[32..].to_vec()), "{place:?} of {path} equals another fragment");
        }
    }
    assert_eq!(seen.len(), 3 * 4 * 3);
}

/// Where it is written down what a cloud sees.
const SECURITY: &str = include_str!("../../../docs/security.md");

/// Sixteen full blocks and eight that are not full. All that a cloud may tell about them is the same for each form.
struct Form {
    /// Where the files are by turns, as a tree.
    directories: &'static [&'static str],
    /// How many files; the blocks are shared out, and one that is not full ends each of the first eight.
    files: usize,
    /// How many names are to be stored; each with so many letters.
    letters: usize,
    /// How many bytes the last blocks have.
    tail: usize,
    /// Nothing but one byte, again and again, or noise.
    is_plain: bool,
}

const FORMS: [Form; 3] = [
    Form { directories: &["one", "two", "three", "four"], files: 8, letters: 3, tail: 1, is_plain: true },
    Form {
        directories: &["deep", "deep/er", "deep/er/still", "deep/er/still/more"],
        files: 8,
        letters: 90,
        tail: 4_000,
        is_plain: false,
    },
    Form { directories: &["wide"], files: 16, letters: 3, tail: 2_000, is_plain: false },
];

/// What somebody sees to whom all of one cloud leaked, after a flush with a backup: forms of names, and lengths.
async fn leaked(policy: &'static str, form: &Form) -> String {
    let mut random = Random::from_environment("leaked cloud");
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { policy, write_back_wait: "1h", ..Settings::in_folder(folder.path()) };
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    for directory in form.directories {
        client.make_directory(directory).await;
    }
    let full = 16 / form.files;
    for number in 0..form.files {
        let directory = form.directories[number % form.directories.len()];
        let tail = if number < 8 { form.tail } else { 0 };
        let mut data = random.bytes(full * 65_536 + tail).to_vec();
        if form.is_plain {
            // Different blocks: that some are equal is what `caont-rs` shows.
            for (block, data) in data.chunks_mut(65_536).enumerate() {
                data.fill((100 * block + number) as u8);
            }
        }
        client.write(&format!("{directory}/{number}{}", "n".repeat(form.letters)), &data.into()).await;
    }
    gateway.flush();
    assert_eq!(gateway.stop(), Some(0));
    let leaked = folder.path().join("clouds/a");
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for file in files_below(&leaked) {
        let name = file.strip_prefix(&leaked).unwrap().to_str().unwrap();
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { '*' } else { c }).collect();
        *seen.entry(format!("{name}, {} bytes", file.metadata().unwrap().len())).or_default() += 1;
    }
    seen.iter().map(|(form, count)| format!("    {count} x {form}\n")).collect()
}

/// Trees that differ in number, depth and breadth, names, contents, and sizes within the padding are one and the same to a cloud that
/// has all its fragments and the backup of the metadata. Times of the server are not compared: it sees when it is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leaked_cloud_shows_how_much_there_is_and_nothing_else() {
    for policy in DISPERSALS {
        let first = leaked(policy, &FORMS[0]).await;
        let listed = format!("    {policy}\n{first}");
        assert!(SECURITY.contains(&listed), "docs/security.md does not say that an observer sees\n{listed}");
        for other in &FORMS[1..] {
            assert_eq!(first, leaked(policy, other).await, "{policy}");
        }
    }
}
