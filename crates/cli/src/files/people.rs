//! Names of users and groups of this machine.

use std::collections::HashMap;

use vector_client::Owner;

/// What `/etc/passwd` and `/etc/group` say.
pub struct People {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl People {
    pub fn known() -> People {
        People { users: table("/etc/passwd"), groups: table("/etc/group") }
    }

    /// A user's name, or his number if that is all that is known.
    pub fn user(&self, owner: Option<&Owner>) -> Result<String, u32> {
        named(&self.users, owner)
    }

    /// A group's name, or its number if that is all that is known.
    pub fn group(&self, group: Option<&Owner>) -> Result<String, u32> {
        named(&self.groups, group)
    }
}

fn named(names: &HashMap<u32, String>, owner: Option<&Owner>) -> Result<String, u32> {
    match owner {
        Some(Owner::Id(id)) => names.get(id).cloned().ok_or(*id),
        // The domain is that of the server, and the same everywhere.
        Some(Owner::Name(name)) => Ok(name.split('@').next().unwrap_or(name).to_owned()),
        None => Ok("?".to_owned()),
    }
}

/// The first column by the third.
fn table(file: &str) -> HashMap<u32, String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut columns = line.split(':');
        if let (Some(name), Some(Ok(id))) = (columns.next(), columns.nth(1).map(str::parse)) {
            // The first line counts, as for everybody.
            names.entry(id).or_insert_with(|| name.to_owned());
        }
    }
    names
}
