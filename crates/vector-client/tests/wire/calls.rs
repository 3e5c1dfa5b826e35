//! Every call, with so many elements: what it costs.

use std::io::SeekFrom;

use bytes::Bytes;
use nfs4::{NfsArgOp, OpCode, StableHow, StateId};
use nfs4_server::Limits;
use tokio_util::sync::CancellationToken;
use vector_client::{
    AttributeSet, Copy, CopyOptions, Creation, NewAttributes, Open, Options, Owner, Read, SetTime, Step,
    TO_END, Target, Time, Write,
};

use crate::counted::Counted;
use crate::page;
use crate::world::server_of;

/// Elements of one compound.
const STEPS: usize = 256;

/// Names that one compound removes.
const REMOVALS: usize = 1024;

/// Links and copies from one directory to another in one compound: 8 and 13 operations each, of at most 1,536.
const LINKS: usize = (1536 - 1) / 8;
const COPIES: usize = 1536 / 13;

/// Files of a tree that a server which takes 100 operations reads or writes at once, at the least.
const SMALL: usize = 16;

/// Bytes of a file.
const SIZE: usize = 1000;

fn at(folder: &str, n: usize) -> Target {
    format!("/home/{folder}/{n}").into()
}

fn content(n: usize) -> Bytes {
    format!("{n} ").bytes().cycle().take(SIZE).collect()
}

/// What a server does for its clients.
pub struct Has {
    /// COPY (RFC 7862 §15.2).
    pub copy: bool,
    /// Delegations of files that are open for reading (RFC 8881 §10.4).
    pub delegations: bool,
}

/// The vectors, each of `many` elements.
pub async fn vectors(counted: &Counted, many: usize, has: &Has) {
    let client = &counted.client;
    let trips = many.div_ceil(STEPS);
    let all = |folder: &'static str| (0..many).map(move |n| at(folder, n));
    for folder in ["files", "folders", "links", "names", "new", "copies"] {
        client.mkdir(format!("/home/{folder}"), 0o755).await.unwrap();
    }

    let folders = all("folders").map(|target| (target, 0o755)).collect();
    counted.costs("vmkdir", trips, client.vmkdir(folders)).await.unwrap();
    let writes = (0..many).map(|n| Write::whole(at("files", n), 0o644, content(n))).collect();
    // Safe without a COMMIT (V2), and by the state id that the OPEN before has left (V4).
    let is_safe = |sent: &NfsArgOp| match sent {
        NfsArgOp::Write(write) => write.stable > StableHow::Unstable && write.state_id == StateId::CURRENT,
        NfsArgOp::Close(close) => close.state_id == StateId::CURRENT,
        other => other.op_code() != OpCode::Commit,
    };
    counted.costs_only("vwrite, new files", trips, is_safe, client.vwrite(writes)).await.unwrap();
    let reads = || all("files").map(|target| Read::new(target, 0, SIZE as u64 + 1)).collect();
    for what in ["vread", "vread of what is kept"] {
        let is_current = |sent: &NfsArgOp| match sent {
            NfsArgOp::Read(read) => read.state_id == StateId::CURRENT,
            NfsArgOp::Close(close) => close.state_id == StateId::CURRENT,
            _ => true,
        };
        let data = counted.costs_only(what, trips, is_current, client.vread(reads())).await.unwrap();
        assert!(data.into_iter().enumerate().all(|(n, data)| data.into_bytes() == content(n)), "{what}");
    }
    let writes = all("files").map(|target| Write::new(target, 2, "in between")).collect();
    counted.costs("vwrite, existing files", trips, client.vwrite(writes)).await.unwrap();

    let wanted = AttributeSet::STAT;
    let got = counted.costs("vgetattrs", trips, client.vgetattrs(all("files").collect(), wanted)).await;
    assert!(got.unwrap().iter().all(|got| got.size == Some(SIZE as u64)));
    let got = client.vlgetattrs(all("folders").collect(), wanted);
    counted.costs("vlgetattrs", trips, got).await.unwrap();
    let new = NewAttributes {
        mode: Some(0o600),
        modified: Some(SetTime::To(Time { seconds: 1_000_000_000, nanoseconds: 0 })),
        ..NewAttributes::default()
    };
    let set = all("files").map(|target| (target, new.clone())).collect();
    counted.costs("vsetattrs", trips, client.vsetattrs(set)).await.unwrap();
    let set = all("folders").map(|target| (target, NewAttributes::mode(0o700))).collect();
    counted.costs("vlsetattrs", trips, client.vlsetattrs(set)).await.unwrap();

    let links = all("links").map(|target| (target, "text".into())).collect();
    counted.costs("vsymlink", trips, client.vsymlink(links)).await.unwrap();
    let texts = counted.costs("vreadlink", trips, client.vreadlink(all("links").collect())).await.unwrap();
    assert!(texts.iter().all(|text| text == "text"));
    let names = all("files").zip(all("names")).collect();
    counted.costs("vhardlink", many.div_ceil(LINKS), client.vhardlink(names)).await.unwrap();
    let names = all("names").zip(all("new")).collect();
    counted.costs("vrename", trips, client.vrename(names)).await.unwrap();

    let opens = all("files").map(Open::write).collect();
    let open = counted.costs("vopen", trips, client.vopen(opens)).await.unwrap();
    let writes = open.iter().map(|file| Write::new(*file, 0, "open")).collect();
    counted.costs("vwrite, open files", trips, client.vwrite(writes)).await.unwrap();
    let reads = open.iter().map(|file| Read::new(*file, 0, 4)).collect();
    // What is kept of them has changed: it is read in as many more, but that of one file comes at once.
    let cost = if many == 1 { 1 } else { 2 * trips };
    let data = counted.costs("vread, open files that have changed", cost, client.vread(reads)).await.unwrap();
    assert!(data.into_iter().all(|data| data.into_bytes() == "open"));
    counted.costs("vcommit", trips, client.vcommit(open.clone())).await.unwrap();
    counted.costs("vclose", trips, client.vclose(open)).await.unwrap();

    let opens = all("files").map(Open::read).collect();
    let open = counted.costs("vopen, to read", trips, client.vopen(opens)).await.unwrap();
    for is_known in [false, true] {
        let cost = if is_known && has.delegations { 0 } else { trips };
        let reads = open.iter().map(|file| Read::new(*file, 0, 4)).collect();
        let what = format!("vread, files that are open to be read, read before: {is_known}");
        let data = counted.costs(&what, cost, client.vread(reads)).await.unwrap();
        assert!(data.into_iter().all(|data| data.into_bytes() == "open"));
    }
    counted.costs("vclose, to read", trips, client.vclose(open)).await.unwrap();

    if has.copy {
        let copies = (0..many).map(|n| Copy::whole(at("files", n), at("copies", n), 0o600)).collect();
        // None of the data passes here (V12).
        let has_no_data = |sent: &NfsArgOp| {
            !matches!(sent.op_code(), OpCode::Read | OpCode::ReadPlus | OpCode::Write | OpCode::WriteSame)
        };
        let copying = client.vsscopy(copies);
        counted.costs_only("vsscopy", many.div_ceil(COPIES), has_no_data, copying).await.unwrap();
        let part = Copy {
            source_offset: 2,
            destination_offset: 5,
            length: 7,
            truncate: false,
            ..Copy::whole(at("files", 0), at("copies", 0), 0o600)
        };
        counted.costs_only("vsscopy of a part", 1, has_no_data, client.vsscopy(vec![part])).await.unwrap();
    }
    if many <= 128 {
        let copies = (0..many).map(|n| Copy::whole(at("files", n), at("copies", n), 0o600)).collect();
        counted.costs("vcopy", 3, client.vcopy(copies, client)).await.unwrap();
    }

    let mut listed = 0;
    let done = client.vlistdir(vec!["/home/files".into()], AttributeSet::NONE, false, |_, _| listed += 1);
    counted.costs("vlistdir", 1, done).await.unwrap();
    assert_eq!(listed, many);

    let steps = (0..many).map(|n| match n % 4 {
        0 => Step::Write(Write::whole(at("folders", n).join("file"), 0o600, "x")),
        1 => Step::Remove(at("folders", n)),
        2 => Step::Rename { from: at("folders", n), to: at("names", n) },
        _ => Step::SetAttributes {
            target: at("folders", n),
            attributes: NewAttributes::mode(0o755),
            follow: true,
        },
    });
    counted.costs("execute", trips, client.execute(steps.collect())).await.unwrap();
    let trips = many.div_ceil(REMOVALS);
    counted.costs("vremove", trips, client.vremove(all("new").collect())).await.unwrap();
}

/// A tree of so many levels below `/home/tree`, each directory with two files.
pub async fn tree(counted: &Counted, depth: usize, has: &Has) {
    let client = &counted.client;
    let deep = "/home/deep/0/0";
    client.mkdir("/home/deep", 0o755).await.unwrap();
    counted.costs("ensure_directory", 2, client.ensure_directory(deep, 0o755)).await.unwrap();
    counted.costs("ensure_directory, all there", 1, client.ensure_directory(deep, 0o755)).await.unwrap();

    let mut level = vec!["/home/tree".to_owned()];
    for _ in 0..depth {
        client.vmkdir(level.iter().map(|folder| (folder.into(), 0o755)).collect()).await.unwrap();
        let files = level.iter().flat_map(|folder| [0, 1].map(|n| format!("{folder}/f{n}")));
        client.vwrite(files.map(|file| Write::whole(file, 0o644, "x")).collect()).await.unwrap();
        level = level.iter().flat_map(|folder| [0, 1].map(|n| format!("{folder}/{n}"))).collect();
    }

    let mut found = 0;
    let listed = client.vlistdir(vec!["/home/tree".into()], AttributeSet::STAT, true, |_, _| found += 1);
    counted.costs("vlistdir, recursive", depth, listed).await.unwrap();
    assert_eq!(found, 3 * ((1 << depth) - 1) - 1);
    let (copies, options) = (vec![("/home/tree".into(), "/home/other".into())], CopyOptions::default());
    // Without COPY the first one is refused, and what it had opened closed; then all is read and written.
    let parts = (2 * ((1_usize << depth) - 1)).div_ceil(SMALL);
    let (mut watch, cost) = ((), 2 * depth + if has.copy { 4 } else { 5 + 2 * parts });
    let copied = client.cp_recursive(copies, client, &options, &mut watch);
    assert_eq!(counted.costs("cp_recursive", cost, copied).await.unwrap(), 0);
    let removed = client.rm_recursive(vec!["/home/tree".into()], |_| {});
    assert_eq!(counted.costs("rm_recursive", 1 + 2 * depth, removed).await.unwrap(), 0);
}

/// One file at a time.
pub async fn scalars(counted: &Counted) {
    let client = &counted.client;
    let file = "/home/alone";
    let open = counted.costs("create", 1, client.create(file, 0o644)).await.unwrap();
    counted.costs("write", 1, client.write(open, "hello, ")).await.unwrap();
    counted.costs("pwrite", 1, client.pwrite(open, 7, "world")).await.unwrap();
    counted.costs("fsync", 1, client.fsync(open)).await.unwrap();
    counted.costs("pread", 1, client.pread(open, 0, 5)).await.unwrap();
    counted.costs("read", 1, client.read(open, 100)).await.unwrap();
    counted.costs("lseek", 0, client.lseek(open, SeekFrom::Start(1))).await.unwrap();
    counted.costs("lseek from the end", 1, client.lseek(open, SeekFrom::End(-1))).await.unwrap();
    counted.costs("fstat", 1, client.fstat(open)).await.unwrap();
    counted.costs("ftruncate", 1, client.ftruncate(open, 5)).await.unwrap();
    counted.costs("close_file", 1, client.close_file(open)).await.unwrap();
    counted.costs("truncate", 1, client.truncate(file, 4)).await.unwrap();
    counted.costs("chmod", 1, client.chmod(file, 0o600)).await.unwrap();
    counted.costs("chown", 1, client.chown(file, Some(Owner::Id(0)), None)).await.unwrap();
    counted.costs("utimens", 1, client.utimens(file, None, Some(SetTime::Now))).await.unwrap();
    counted.costs("stat", 1, client.stat(file)).await.unwrap();
    counted.costs("lstat", 1, client.lstat(file)).await.unwrap();
    assert!(counted.costs("exists", 1, client.exists(file)).await.unwrap());
    assert!(!counted.costs("exists, nothing", 1, client.exists("/home/nothing")).await.unwrap());
    counted.costs("link", 1, client.link(file, "/home/further")).await.unwrap();
    counted.costs("rename", 1, client.rename("/home/further", "/home/renamed")).await.unwrap();
    counted.costs("symlink", 1, client.symlink("alone", "/home/link")).await.unwrap();
    counted.costs("readlink", 1, client.readlink("/home/link")).await.unwrap();
    counted.costs("stat through a link", 4, client.stat("/home/link")).await.unwrap();
    counted.costs("mkdir", 1, client.mkdir("/home/folder", 0o755)).await.unwrap();
    client.symlink("folder", "/home/way").await.unwrap();
    client.vwrite(vec![Write::whole("/home/folder/file", 0o600, "x")]).await.unwrap();
    counted.costs("stat by way of a link", 4, client.stat("/home/way/file")).await.unwrap();
    client.symlink("file", "/home/folder/two").await.unwrap();
    counted.costs("stat by way of two links", 7, client.stat("/home/way/two")).await.unwrap();
    client.vremove(["file", "two"].map(|name| format!("/home/folder/{name}").into()).into()).await.unwrap();
    counted.costs("list", 1, client.list("/home/folder", AttributeSet::STAT)).await.unwrap();
    counted.costs("unlink", 2, client.unlink("/home/renamed")).await.unwrap();
    counted.costs("rmdir", 2, client.rmdir("/home/folder")).await.unwrap();
}

/// Each with files of its own.
async fn kurma() -> (Counted, tokio_util::sync::DropGuard) {
    let stop = CancellationToken::new();
    let server = server_of(&["home"], Limits::default(), stop.clone()).await;
    (Counted::connect(server).await, stop.drop_guard())
}

const KURMA: Has = Has { copy: true, delegations: true };

#[tokio::test]
async fn a_vector_costs_a_round_trip_for_each_256_elements() {
    for many in [1, 96, 128, 256, 257, 1100] {
        let (counted, _server) = kurma().await;
        vectors(&counted, many, &KURMA).await;
        counted.check_with(&format!("{many} elements"));
    }
}

/// Nothing that only Kurma has is sent by a client that is not to use it (T7).
#[tokio::test]
async fn without_extensions_only_standard_operations_are_sent() {
    let stop = CancellationToken::new();
    let server = server_of(&["home"], Limits::default(), stop.clone()).await;
    let counted = Counted::connect_with(server, |options| options.extensions = false).await;
    vectors(&counted, 96, &KURMA).await;
    assert!(!counted.sent().contains(&OpCode::CompoundMode));
    counted.check_with("without extensions");
    let (counted, _server) = kurma().await;
    vectors(&counted, 96, &KURMA).await;
    let asked = |counted: &Counted| counted.sent().iter().filter(|it| **it == OpCode::CompoundMode).count();
    assert_eq!(asked(&counted), 1, "whether the server has it, once");
    let append =
        Write { create: Some(Creation { mode: 0o600, exclusive: false }), ..Write::append("/home/log", "x") };
    counted.costs("vwrite at the end", 1, counted.client.vwrite(vec![append])).await.unwrap();
    assert_eq!(asked(&counted), 2);
    stop.cancel();
}

#[tokio::test]
async fn trees_cost_round_trips_by_their_depth() {
    for depth in 1..=4 {
        let (counted, _server) = kurma().await;
        tree(&counted, depth, &KURMA).await;
        counted.check_with(&format!("a tree of depth {depth}"));
    }
}

#[tokio::test]
async fn a_call_for_one_file_costs_one_round_trip() {
    let (counted, _server) = kurma().await;
    scalars(&counted).await;
    counted.check_with("scalars");
}

#[tokio::test]
async fn a_page_of_96_files_costs_three_round_trips() {
    let stop = CancellationToken::new();
    let server = server_of(&["home"], Limits::default(), stop.clone()).await;
    let counted = Counted::connect_with(server, |options| options.transfer = 4 << 20).await;
    page::get(&counted, [1, 1, 1]).await;
    counted.check_with("the page");
    stop.cancel();
}

#[tokio::test]
async fn what_is_long_costs_as_many_round_trips_as_its_size_needs() {
    let (counted, _server) = kurma().await;
    let client = &counted.client;
    let data = Bytes::from(vec![7; 5 << 20]);
    // No operation has more than a MiB (V26).
    let is_short = |sent: &NfsArgOp| match sent {
        NfsArgOp::Read(read) => read.count <= 1 << 20,
        NfsArgOp::Write(write) => write.data.len() <= 1 << 20,
        _ => true,
    };
    let write = vec![Write::whole("/home/four", 0o600, data.slice(..4 << 20))];
    counted.costs_only("vwrite, 4 MiB", 1, is_short, client.vwrite(write)).await.unwrap();
    for mib in [5, 100] {
        let data = Bytes::from(vec![7; mib << 20]);
        let write = vec![Write::whole("/home/long", 0o600, data.clone())];
        let what = format!("vwrite, {mib} MiB");
        counted.costs_only(&what, 1 + mib + 1, is_short, client.vwrite(write)).await.unwrap();
        let read = client.vread(vec![Read::new("/home/long", 0, data.len() as u64)]);
        let what = format!("vread, {mib} MiB");
        let read = counted.costs_only(&what, mib, is_short, read).await.unwrap().remove(0);
        assert!(read.into_bytes() == data);
    }
    counted.check_with("what is long");
}

/// However much there is to read or write (V26).
#[tokio::test]
async fn no_message_is_longer_than_was_asked_for() {
    const MESSAGE: usize = 1 << 20;
    let stop = CancellationToken::new();
    let server = server_of(&["home"], Limits::default(), stop.clone()).await;
    let change = |options: &mut Options| options.nfs.message_bytes = MESSAGE as u32;
    let counted = Counted::connect_with(server, change).await;
    let client = &counted.client;
    // Files of all sizes around what a message holds, 100 MiB in all.
    let sizes = [1, 1000, 300_000, MESSAGE - 1, MESSAGE, MESSAGE + 1, 5 << 20];
    let mut sizes: Vec<usize> = sizes.iter().copied().cycle().take(80).collect();
    sizes.push((100 << 20) - sizes.iter().sum::<usize>());
    let data = |n: usize| content(n).iter().copied().cycle().take(sizes[n]).collect::<Bytes>();
    let all = 0..sizes.len();
    let writes = all.clone().map(|n| Write::whole(format!("/home/{n}"), 0o600, data(n)));
    let written = client.vwrite(writes.collect()).await.unwrap();
    assert!(written.into_iter().eq(sizes.iter().map(|size| *size as u64)));
    for wanted in [TO_END, 100 << 20] {
        let reads = all.clone().map(|n| Read::new(format!("/home/{n}"), 0, wanted));
        for (n, read) in client.vread(reads.collect()).await.unwrap().into_iter().enumerate() {
            assert!(read.into_bytes() == data(n), "{n}");
        }
    }
    let longest = counted.longest();
    assert!((MESSAGE / 2..=MESSAGE).contains(&longest), "{longest}");
    stop.cancel();
}

/// However many elements there are (V27).
#[tokio::test]
async fn no_compound_has_more_operations_than_were_asked_for() {
    const MANY: usize = 1000;
    for operations in [16, 100, 256] {
        let stop = CancellationToken::new();
        let server = server_of(&["home"], Limits::default(), stop.clone()).await;
        let counted = Counted::connect_with(server, |options| options.nfs.operations = operations).await;
        let client = &counted.client;
        client.vmkdir((0..10).map(|n| (format!("/home/{n}").into(), 0o755)).collect()).await.unwrap();
        let all = |name: &'static str| (0..MANY).map(move |n| at(&(n % 10).to_string(), n).join(name));
        client.vmkdir((0..MANY).map(|n| (at(&(n % 10).to_string(), n), 0o755)).collect()).await.unwrap();
        client.vwrite(all("file").map(|file| Write::whole(file, 0o600, "x")).collect()).await.unwrap();
        client.vsymlink(all("link").map(|link| (link, "file".into())).collect()).await.unwrap();
        client.vrename(all("link").zip(all("renamed")).collect()).await.unwrap();
        client.vhardlink(all("file").zip(all("name")).collect()).await.unwrap();
        let set = all("file").map(|file| (file, NewAttributes::mode(0o640)));
        client.vsetattrs(set.collect()).await.unwrap();
        let got = client.vgetattrs(all("name").collect(), AttributeSet::MODE | AttributeSet::LINKS).await;
        assert!(got.unwrap().iter().all(|got| (got.mode, got.links) == (Some(0o640), Some(2))));
        let data = client.vread(all("file").map(|file| Read::new(file, 0, 9)).collect()).await.unwrap();
        assert!(data.into_iter().all(|data| data.into_bytes() == "x"));
        client.vremove(all("name").chain(all("renamed")).collect()).await.unwrap();
        let most = counted.most_operations();
        assert!((operations as usize / 2..=operations as usize).contains(&most), "{most}, not {operations}");
        stop.cancel();
    }
}

#[tokio::test]
async fn what_only_kurma_has_costs_one_round_trip() {
    let (counted, _server) = kurma().await;
    let client = &counted.client;
    let create = Some(Creation { mode: 0o600, exclusive: false });
    let append = |text: &'static str| Write { create, ..Write::append("/home/log", text) };
    let appends = vec![append("one "), append("two ")];
    counted.costs("vwrite at the end", 1, client.vwrite(appends)).await.unwrap();
    let transaction = client.transaction(|t| {
        for n in 0..96 {
            t.write(Write::whole(format!("/home/{n}"), 0o600, content(n)));
            t.rename(format!("/home/{n}"), format!("/home/new-{n}"));
        }
    });
    counted.costs("transaction", 1, transaction).await.unwrap();
    counted.check_with("extensions");
}
