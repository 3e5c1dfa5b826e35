//! What a restore needs beside the clouds, as people keep it: a file (`kurma key export`), words on paper, or shares. Behind the key stands where the
//! clouds are.
//!
//! ```text
//! ... the lines of the key file, or words, or the lines of a share ...
//! kurma-recovery = 1
//! cloud = NAME URL
//! clouds-checksum = <first 8 bytes of BLAKE3 over the two kinds of lines above, each ended by a newline, in hexadecimal>
//! ```

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use environment::SystemEntropy;
use key_custody::{CustodyError, Share};
use seal::KeyFile;
use zeroize::Zeroizing;

use crate::{Config, StartError, owner};

const FIRST: &str = "kurma-recovery = 1";
const CLOUD: &str = "cloud = ";
const CHECKSUM: &str = "clouds-checksum = ";
/// Far more than keys and clouds take.
const MAX_LENGTH: u64 = 1 << 20;
/// Words in a line of paper.
const COLUMNS: usize = 4;

/// Keys, and the clouds by name and URL.
pub(crate) struct Recovery {
    pub key: KeyFile,
    pub clouds: Vec<(String, String)>,
}

/// How a key is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// The lines of a key file.
    File,
    /// Words.
    Words,
    /// Several files, each with a share; so many of them are needed, and so many are made.
    Shares(usize, usize),
}

/// What one file has of a key.
enum Part {
    Whole(KeyFile),
    Share(Share),
}

fn checksum(lines: &str) -> String {
    let hash = blake3::hash(lines.as_bytes());
    hash.as_bytes()[..8].iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn with_clouds(key: &str, clouds: &[(String, String)]) -> Zeroizing<String> {
    let mut lines = format!("{FIRST}\n");
    for (name, url) in clouds {
        let _ = writeln!(lines, "{CLOUD}{name} {url}");
    }
    let sum = checksum(&lines);
    Zeroizing::new(format!("{key}{lines}{CHECKSUM}{sum}\n"))
}

fn words_text(key: &KeyFile) -> Zeroizing<String> {
    let words = key_custody::words(key);
    let mut text = Zeroizing::new(String::with_capacity(4096));
    let _ = writeln!(
        text,
        "# The key of Kurma gateway {} in {} words. Whoever has them can read everything that is in its clouds.\n\
         # Key {}, generation {}. A file with these words is taken by: kurma restore --keys FILE, kurma key import FILE",
        key.gateway(),
        words.len(),
        key.id(),
        key.generation(),
    );
    for (line, words) in words.chunks(COLUMNS).enumerate() {
        for (at, word) in words.iter().enumerate() {
            let _ = write!(text, "{:3} {word:<10}", line * COLUMNS + at + 1);
        }
        text.push('\n');
    }
    text.push_str("# Where the clouds are; this is no secret.\n");
    text
}

fn parse_key(text: &str) -> Result<Part, CustodyError> {
    if text.lines().any(|line| line.trim_start().starts_with("kurma-key-file")) {
        return Ok(Part::Whole(KeyFile::parse(text)?));
    }
    if Share::is_text(text) {
        return Ok(Part::Share(Share::parse(text)?));
    }
    match key_custody::key_of_words(text) {
        Err(CustodyError::OtherKind { .. }) => Ok(Part::Share(Share::parse(text)?)),
        key => Ok(Part::Whole(key?)),
    }
}

fn parse(text: &str) -> Result<(Part, Vec<(String, String)>), String> {
    let begin = text.find(FIRST).filter(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n');
    let (key, rest) = text.split_at(begin.unwrap_or(text.len()));
    let key = parse_key(key).map_err(|cause| cause.to_string())?;
    let (mut clouds, mut lines) = (Vec::new(), String::new());
    let mut whole = rest.is_empty();
    for line in rest.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(sum) = line.strip_prefix(CHECKSUM) {
            whole = sum == checksum(&lines);
            continue;
        }
        let _ = writeln!(lines, "{line}");
        if let Some((name, url)) = line.strip_prefix(CLOUD).and_then(|cloud| cloud.split_once(' ')) {
            clouds.push((name.to_owned(), url.to_owned()));
        } else if line != FIRST {
            return Err(format!("{line:?} is no line of a recovery file"));
        }
    }
    if !whole {
        return Err("its list of clouds is damaged; export it again, or name the clouds with --cloud".into());
    }
    Ok((key, clouds))
}

/// Reads a recovery file, a plain key file, words, or shares, each from its file. Only the first of these names clouds for sure.
pub(crate) fn load(paths: &[PathBuf]) -> Result<Recovery, StartError> {
    let (mut shares, mut whole, mut clouds) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        let (part, named) = read(path)?;
        clouds.extend(named);
        match part {
            Part::Whole(key) => whole.push(key),
            Part::Share(share) => shares.push(share),
        }
    }
    clouds.sort();
    clouds.dedup();
    let key = match (&whole[..], &shares[..]) {
        ([key], []) => key.clone(),
        ([], [_, ..]) => {
            key_custody::combine(&shares).map_err(|cause| StartError::Configuration(cause.to_string()))?
        }
        _ => {
            return Err(StartError::Configuration(
                "name one file with a whole key, or several with shares of one, and not both".into(),
            ));
        }
    };
    Ok(Recovery { key, clouds })
}

fn read(path: &Path) -> Result<(Part, Vec<(String, String)>), StartError> {
    let wrong =
        |cause: &dyn std::fmt::Display| StartError::Configuration(format!("{}: {cause}", path.display()));
    let file = File::open(path).map_err(|cause| wrong(&cause))?;
    let mode = file.metadata().map_err(|cause| wrong(&cause))?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(wrong(&format!("others can read it (mode {mode:o}); run `chmod 600` on it")));
    }
    let mut text = Zeroizing::new(String::new());
    file.take(MAX_LENGTH).read_to_string(&mut text).map_err(|cause| wrong(&cause))?;
    parse(&text).map_err(|cause| wrong(&cause))
}

/// Writes everything that `kurma restore` needs beside the clouds themselves, into a new file with mode 0600, or into a new folder with a file for
/// each share. Returns the files.
///
/// # Errors
/// The key file cannot be read or is just being replaced, or what is to be written is there already or cannot be written.
pub fn export_recovery(config: &Config, path: &Path, form: KeyForm) -> Result<Vec<PathBuf>, StartError> {
    let key = owner::load_key(&config.gateway.key_file)?;
    if key.oldest_generation() != key.generation() {
        return Err(StartError::Configuration(
            "keys are just being shredded; export again when `kurma key show` says that it is done".into(),
        ));
    }
    let clouds: Vec<_> = config.clouds.iter().map(|cloud| (cloud.name.clone(), cloud.url.clone())).collect();
    write_key(&key, &clouds, path, form)
}

/// The same, of what other files hold: words or shares become a file.
///
/// # Errors
/// What is wrong with them, or the file is there already or cannot be written.
pub fn import_recovery(from: &[PathBuf], to: &Path) -> Result<KeyFile, StartError> {
    let Recovery { key, clouds } = load(from)?;
    write_key(&key, &clouds, to, KeyForm::File)?;
    Ok(key)
}

pub(crate) fn write_key(
    key: &KeyFile,
    clouds: &[(String, String)],
    path: &Path,
    form: KeyForm,
) -> Result<Vec<PathBuf>, StartError> {
    let key = key.with_newest_opener();
    match form {
        KeyForm::File => write_new(path, &with_clouds(&key.to_text(), clouds))?,
        KeyForm::Words => write_new(path, &with_clouds(&words_text(&key), clouds))?,
        KeyForm::Shares(needed, total) => {
            let shares = key_custody::split(&key, needed, total, &SystemEntropy::new());
            let shares = shares.map_err(|cause| StartError::Configuration(cause.to_string()))?;
            let made = std::fs::DirBuilder::new().mode(0o700).create(path);
            made.map_err(|cause| cannot_write(path, &cause))?;
            let name = |share: &Share| path.join(format!("share-{}-of-{total}.txt", share.number));
            for share in &shares {
                write_new(&name(share), &with_clouds(&share.to_text(), clouds))?;
            }
            return Ok(shares.iter().map(name).collect());
        }
    }
    Ok(vec![path.to_owned()])
}

/// Writes a recovery file that a crash may have left unfinished, or finished, before.
pub(crate) fn write_again(key: &KeyFile, clouds: &[(String, String)], path: &Path) -> Result<(), StartError> {
    let text = with_clouds(&key.with_newest_opener().to_text(), clouds);
    match std::fs::read(path) {
        Ok(there) if there == text.as_bytes() => return Ok(()),
        Ok(there) if text.as_bytes().starts_with(&there) => {
            std::fs::remove_file(path).map_err(|cause| cannot_write(path, &cause))?;
        }
        _ => {}
    }
    write_new(path, &text)
}

fn cannot_write(path: &Path, cause: &std::io::Error) -> StartError {
    StartError::Configuration(format!("cannot write {}: {cause}", path.display()))
}

fn write_new(path: &Path, text: &str) -> Result<(), StartError> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    write().map_err(|cause| cannot_write(path, &cause))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use ids::GatewayId;

    use super::*;

    fn clouds() -> Vec<(String, String)> {
        vec![
            ("a".to_owned(), "dir:///with a space".to_owned()),
            ("b".to_owned(), "s3://bucket/p?region=x".to_owned()),
        ]
    }

    fn key() -> KeyFile {
        KeyFile::generate(GatewayId(3), &SystemEntropy::new())
    }

    #[test]
    fn keys_and_clouds_come_back_and_changes_are_noticed() {
        let key = key();
        let text = with_clouds(&key.to_text(), &clouds());
        let (Part::Whole(back), named) = parse(&text).unwrap() else { panic!("a whole key") };
        assert_eq!((back, named), (key.clone(), clouds()));
        let (Part::Whole(back), named) = parse(&key.to_text()).unwrap() else { panic!("a whole key") };
        assert!(back == key && named.is_empty());
        assert!(parse(&text.replace("cloud = a ", "cloud = c ")).is_err());
        assert!(parse(&text[..text.len() - 5]).is_err());
        assert!(parse(&text.replace("cloud = a", "clod = a")).is_err());
    }

    #[test]
    fn words_and_any_two_of_three_shares_become_the_same_recovery_file() {
        let folder = tempfile::tempdir().unwrap();
        let (key, at) = (key(), |name: &str| folder.path().join(name));
        write_key(&key, &clouds(), &at("file"), KeyForm::File).unwrap();
        write_key(&key, &clouds(), &at("words"), KeyForm::Words).unwrap();
        let shares = write_key(&key, &clouds(), &at("shares"), KeyForm::Shares(2, 3)).unwrap();
        assert_eq!(import_recovery(&[at("words")], &at("1")).unwrap(), key);
        assert_eq!(import_recovery(&[shares[2].clone(), shares[0].clone()], &at("2")).unwrap(), key);
        for made in ["1", "2"] {
            assert_eq!(std::fs::read(at(made)).unwrap(), std::fs::read(at("file")).unwrap());
            assert_eq!(std::fs::metadata(at(made)).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let error = import_recovery(&shares[..1], &at("3")).unwrap_err().to_string();
        assert!(error.contains("2 shares of set"), "{error}");
        assert!(import_recovery(&[at("words"), at("file")], &at("3")).is_err());
        assert!(import_recovery(&[at("words")], &at("1")).is_err(), "nothing is overwritten");
        assert!(!at("3").exists());
    }

    #[test]
    fn an_unfinished_recovery_file_is_written_again_and_another_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (key, at) = (key(), folder.path().join("file"));
        write_again(&key, &clouds(), &at).unwrap();
        let text = std::fs::read(&at).unwrap();
        write_again(&key, &clouds(), &at).unwrap();
        for torn in [&text[..0], &text[..100]] {
            std::fs::write(&at, torn).unwrap();
            write_again(&key, &clouds(), &at).unwrap();
            assert_eq!(std::fs::read(&at).unwrap(), text);
        }
        std::fs::write(&at, "somebody's").unwrap();
        assert!(write_again(&key, &clouds(), &at).is_err());
        assert_eq!(std::fs::read(&at).unwrap(), b"somebody's");
    }

    #[test]
    fn what_is_written_down_has_the_newest_opener_alone() {
        let folder = tempfile::tempdir().unwrap();
        let both = key().with_next_opener(&SystemEntropy::new()).unwrap();
        let at = folder.path().join("file");
        write_key(&both, &[], &at, KeyForm::File).unwrap();
        assert_eq!(load(&[at]).unwrap().key, both.with_newest_opener());
    }
}
