use std::fmt::{self, Write};

use crate::der::{GENERAL_STRING, INTEGER, Malformed, Reader, SEQUENCE};

/// A name in a realm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The components, such as `nfs` and the name of a machine.
    pub components: Vec<String>,
    /// The realm.
    pub realm: String,
}

impl Principal {
    /// `PrincipalName` (RFC 4120 §5.2.2); its type says nothing that matters here.
    pub(crate) fn read(realm: &str, mut name: Reader<'_>) -> Result<Principal, Malformed> {
        name.field(0, INTEGER)?;
        let mut list = name.field(1, SEQUENCE)?;
        let mut components = Vec::new();
        while !list.is_empty() {
            components.push(list.value(GENERAL_STRING)?.text()?.to_owned());
        }
        if components.is_empty() {
            Err(Malformed)
        } else {
            Ok(Principal { components, realm: realm.to_owned() })
        }
    }
}

/// As people write it. What could be taken for a separator, or for the end of a line in a log, is written otherwise,
/// so that no two principals look the same.
impl fmt::Display for Principal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, component) in self.components.iter().enumerate() {
            if index > 0 {
                out.write_char('/')?;
            }
            escape(out, component)?;
        }
        out.write_char('@')?;
        escape(out, &self.realm)
    }
}

fn escape(out: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|letter| match letter {
        '/' | '@' | '\\' => write!(out, "\\{letter}"),
        letter if letter.is_control() => write!(out, "\\x{:02x}", u32::from(letter)),
        letter => out.write_char(letter),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_another() {
        let text = |components: &[&str]| {
            let components = components.iter().map(|part| (*part).to_owned()).collect();
            Principal { components, realm: "EXAMPLE.ORG".into() }.to_string()
        };
        assert_eq!(text(&["nfs", "box.example.org"]), "nfs/box.example.org@EXAMPLE.ORG");
        assert_eq!(text(&["root@EXAMPLE.ORG\n"]), "root\\@EXAMPLE.ORG\\x0a@EXAMPLE.ORG");
        assert_eq!(text(&["a/b"]), "a\\/b@EXAMPLE.ORG");
    }
}
