//! A node over directory clouds in a folder, without listeners, for tests.

use std::path::Path;
use std::sync::Arc;

use environment::SystemEntropy;
use ids::GatewayId;

use crate::Config;
use crate::node::Node;

/// With a cloud for each of these names, and the volume `home` as `rs:2+1` on the first three.
pub(crate) async fn open(folder: &Path, clouds: &[&str]) -> Arc<Node> {
    open_with(folder, clouds, "").await
}

/// As [`open`], with more in the configuration.
pub(crate) async fn open_with(folder: &Path, clouds: &[&str], more: &str) -> Arc<Node> {
    let key = seal::KeyFile::generate(GatewayId(1), &SystemEntropy::new());
    seal::create_key_file(&folder.join("gateway.key"), &key).unwrap();
    let mut text = "[gateway]\nid = 1\ndata = \".\"\nkey_file = \"gateway.key\"\n\
                    [cache]\nmemory = \"64MiB\"\njournal = \"64MiB\"\ndisk = \"64MiB\"\n"
        .to_owned()
        + more;
    for cloud in clouds {
        std::fs::create_dir_all(folder.join("clouds").join(cloud)).unwrap();
        text += &format!("[[cloud]]\nname = \"{cloud}\"\nurl = \"dir:clouds/{cloud}\"\ntimeout = \"1s\"\n");
    }
    text += &format!("[[volume]]\nname = \"home\"\npolicy = \"rs:2+1\"\nclouds = {:?}\n", &clouds[..3]);
    let file = folder.join("kurma.toml");
    std::fs::write(&file, text).unwrap();
    Arc::new(Node::open(Config::load(&file).unwrap()).await.unwrap())
}
