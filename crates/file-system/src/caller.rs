use std::sync::Arc;

/// On whose behalf a transaction runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Effective user; 0 may do everything.
    pub uid: u32,
    /// Primary group: the group of what the caller creates (unless the directory is set-group-id).
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Arc<[u32]>,
}

impl Caller {
    /// User and group 0.
    pub fn root() -> Caller {
        Caller { uid: 0, gid: 0, groups: Arc::new([]) }
    }

    /// An ordinary user.
    pub fn user(uid: u32, gid: u32, groups: &[u32]) -> Caller {
        Caller { uid, gid, groups: groups.into() }
    }

    /// Whether the caller may do what only the superuser may.
    pub fn is_superuser(&self) -> bool {
        self.uid == 0
    }

    /// Whether the caller belongs to `gid`, primarily or not.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}
