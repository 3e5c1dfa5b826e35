//! What a terminal shows of tools that take long.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use tar::{EntryType, Header};

use crate::world::{real, tool};

/// Runs a tool on a terminal until that shows what is looked for, and no longer; all that it showed until then.
fn shown(folder: &Path, command: &str, is_seen: impl Fn(&str) -> bool) -> String {
    let line = format!("stty cols 120; exec {} {command}", crate::support::KURMA.display());
    let mut terminal = tool("script", folder)
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = terminal.stdout.take().unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let text = loop {
        let count = out.read(&mut buffer).unwrap();
        bytes.extend(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if count == 0 || is_seen(&text) {
            break text;
        }
    };
    // The tool goes with its terminal.
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    text
}

/// An archive that takes many seconds to read and leaves nothing behind: members without content that are not unpacked.
fn long_archive(folder: &Path) -> u64 {
    let mut header = Header::new_gnu();
    header.set_path("nothing").unwrap();
    header.set_entry_type(EntryType::XGlobalHeader);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header.set_cksum();
    std::fs::write(folder.join("part"), header.as_bytes().repeat(1 << 16)).unwrap();
    real("gzip", folder, &["part"]);
    let archive = std::fs::read(folder.join("part.gz")).unwrap().repeat(200);
    std::fs::write(folder.join("long.tar.gz"), &archive).unwrap();
    archive.len() as u64
}

#[test]
fn untar_shows_how_much_of_the_archive_is_read_and_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let length = long_archive(folder.path());
    let total = format!("/{:.2} MiB ", length as f64 / f64::from(1 << 20));
    let text = shown(folder.path(), "untar -f long.tar.gz", |text| {
        text.split(['\r', '\n']).any(|line| {
            line.contains("untar ")
                && line.contains(&total)
                && line.contains("/s, ")
                && line.contains(" left")
        })
    });
    assert!(text.contains(&total) && text.contains(" left"), "{total}: {text:?}");
}

#[test]
fn untar_of_a_pipe_has_no_total() {
    let folder = tempfile::tempdir().unwrap();
    long_archive(folder.path());
    let text =
        shown(folder.path(), "untar < long.tar.gz", |text| text.contains("untar ") && text.contains("/s"));
    assert!(text.contains("/s") && !text.contains(" left"), "{text:?}");
}

#[test]
fn tar_shows_how_much_was_read() {
    let folder = tempfile::tempdir().unwrap();
    // It has no blocks, and takes long all the same.
    let file = std::fs::File::create(folder.path().join("file")).unwrap();
    file.set_len(64 << 30).unwrap();
    let text =
        shown(folder.path(), "tar -f /dev/null file", |text| text.contains("tar ") && text.contains("iB/s"));
    assert!(text.contains("iB/s"), "{text:?}");
}
