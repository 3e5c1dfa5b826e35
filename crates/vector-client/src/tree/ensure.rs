use nfs4::NfsStatus;

use crate::{AttributeSet, Client, Error, Kind, Target};

impl Client {
    /// Makes a directory and those above it that are missing, with these permission bits; which were made, outermost
    /// first. Two round trips, or one if there is nothing to make (V15). Somebody who makes the same at the same time does
    /// no harm.
    pub async fn ensure_directory(&self, target: impl Into<Target>, mode: u32) -> Result<Vec<Target>, Error> {
        let prefixes = prefixes(&target.into());
        let missing = match self.vgetattrs(prefixes.clone(), AttributeSet::KIND).await {
            Ok(there) => {
                all_directories(&prefixes, &there)?;
                return Ok(Vec::new());
            }
            Err(failure) if failure.error.is_not_found() => {
                all_directories(&prefixes, &failure.done)?;
                prefixes[failure.index()..].to_vec()
            }
            Err(failure) => {
                // If it is because one of them is no directory, that is the one to speak of.
                all_directories(&prefixes, &failure.done)?;
                return Err(failure.error);
            }
        };
        let (mut made, mut next) = (Vec::new(), 0);
        while next < missing.len() {
            let rest = &missing[next..];
            match self.vmkdir(rest.iter().map(|target| (target.clone(), mode)).collect()).await {
                Ok(_) => {
                    made.extend_from_slice(rest);
                    next = missing.len();
                }
                Err(failure) if failure.error.is_exists() => {
                    let index = failure.index();
                    let there = &rest[index];
                    let got = self.vgetattrs(vec![there.clone()], AttributeSet::KIND).await;
                    // What is there leads nowhere: a symbolic link.
                    let got =
                        got.map_err(|got| if got.error.is_not_found() { failure.error } else { got.error });
                    all_directories(std::slice::from_ref(there), &got?)?;
                    made.extend_from_slice(&rest[..index]);
                    next += index + 1;
                }
                Err(failure) => return Err(failure.error),
            }
        }
        Ok(made)
    }
}

/// The path up to each of its names.
fn prefixes(target: &Target) -> Vec<Target> {
    let path = &target.path;
    let ends = (1..=path.len()).filter(|end| path.get(*end).is_none_or(|next| *next == b'/'));
    let is_name = |end: &usize| {
        let last = path[..*end].rsplit(|byte| *byte == b'/').next();
        !matches!(last, None | Some(b"" | b"." | b".."))
    };
    ends.filter(is_name).map(|end| Target::at(target.base.clone(), path.slice(..end))).collect()
}

fn all_directories(targets: &[Target], attributes: &[crate::Attributes]) -> Result<(), Error> {
    match targets.iter().zip(attributes).find(|(_, attributes)| !attributes.is(Kind::Directory)) {
        Some((target, _)) => Err(Error::Refused { target: target.clone(), status: NfsStatus::NotDir }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_path_ends_a_prefix() {
        let all = |path: &str| -> Vec<String> {
            let all = prefixes(&Target::from(path));
            all.iter().map(|it| String::from_utf8(it.path.to_vec()).unwrap()).collect()
        };
        assert_eq!(all("/a//b/./c/"), ["/a", "/a//b", "/a//b/./c"]);
        assert_eq!(all("a/../b"), ["a", "a/../b"]);
        assert_eq!(all("/"), [""; 0]);
    }
}
