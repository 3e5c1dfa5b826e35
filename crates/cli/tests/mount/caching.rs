//! What one mount writes, the other reads after open; and what the kernel keeps.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};

use crate::world::World;

#[test]
fn whoever_opens_a_file_reads_what_was_closed_elsewhere() {
    let world = World::new();
    let (one, other) = (world.mount("one", &[]), world.mount("other", &[]));
    fs::write(one.path("file"), "").unwrap();
    for round in 0..60u32 {
        let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        // The reader has it cached; and every second time it has the same size as before.
        let _ = fs::read(reader.path("file")).unwrap();
        let text = format!("{round:06}").repeat(1000 + (round as usize / 2) % 3 * 1000);
        fs::write(writer.path("file"), &text).unwrap();
        let read = fs::read_to_string(reader.path("file")).unwrap();
        assert!(read == text, "round {round}: {} bytes instead of {}", read.len(), text.len());
    }
}

#[test]
fn data_is_appended_behind_what_others_have_appended() {
    let world = World::new();
    let (one, other) = (world.mount("one", &[]), world.mount("other", &[]));
    let mut expected = String::new();
    for round in 0..40 {
        let mount = if round % 2 == 0 { &one } else { &other };
        let line = format!("line {round}\n");
        let mut file = OpenOptions::new().append(true).create(true).open(mount.path("log")).unwrap();
        file.write_all(line.as_bytes()).unwrap();
        drop(file);
        expected += &line;
    }
    assert_eq!(fs::read_to_string(one.path("log")).unwrap(), expected);
    assert_eq!(fs::read_to_string(other.path("log")).unwrap(), expected);
}

#[test]
fn names_and_attributes_are_asked_for_again_when_their_time_is_over() {
    let world = World::new();
    let (one, other) = (world.mount("one", &["-o", "actimeo=0"]), world.mount("other", &["-o", "actimeo=0"]));
    for round in 0..20 {
        fs::write(one.path("file"), "x".repeat(round)).unwrap();
        assert_eq!(fs::metadata(other.path("file")).unwrap().len(), round as u64);
        fs::rename(other.path("file"), other.path("elsewhere")).unwrap();
        assert!(!one.path("file").exists());
        assert!(one.path("elsewhere").exists());
    }
}

#[test]
fn a_file_replaced_by_another_of_its_name_is_opened_as_the_new_one() {
    let world = World::new();
    let (one, other) = (world.mount("one", &[]), world.mount("other", &[]));
    for round in 0..20 {
        let text = format!("version {round}");
        let writer = if round % 2 == 0 { &one } else { &other };
        fs::write(writer.path("new"), &text).unwrap();
        fs::rename(writer.path("new"), writer.path("file")).unwrap();
        for reader in [&one, &other] {
            assert_eq!(fs::read_to_string(reader.path("file")).unwrap(), text);
        }
    }
}

#[test]
fn data_on_its_way_is_seen_by_those_who_read_it_here() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("file")).unwrap();
    let mut model = vec![0u8; 300_000];
    // Pieces that overlap, written and read in turn; offsets and lengths come from a small generator.
    let mut state = 1u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut end = 0;
    for round in 0..400u32 {
        let (start, length) = (next(290_000), 1 + next(9_000));
        let piece = vec![round as u8; length];
        file.seek(SeekFrom::Start(start as u64)).unwrap();
        file.write_all(&piece).unwrap();
        model[start..start + length].copy_from_slice(&piece);
        end = end.max(start + length);
        assert_eq!(file.metadata().unwrap().len(), end as u64);
        let (start, length) = (next(end), 1 + next(9_000));
        let mut read = vec![0; length.min(end - start)];
        let mut reader = File::open(mount.path("file")).unwrap();
        reader.seek(SeekFrom::Start(start as u64)).unwrap();
        reader.read_exact(&mut read).unwrap();
        assert!(read == model[start..start + read.len()], "round {round}");
        if round % 50 == 0 {
            file.sync_all().unwrap();
        }
    }
    drop(file);
    mount.unmount();
    let mount = world.mount("mnt", &[]);
    assert!(fs::read(mount.path("file")).unwrap() == model[..end]);
}
