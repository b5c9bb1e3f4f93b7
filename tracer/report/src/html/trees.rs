//! Stacks as trees: each distinct path of labels is a node, which names the node above it.
//!
//! A node stands behind the one above it, so that one pass from the end sums up a tree. Leaves out what labels are of.

use serde::{Serialize, Serializer};
use std::collections::HashMap;

/// Paths from a common root, which is node 0 and has no label.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<(u32, u32)>,
    known: HashMap<(u32, u32), u32>,
}

impl Tree {
    /// The node of a path, root first, new or old.
    pub(super) fn node(&mut self, path: impl IntoIterator<Item = u32>) -> u32 {
        path.into_iter().fold(0, |above, label| {
            *self.known.entry((above, label)).or_insert_with(|| {
                self.nodes.push((above, label));
                u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
            })
        })
    }
}

impl Serialize for Tree {
    /// Two lists, over all nodes but the root: how far in front of it the node above is, and the label.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let numbered = (1_u32..).zip(&self.nodes);
        let up: Vec<u32> = numbered.map(|(node, (above, _))| node - above).collect();
        let labels: Vec<u32> = self.nodes.iter().map(|(_, label)| *label).collect();
        (up, labels).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;

    /// Paths share what they have in common, and a node is behind the one above it.
    #[test]
    fn paths_share_their_roots() {
        let mut tree = Tree::default();
        assert_eq!([tree.node([7, 8]), tree.node([7, 9]), tree.node([7, 8]), tree.node([])], [2, 3, 2, 0]);
        assert_eq!(serde_json::to_string(&tree).unwrap(), "[[1,1,2],[7,8,9]]");
    }
}
