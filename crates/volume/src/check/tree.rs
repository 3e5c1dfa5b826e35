//! Directories and the names in them are a tree.

use file_system::FileKind;
use ids::ObjectId;

use super::Check;

impl Check<'_> {
    pub(super) fn tree(&mut self) {
        let root = self.inner.root;
        let directories: Vec<(ObjectId, ObjectId)> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.kind == FileKind::Directory && node.names > 0)
            .map(|(object, node)| (*object, node.named_in))
            .collect();
        for (_, above) in &directories {
            if let Some(node) = self.nodes.get_mut(above) {
                node.directories += 1;
            }
        }
        match self.nodes.get(&root) {
            Some(node) if node.has_inode && node.kind == FileKind::Directory => {}
            _ => self.find(root, "the root directory is missing"),
        }
        let mut found = Vec::new();
        for (&object, node) in &self.nodes {
            let mut find = |what: String| found.push((object, what));
            if !node.has_inode {
                find(format!("{} names lead here, and it does not exist", node.names));
                continue;
            }
            match node.kind {
                FileKind::Directory => {
                    let expected = if node.names == 0 && object != root { 0 } else { 2 + node.directories };
                    if node.links != expected {
                        find(format!("a directory with {} links, expected {expected}", node.links));
                    }
                    if node.names > 1 || (object == root && node.names > 0) {
                        find(format!("a directory with {} names", node.names));
                    }
                    if node.names == 1 && node.parent != node.named_in {
                        find(format!("a directory of {} that is named in {}", node.parent, node.named_in));
                    }
                }
                _ if node.links != node.names => find(format!("{} links, {} names", node.links, node.names)),
                _ => {}
            }
            if node.names > 0 && !self.reaches_root(object) {
                find("cannot be reached from the root".to_owned());
            }
        }
        found.into_iter().for_each(|(object, what)| self.find(object, what));
    }

    /// Follows the directories upwards; a chain longer than there are objects is a ring.
    fn reaches_root(&self, mut object: ObjectId) -> bool {
        for _ in 0..=self.nodes.len() {
            if object == self.inner.root {
                return true;
            }
            match self.nodes.get(&object) {
                Some(node) if node.names > 0 => object = node.named_in,
                _ => return false,
            }
        }
        false
    }
}
