//! The one file that a restore needs: the key file, and behind it where the clouds are (`kurma key export`).
//!
//! ```text
//! ... the lines of the key file ...
//! kurma-recovery = 1
//! cloud = NAME URL
//! clouds-checksum = <first 8 bytes of BLAKE3 over the two kinds of lines above, each ended by a newline, in hexadecimal>
//! ```

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use seal::KeyFile;
use zeroize::Zeroizing;

use crate::{Config, StartError, owner};

const FIRST: &str = "kurma-recovery = 1";
const CLOUD: &str = "cloud = ";
const CHECKSUM: &str = "clouds-checksum = ";
/// Far more than keys and clouds take.
const MAX_LENGTH: u64 = 1 << 20;

/// Keys, and the clouds by name and URL.
pub(crate) struct Recovery {
    pub key: KeyFile,
    pub clouds: Vec<(String, String)>,
}

fn checksum(lines: &str) -> String {
    let hash = blake3::hash(lines.as_bytes());
    hash.as_bytes()[..8].iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn to_text(key: &KeyFile, clouds: &[(String, String)]) -> Zeroizing<String> {
    let mut lines = format!("{FIRST}\n");
    for (name, url) in clouds {
        let _ = writeln!(lines, "{CLOUD}{name} {url}");
    }
    let sum = checksum(&lines);
    Zeroizing::new(format!("{}{lines}{CHECKSUM}{sum}\n", key.to_text().as_str()))
}

fn parse(text: &str) -> Result<Recovery, String> {
    let begin = text.find(FIRST).filter(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n');
    let (key, rest) = text.split_at(begin.unwrap_or(text.len()));
    let key = KeyFile::parse(key).map_err(|cause| cause.to_string())?;
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
    Ok(Recovery { key, clouds })
}

/// Reads a recovery file, or a plain key file, which names no clouds.
pub(crate) fn load(path: &Path) -> Result<Recovery, StartError> {
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

/// Writes everything that `kurma restore` needs beside the clouds themselves into a new file with mode 0600.
///
/// # Errors
/// The key file cannot be read, or the file is there already or cannot be written.
pub fn export_recovery(config: &Config, path: &Path) -> Result<(), StartError> {
    let key = owner::load_key(&config.gateway.key_file)?;
    let clouds: Vec<_> = config.clouds.iter().map(|cloud| (cloud.name.clone(), cloud.url.clone())).collect();
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(to_text(&key, &clouds).as_bytes())?;
        file.sync_all()
    };
    write().map_err(|cause| StartError::Configuration(format!("cannot write {}: {cause}", path.display())))
}

#[cfg(test)]
mod tests {
    use environment::SystemEntropy;
    use ids::GatewayId;

    use super::*;

    #[test]
    fn keys_and_clouds_come_back_and_changes_are_noticed() {
        let key = KeyFile::generate(GatewayId(3), &SystemEntropy::new());
        let clouds = vec![
            ("a".to_owned(), "dir:///with a space".to_owned()),
            ("b".to_owned(), "s3://bucket/p?region=x".to_owned()),
        ];
        let text = to_text(&key, &clouds);
        let back = parse(&text).unwrap();
        assert_eq!((back.key, back.clouds), (key.clone(), clouds));
        let plain = parse(&key.to_text()).unwrap();
        assert!(plain.key == key && plain.clouds.is_empty());
        assert!(parse(&text.replace("cloud = a ", "cloud = c ")).is_err());
        assert!(parse(&text[..text.len() - 5]).is_err());
        assert!(parse(&text.replace("cloud = a", "clod = a")).is_err());
    }
}
