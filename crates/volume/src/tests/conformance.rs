use std::sync::Arc;

use file_system::FileSystem;

use super::node::Node;

async fn make() -> (Arc<dyn FileSystem>, Node) {
    let node = Node::new().await;
    (node.fs(), node)
}

file_system::conformance_tests!(make);
