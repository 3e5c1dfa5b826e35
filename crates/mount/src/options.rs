use std::time::Duration;

use crate::MountError;

/// How to mount, as `-o` says.
#[derive(Clone, Debug)]
pub struct Options {
    /// Users other than the one who mounts may use the file system. Their requests are made in their own name if root
    /// mounts.
    pub allow_other: bool,
    /// The kernel checks modes before the server does. `None`: if others may use it.
    pub default_permissions: Option<bool>,
    /// Nothing can be changed.
    pub read_only: bool,
    /// How long the kernel believes names and attributes without asking.
    pub attribute_timeout: Duration,
    /// Files that the server may delegate at once; 0: none.
    pub delegations: usize,
    /// Connections to the server.
    pub connections: usize,
    /// After how long without the server an operation fails; `None`: it waits for ever.
    pub soft: Option<Duration>,
    /// Largest READ and WRITE in bytes.
    pub transfer: u32,
    /// Bytes written that may wait in memory until they are stable at the server.
    pub dirty: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            allow_other: false,
            default_permissions: None,
            read_only: false,
            attribute_timeout: Duration::from_secs(1),
            delegations: 1000,
            connections: 1,
            soft: None,
            transfer: 1 << 20,
            dirty: 64 << 20,
        }
    }
}

impl Options {
    /// Takes a comma-separated list as of `-o`; later ones win.
    pub fn parse(&mut self, list: &str) -> Result<(), MountError> {
        for option in list.split(',').filter(|option| !option.is_empty()) {
            let (name, value) =
                option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
            let wrong = |what| MountError::Option { option: option.to_owned(), what };
            let number = |least: u64, most: u64| {
                let number = value.and_then(|value| value.parse().ok());
                number
                    .filter(|number| (least..=most).contains(number))
                    .ok_or_else(|| wrong("needs a sensible number"))
            };
            match (name, value) {
                ("allow_other", None) => self.allow_other = true,
                ("default_permissions", None) => self.default_permissions = Some(true),
                ("no_default_permissions", None) => self.default_permissions = Some(false),
                ("ro", None) => self.read_only = true,
                ("rw", None) => self.read_only = false,
                ("hard", None) => self.soft = None,
                ("actimeo", Some(_)) => self.attribute_timeout = Duration::from_secs(number(0, 86_400)?),
                ("soft", Some(_)) => self.soft = Some(Duration::from_secs(number(1, 86_400)?)),
                ("delegations", Some(_)) => self.delegations = number(0, 1_000_000)? as usize,
                ("nconnect", Some(_)) => self.connections = number(1, 16)? as usize,
                _ => {
                    return Err(wrong(
                        "there are: allow_other, default_permissions, no_default_permissions, ro, rw, actimeo=SECONDS, \
                         delegations=COUNT, hard, soft=SECONDS, nconnect=CONNECTIONS",
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_sets_what_it_names_and_later_ones_win() {
        let mut options = Options::default();
        options.parse("allow_other,ro,actimeo=5,,soft=7,nconnect=3,delegations=0,rw").unwrap();
        assert!(options.allow_other && !options.read_only);
        assert_eq!(options.attribute_timeout, Duration::from_secs(5));
        assert_eq!((options.soft, options.connections), (Some(Duration::from_secs(7)), 3));
        assert_eq!(options.delegations, 0);
        options.parse("hard").unwrap();
        assert_eq!(options.soft, None);
    }

    #[test]
    fn what_does_not_exist_or_makes_no_sense_is_refused_by_name() {
        for option in ["allow_others", "actimeo", "actimeo=x", "nconnect=0", "nconnect=17", "soft=0", "ro=1"]
        {
            let error = Options::default().parse(option).unwrap_err();
            assert!(error.to_string().contains(option), "{error}");
        }
    }
}
