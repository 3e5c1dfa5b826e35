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

    /// The number of the user of this name.
    pub fn user_id(&self, name: &str) -> Option<u32> {
        id(&self.users, name)
    }

    /// The number of the group of this name.
    pub fn group_id(&self, name: &str) -> Option<u32> {
        id(&self.groups, name)
    }

    /// The number of this owner; of one whose name nobody knows here, that of nobody.
    pub fn id_of_user(&self, owner: Option<&Owner>) -> Option<u32> {
        number(&self.users, owner)
    }

    /// The number of this group; of one whose name nobody knows here, that of nobody.
    pub fn id_of_group(&self, group: Option<&Owner>) -> Option<u32> {
        number(&self.groups, group)
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

/// As kernels do it.
const NOBODY: u32 = 65534;

fn number(names: &HashMap<u32, String>, owner: Option<&Owner>) -> Option<u32> {
    Some(match owner? {
        Owner::Id(number) => *number,
        Owner::Name(name) => name.split('@').next().and_then(|name| id(names, name)).unwrap_or(NOBODY),
    })
}

/// The least, should there be several.
fn id(names: &HashMap<u32, String>, name: &str) -> Option<u32> {
    names.iter().filter(|(_, known)| *known == name).map(|(id, _)| *id).min()
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
