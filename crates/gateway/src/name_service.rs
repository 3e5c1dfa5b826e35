//! The users and groups that this machine knows, from whatever its name service asks: files, LDAP, Active Directory.
//!
//! It is asked by getent(1) and id(1). They find the machine's name service also where this program is linked statically, and
//! one that does not come back is ended, which a call into a library cannot be.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use environment::Clock;
use nfs4_server::{IdKind, NameService, NameServiceError};
use onc_rpc::gss::{GssError, UnixUser, Users};
use parking_lot::RwLock;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Semaphore;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Questions asked at one time.
const TURNS: usize = 8;

/// More of an answer than this is not read: no user is in so many groups.
const MAX_ANSWER: u64 = 1 << 20;

/// getent(1): no such entry.
const NOT_FOUND: i32 = 2;

/// What this machine's name service says.
pub(crate) struct SystemNames {
    clock: Arc<dyn Clock>,
    turns: Semaphore,
}

/// What a program said.
struct Said {
    code: Option<i32>,
    text: String,
}

impl SystemNames {
    pub fn new(clock: Arc<dyn Clock>) -> SystemNames {
        SystemNames { clock, turns: Semaphore::new(TURNS) }
    }

    /// Name and number of the entry that has `key` for one of the two.
    async fn entry(&self, kind: IdKind, key: &str) -> Result<Option<(String, u32)>, NameServiceError> {
        let database = match kind {
            IdKind::User => "passwd",
            IdKind::Group => "group",
        };
        let said = self.ask("getent", &[database, "--", key]).await?;
        match said.code {
            Some(0) => Ok(said.text.lines().next().and_then(name_and_number)),
            Some(NOT_FOUND) => Ok(None),
            code => Err(NameServiceError(format!("getent {database}: exit status {code:?}"))),
        }
    }

    /// The groups of a user whom there is, the primary one first.
    async fn groups(&self, name: &str) -> Result<Vec<u32>, NameServiceError> {
        let said = self.ask("id", &["-G", "--", name]).await?;
        let numbers = said.text.split_ascii_whitespace().map(|number| number.parse().ok());
        match numbers.collect::<Option<Vec<_>>>() {
            Some(groups) if said.code == Some(0) && !groups.is_empty() => Ok(groups),
            _ => Err(NameServiceError(format!("id -G: exit status {:?}", said.code))),
        }
    }

    async fn ask(&self, program: &str, arguments: &[&str]) -> Result<Said, NameServiceError> {
        let failed = |cause: &dyn std::fmt::Display| NameServiceError(format!("{program}: {cause}"));
        let asked = async {
            let _turn = self.turns.acquire().await.map_err(|cause| failed(&cause))?;
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.kill_on_drop(true).spawn().map_err(|cause| failed(&cause))?;
            let mut answer = Vec::new();
            if let Some(output) = child.stdout.take() {
                let read = output.take(MAX_ANSWER + 1).read_to_end(&mut answer).await;
                read.map_err(|cause| failed(&cause))?;
            }
            if answer.len() as u64 > MAX_ANSWER {
                return Err(failed(&"the answer is too long"));
            }
            let status = child.wait().await.map_err(|cause| failed(&cause))?;
            let text = String::from_utf8(answer).map_err(|cause| failed(&cause))?;
            Ok(Said { code: status.code(), text })
        };
        tokio::select! {
            said = asked => said,
            () = self.clock.sleep(PATIENCE) => Err(failed(&"it takes too long")),
        }
    }
}

/// Of a line of passwd(5) or group(5).
fn name_and_number(line: &str) -> Option<(String, u32)> {
    let mut fields = line.split(':');
    let (name, _password, number) = (fields.next()?, fields.next()?, fields.next()?);
    Some((name.to_owned(), number.parse().ok()?))
}

#[async_trait]
impl NameService for SystemNames {
    async fn name(&self, kind: IdKind, id: u32) -> Result<Option<String>, NameServiceError> {
        let found = self.entry(kind, &id.to_string()).await?;
        Ok(found.filter(|(_, number)| *number == id).map(|(name, _)| name))
    }

    async fn id(&self, kind: IdKind, name: &str) -> Result<Option<u32>, NameServiceError> {
        let found = self.entry(kind, name).await?;
        // Some directories do not care for case.
        Ok(found.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, number)| number))
    }
}

/// Who has which Kerberos principal: `anna@REALM` is this machine's user `anna`. Principals of machines and services
/// (`host/...`, `root/...`) are nobody, and so are those of other realms, where anybody may have been given any name.
pub(crate) struct KerberosUsers {
    /// Those of the keytab.
    pub realms: RwLock<Vec<String>>,
    pub names: Arc<SystemNames>,
}

#[async_trait]
impl Users for KerberosUsers {
    async fn user(&self, principal: &str) -> Result<Option<UnixUser>, GssError> {
        let Some((name, realm)) = user_name(principal) else { return Ok(None) };
        if !self.realms.read().iter().any(|ours| ours == realm) {
            return Ok(None);
        }
        // Without an answer he gets no context: what he makes must not become the anonymous user's.
        let failed = |error: NameServiceError| GssError::new(GssError::FAILURE, error.to_string());
        let Some(uid) = self.names.id(IdKind::User, name).await.map_err(failed)? else { return Ok(None) };
        let groups = self.names.groups(name).await.map_err(failed)?;
        Ok(Some(UnixUser { uid, gid: groups[0], groups: groups.into() }))
    }
}

/// The user that a principal may be, and its realm; only what `useradd` would take for a name.
fn user_name(principal: &str) -> Option<(&str, &str)> {
    let (name, realm) = principal.split_once('@')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let usual =
        name.bytes().all(plain) && !name.starts_with('-') && name.bytes().any(|byte| !byte.is_ascii_digit());
    usual.then_some((name, realm))
}

#[cfg(test)]
mod tests {
    use environment::SystemClock;

    use super::*;

    fn names() -> Arc<SystemNames> {
        Arc::new(SystemNames::new(Arc::new(SystemClock::new())))
    }

    #[tokio::test]
    async fn this_machine_knows_its_superuser_and_his_group() {
        let names = names();
        for kind in [IdKind::User, IdKind::Group] {
            assert_eq!(names.name(kind, 0).await, Ok(Some("root".to_owned())));
            assert_eq!(names.id(kind, "root").await, Ok(Some(0)));
            assert_eq!(names.name(kind, 4_000_000_001).await, Ok(None));
            for nobody in ["no-such-name", "0", "--help"] {
                assert_eq!(names.id(kind, nobody).await, Ok(None), "{nobody}");
            }
        }
    }

    #[tokio::test]
    async fn a_user_of_this_machine_is_found_with_his_groups_and_others_are_not() {
        let users = KerberosUsers { realms: RwLock::new(vec!["EXAMPLE.ORG".into()]), names: names() };
        let root = users.user("root@EXAMPLE.ORG").await.unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        for nobody in [
            "no-such-user@EXAMPLE.ORG",
            "root@OTHER.ORG",
            "host/box@EXAMPLE.ORG",
            "root\\@EXAMPLE.ORG@OTHER.ORG",
            "-u@EXAMPLE.ORG",
            "0@EXAMPLE.ORG",
            "@EXAMPLE.ORG",
            "root",
        ] {
            assert_eq!(users.user(nobody).await, Ok(None), "{nobody}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_does_not_end_is_given_up_and_one_that_is_missing_is_told() {
        let names = names();
        let error = names.ask("sleep", &["1000"]).await.err().unwrap();
        assert!(error.0.contains("too long"), "{error}");
        assert_eq!(names.turns.available_permits(), TURNS);
        assert!(names.ask("no-such-program", &[]).await.is_err());
    }
}
