//! Where the fragments of a file lie, by what `kurma why` says.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Gateway;

/// One fragment of a block in a cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentPlace {
    pub block: u64,
    pub version: u64,
    pub cloud: String,
    pub name: String,
}

/// Every fragment of the file `path` (below the volume `home`), by block and then in the order of the policy.
pub fn named_fragments(gateway: &Gateway, path: &str) -> Vec<FragmentPlace> {
    let why = gateway.ask(&format!("/v1/why?path=/home/{path}"));
    let blocks = why["blocks"].as_array().unwrap_or_else(|| panic!("no blocks in {why:#}"));
    let mut places = Vec::new();
    for block in blocks {
        let texts = |key: &str| -> Vec<String> {
            let list = block[key].as_array().unwrap_or_else(|| panic!("no {key} in {block:#}"));
            list.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
        };
        for (cloud, name) in texts("clouds").into_iter().zip(texts("fragments")) {
            places.push(FragmentPlace {
                block: block["block"].as_u64().expect("block"),
                version: block["version"].as_u64().expect("version"),
                cloud,
                name,
            });
        }
    }
    places
}

/// The file of a fragment in a directory cloud.
pub fn place_in_dir(cloud: &Path, name: &str) -> PathBuf {
    let file = name.replace('/', "+");
    cloud.join(&file[..1]).join(&file[1..2]).join(&file)
}

/// The tamper log.
pub fn incidents(gateway: &Gateway) -> Vec<Value> {
    gateway.json(&["tamper-log"], &[0]).as_array().expect("a list").clone()
}
