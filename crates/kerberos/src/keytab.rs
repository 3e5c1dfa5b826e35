//! The file with a service's keys, as MIT Kerberos writes it (format 5.2).

use crate::encryption::{EncryptionType, Key};
use crate::principal::Principal;

/// The keys of a service, of all its names and versions.
#[derive(Clone, Debug, Default)]
pub struct Keytab {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    principal: Principal,
    version: u32,
    key: Key,
}

/// The content is no keytab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a keytab of format 5.2, or damaged")]
pub struct BadKeytab;

impl Keytab {
    /// Reads the content of a file. Keys of types that are not supported are left out.
    pub fn read(content: &[u8]) -> Result<Keytab, BadKeytab> {
        let mut input = Input(content);
        if input.take(2)? != [5, 2] {
            return Err(BadKeytab);
        }
        let mut entries = Vec::new();
        while !input.0.is_empty() {
            let length = i32::from_be_bytes(input.array()?);
            let record = input.take(length.unsigned_abs() as usize)?;
            // A negative length is that of a hole.
            if length > 0
                && let Some(entry) = entry(Input(record))?
            {
                entries.push(entry);
            }
        }
        Ok(Keytab { entries })
    }

    /// Whether there is no usable key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The realms of its keys, each once.
    pub fn realms(&self) -> Vec<String> {
        let mut realms: Vec<_> = self.entries.iter().map(|entry| entry.principal.realm.clone()).collect();
        realms.sort();
        realms.dedup();
        realms
    }

    /// The keys of a principal that may have encrypted what says this type and this version, if it says one.
    pub(crate) fn keys<'a>(
        &'a self,
        principal: &'a Principal,
        kind: EncryptionType,
        version: Option<u32>,
    ) -> impl Iterator<Item = &'a Key> {
        self.entries.iter().filter_map(move |entry| {
            let fits = entry.principal == *principal
                && entry.key.kind() == kind
                && version.is_none_or(|version| entry.version == version);
            fits.then_some(&entry.key)
        })
    }
}

fn entry(mut input: Input<'_>) -> Result<Option<Entry>, BadKeytab> {
    let count = u16::from_be_bytes(input.array()?);
    let realm = input.text()?;
    let components = (0..count).map(|_| input.text()).collect::<Result<Vec<_>, _>>()?;
    input.take(4 + 4)?; // type of the name, time of writing
    let short_version = input.array::<1>()?[0];
    let kind = u16::from_be_bytes(input.array()?);
    let length = u16::from_be_bytes(input.array()?);
    let bytes = input.take(length.into())?;
    // The version has 32 bits if there is room, 8 otherwise.
    let version = match input.array().map(u32::from_be_bytes) {
        Ok(version) if version != 0 => version,
        _ => short_version.into(),
    };
    let key = EncryptionType::from_number(kind.into()).and_then(|kind| Key::new(kind, bytes));
    Ok(key.map(|key| Entry { principal: Principal { components, realm }, version, key }))
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], BadKeytab> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(BadKeytab)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadKeytab> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn text(&mut self) -> Result<String, BadKeytab> {
        let length = u16::from_be_bytes(self.array()?);
        String::from_utf8(self.take(length.into())?.to_vec()).map_err(|_| BadKeytab)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A record of `nfs/box@EXAMPLE.ORG`.
    pub(crate) fn record(kind: u16, version: u32, key: &[u8]) -> Vec<u8> {
        let mut record = vec![0, 2];
        for text in ["EXAMPLE.ORG", "nfs", "box"] {
            record.extend((text.len() as u16).to_be_bytes());
            record.extend(text.as_bytes());
        }
        record.extend([0; 8]);
        record.push(version as u8);
        record.extend(kind.to_be_bytes());
        record.extend((key.len() as u16).to_be_bytes());
        record.extend(key);
        record.extend(version.to_be_bytes());
        [&(record.len() as i32).to_be_bytes()[..], &record].concat()
    }

    pub(crate) fn service() -> Principal {
        Principal { components: vec!["nfs".into(), "box".into()], realm: "EXAMPLE.ORG".into() }
    }

    #[test]
    fn keys_are_found_by_type_and_version() {
        let hole = [&(-3i32).to_be_bytes()[..], &[9, 9, 9]].concat();
        let content = [
            &[5, 2][..],
            &record(18, 300, &[1; 32]),
            &hole,
            &record(18, 301, &[2; 32]),
            &record(23, 301, &[3; 16]),
            &record(17, 301, &[4; 16]),
        ]
        .concat();
        let keytab = Keytab::read(&content).unwrap();
        let keys = |kind, version| {
            keytab.keys(&service(), kind, version).map(|key| key.bytes()[0]).collect::<Vec<_>>()
        };
        assert_eq!(keys(EncryptionType::Aes256Sha1, Some(301)), [2]);
        assert_eq!(keys(EncryptionType::Aes256Sha1, None), [1, 2]);
        assert_eq!(keys(EncryptionType::Aes128Sha1, None), [4]);
        assert!(keys(EncryptionType::Aes256Sha384, None).is_empty());
        let other = Principal { realm: "OTHER".into(), ..service() };
        assert_eq!(keytab.keys(&other, EncryptionType::Aes128Sha1, None).count(), 0);
        assert_eq!(keytab.realms(), ["EXAMPLE.ORG"]);
        assert_eq!(Keytab::read(b"\x05\x01").unwrap_err(), BadKeytab);
    }

    proptest! {
        #[test]
        fn a_damaged_keytab_never_panics(garbage in vec(any::<u8>(), 0..60), cut in 0usize..90) {
            let _ = Keytab::read(&[&[5, 2][..], &garbage].concat());
            let record = record(18, 1, &[1; 32]);
            let _ = Keytab::read(&[&[5, 2][..], &record[..cut.min(record.len())]].concat());
        }
    }
}
