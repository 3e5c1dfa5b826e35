//! Directories in pages.

use file_system::{Caller, Name, OpenCreate, SetAttributes};
use nfs4::{DirEntry, FileType, NfsResOp, Outcome, ReadDirOk};

use super::*;
use crate::testing::{shared, volume};

const REQUEST: Bitmap =
    Attribute::set(&[Attribute::Type, Attribute::Fileid, Attribute::Filehandle, Attribute::Owner]);

/// A directory under test.
struct Listing {
    server: Shared,
    export: Export,
    transaction: Box<dyn Transaction>,
    names: Vec<String>,
}

impl Listing {
    /// With `count` files whose names have 1 to 255 bytes.
    async fn new(count: usize) -> Listing {
        let export = volume(5);
        let server = shared(vec![export.clone()]);
        let mut transaction = export.file_system.begin(&Caller::root(), Mode::Optimistic).await.unwrap();
        let root = transaction.root();
        let name = |n: usize| match n % 50 {
            49 => format!("{n:0>255}"),
            _ => format!("{n}"),
        };
        let names: Vec<String> = (0..count).map(name).collect();
        for name in &names {
            let name = Name::new(name.clone()).unwrap();
            transaction
                .open_create(root, &name, OpenCreate::Guarded, &SetAttributes::default())
                .await
                .unwrap();
        }
        Listing { server, export, transaction, names }
    }

    /// One READDIR; `None` when nothing fits.
    async fn page(&mut self, args: &ReadDirArgs, limit: usize) -> Option<(ReadDirOk, usize)> {
        let root = self.transaction.root();
        let mut describer = Describer::new(&self.server, &self.export, root, args.request, None);
        let mut out = Encoder::new();
        let written =
            list(&mut *self.transaction, root, args, limit, &mut describer, &HashMap::new(), &mut out)
                .await
                .unwrap();
        let bytes = out.into_bytes();
        if !written {
            assert!(bytes.is_empty());
            return None;
        }
        let size = bytes.len() - HEAD;
        match xdr::from_bytes(bytes).unwrap() {
            NfsResOp::ReadDir(Outcome::Ok(page)) => Some((page, size)),
            other => panic!("{other:?}"),
        }
    }

    /// All pages, each as large as `max_count` and `dir_count` allow.
    async fn pages(&mut self, max_count: usize, dir_count: u32) -> Vec<ReadDirOk> {
        let mut args = arguments(0, dir_count);
        let mut pages: Vec<ReadDirOk> = Vec::new();
        loop {
            let (page, size) = self.page(&args, max_count).await.unwrap();
            assert!(size <= max_count, "{size} bytes");
            if let Some(previous) = pages.last_mut().filter(|_| dir_count == 0)
                && let Some(next) = page.entries.first()
            {
                let full = xdr::to_bytes(previous).len() + xdr::to_bytes(next).len() + 4;
                assert!(full > max_count, "one more entry would have fitted");
            }
            args.cookie = page.entries.last().map_or(args.cookie, |entry| entry.cookie);
            args.cookie_verifier = page.cookie_verifier;
            let end = page.eof;
            assert!(end || !page.entries.is_empty());
            pages.push(page);
            if end {
                return pages;
            }
        }
    }
}

fn arguments(cookie: u64, dir_count: u32) -> ReadDirArgs {
    ReadDirArgs { cookie, cookie_verifier: VOLUME_VERIFIER, dir_count, max_count: u32::MAX, request: REQUEST }
}

fn names(pages: &[ReadDirOk]) -> Vec<String> {
    let name = |entry: &DirEntry| entry.name.as_str().unwrap().to_owned();
    pages.iter().flat_map(|page| &page.entries).map(name).collect()
}

#[tokio::test]
async fn every_entry_is_listed_once_whatever_fits_into_a_page() {
    for (count, limits) in [
        (0, &[16, 500][..]),
        (1, &[420, 4096]),
        (7, &[420, 1000, 4096]),
        (300, &[420, 421, 1000, 4096, 1 << 20]),
        (5000, &[420, 777, 4096, 100_000, 4 << 20]),
    ] {
        let mut listing = Listing::new(count).await;
        for &limit in limits {
            let pages = listing.pages(limit, 0).await;
            assert_eq!(names(&pages), listing.names, "{count} entries, {limit} bytes");
        }
    }
}

#[tokio::test]
async fn dir_count_bounds_names_and_cookies_but_lets_one_entry_through() {
    let mut listing = Listing::new(200).await;
    for dir_count in [1, 16, 40, 1000] {
        let pages = listing.pages(1 << 20, dir_count).await;
        assert_eq!(names(&pages), listing.names);
        for page in pages.iter().filter(|page| page.entries.len() > 1) {
            let bytes = |entry: &DirEntry| 12 + entry.name.len().next_multiple_of(4);
            let total: usize = page.entries.iter().map(bytes).sum();
            assert!(total <= dir_count as usize);
        }
    }
    assert_eq!(listing.pages(1 << 20, 1).await.len(), 200, "one entry a page");
}

#[tokio::test]
async fn nothing_is_written_when_not_even_one_entry_fits() {
    let mut listing = Listing::new(1).await;
    let whole = listing.page(&arguments(0, 0), 4096).await.unwrap().1;
    assert!(listing.page(&arguments(0, 0), whole).await.unwrap().0.eof);
    for limit in [0, 15, 16, whole - 1] {
        assert!(listing.page(&arguments(0, 0), limit).await.is_none(), "{limit} bytes");
    }
    let mut empty = Listing::new(0).await;
    let (page, size) = empty.page(&arguments(0, 0), 16).await.unwrap();
    assert_eq!((page.entries.len(), page.eof, size), (0, true, 16));
}

#[tokio::test]
async fn entries_carry_the_attributes_asked_for() {
    let mut listing = Listing::new(3).await;
    for entry in listing.pages(4096, 0).await.remove(0).entries {
        let values = entry.attributes.values().unwrap();
        assert_eq!(values.bitmap(), REQUEST);
        assert_eq!(values.r#type, Some(FileType::Regular));
        let Ok(Handle::File(file)) = listing.server.handles.open(&values.filehandle.unwrap()) else {
            panic!("not the handle of a file");
        };
        assert_eq!(values.fileid, Some(file.object.file_number()));
        let attributes = listing.transaction.attributes(file).await.unwrap();
        assert_eq!(attributes.file, file);
    }
}

#[test]
fn cookies_are_checked() {
    let other = Verifier([1; 8]);
    let check = |cookie, cookie_verifier| {
        check_cookie(&ReadDirArgs { cookie_verifier, ..arguments(cookie, 0) }, VOLUME_VERIFIER)
    };
    assert_eq!(check(0, VOLUME_VERIFIER), Ok(()));
    assert_eq!(check(0, other), Ok(()), "at the start there is nothing to verify");
    assert_eq!(check(1, VOLUME_VERIFIER), Err(NfsStatus::BadCookie));
    assert_eq!(check(2, VOLUME_VERIFIER), Err(NfsStatus::BadCookie));
    assert_eq!(check(3, VOLUME_VERIFIER), Ok(()));
    assert_eq!(check(3, other), Err(NfsStatus::NotSame));
}
