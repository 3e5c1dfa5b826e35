use std::sync::Arc;

use bytes::Bytes;

use super::scene::*;
use crate::limits::MAX_XATTR_VALUE;
use crate::{CreateKind, FileSystem, FsError, SetAttributes, XattrMode, XattrName};

fn xattr(text: &str) -> XattrName {
    XattrName::new(text.to_owned()).unwrap()
}

pub async fn values_are_kept_replaced_and_removed(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"").await.file;
    let change = tx.set_xattr(file, &xattr("user"), "one".into(), XattrMode::Either).await.unwrap();
    assert!(change.after > change.before);
    tx.set_xattr(file, &xattr("empty"), Bytes::new(), XattrMode::Either).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.xattr(file, &xattr("user")).await.unwrap(), "one");
    assert_eq!(tx.xattr(file, &xattr("empty")).await.unwrap(), "");
    tx.set_xattr(file, &xattr("user"), "two".into(), XattrMode::Either).await.unwrap();
    assert_eq!(tx.xattr(file, &xattr("user")).await.unwrap(), "two");
    tx.remove_xattr(file, &xattr("empty")).await.unwrap();
    assert_eq!(tx.xattr(file, &xattr("empty")).await, Err(FsError::NoXattr));
    assert_eq!(tx.remove_xattr(file, &xattr("empty")).await, Err(FsError::NoXattr));
}

pub async fn create_and_replace_are_told_apart(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let replaced = tx.set_xattr(root, &xattr("x"), "1".into(), XattrMode::Replace).await;
    assert_eq!(replaced, Err(FsError::NoXattr));
    tx.set_xattr(root, &xattr("x"), "1".into(), XattrMode::Create).await.unwrap();
    assert_eq!(tx.set_xattr(root, &xattr("x"), "2".into(), XattrMode::Create).await, Err(FsError::Exists));
    tx.set_xattr(root, &xattr("x"), "2".into(), XattrMode::Replace).await.unwrap();
    assert_eq!(tx.xattr(root, &xattr("x")).await.unwrap(), "2");
}

pub async fn names_are_listed_in_order(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    assert!(tx.xattrs(root).await.unwrap().is_empty());
    for text in ["b", "a", "c", "aa"] {
        tx.set_xattr(root, &xattr(text), "".into(), XattrMode::Either).await.unwrap();
    }
    tx.remove_xattr(root, &xattr("c")).await.unwrap();
    assert_eq!(tx.xattrs(root).await.unwrap(), ["a", "aa", "b"].map(xattr));
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.xattrs(root).await.unwrap(), ["a", "aa", "b"].map(xattr));
}

pub async fn links_and_special_nodes_have_none(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let set = SetAttributes::with_mode(0o777);
    let link = CreateKind::Symlink(Bytes::from_static(b"a"));
    for (text, kind) in [("link", link), ("fifo", CreateKind::Fifo)] {
        let made = tx.create(root, &name(text), kind, &set).await.unwrap().attributes.file;
        let result = tx.set_xattr(made, &xattr("x"), "1".into(), XattrMode::Either).await;
        assert_eq!(result, Err(FsError::NotPermitted));
    }
}

pub async fn values_over_the_limit_are_refused(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let large = Bytes::from(vec![1; MAX_XATTR_VALUE + 1]);
    let result = tx.set_xattr(root, &xattr("x"), large.clone(), XattrMode::Either).await;
    assert_eq!(result, Err(FsError::XattrTooLarge));
    tx.set_xattr(root, &xattr("x"), large.slice(1..), XattrMode::Either).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.xattr(root, &xattr("x")).await.unwrap().len(), MAX_XATTR_VALUE);
}

pub async fn names_may_hold_dots_and_slashes(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let texts = [".", "..", "a/b"];
    for text in texts {
        tx.set_xattr(root, &xattr(text), text.into(), XattrMode::Create).await.unwrap();
    }
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.xattrs(root).await.unwrap(), texts.map(xattr));
    for text in texts {
        assert_eq!(tx.xattr(root, &xattr(text)).await.unwrap(), text);
    }
}
