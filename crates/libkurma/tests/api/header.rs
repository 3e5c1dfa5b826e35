//! The header is what the sources say.

use std::path::{Path, PathBuf};

use cbindgen::{Builder, Config};

/// The sources in the order of the header.
const SOURCES: &[&str] = &[
    "constants.rs",
    "outcome.rs",
    "file.rs",
    "attributes.rs",
    "options.rs",
    "client.rs",
    "argument/read.rs",
    "argument/write.rs",
    "argument/open.rs",
    "argument/get_attributes.rs",
    "argument/set_attributes.rs",
    "argument/make_directory.rs",
    "argument/symbolic_link.rs",
    "argument/read_link.rs",
    "argument/pair.rs",
    "argument/copy.rs",
    "vectors.rs",
    "listing.rs",
    "steps.rs",
    "tree.rs",
    "scalar/whole.rs",
    "scalar/open_file.rs",
    "scalar/data.rs",
    "scalar/names.rs",
    "writer.rs",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn fresh() -> String {
    let config = Config::from_file(root().join("cbindgen.toml")).unwrap();
    let sources = SOURCES.iter().map(|source| root().join("src").join(source));
    let builder = sources.fold(Builder::new().with_config(config), Builder::with_src);
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

/// Functions of C that the sources define.
fn exported(folder: PathBuf, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            exported(path, names);
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let after = text.split("extern \"C\" fn kurma_").skip(1);
        names.extend(after.map(|it| format!("kurma_{}(", it.split('(').next().unwrap())));
    }
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = root().join("include/kurma.h");
    let fresh = fresh();
    if std::env::var_os("KURMA_WRITE_HEADER").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let at = kept.lines().zip(fresh.lines()).position(|(kept, fresh)| kept != fresh);
    assert!(
        kept == fresh,
        "include/kurma.h differs from line {:?} on; make it anew by KURMA_WRITE_HEADER=1 cargo test -p libkurma header",
        at.map(|line| line + 1)
    );
}

#[test]
fn every_function_is_in_the_header_and_in_the_manual() {
    let mut names = Vec::new();
    exported(root().join("src"), &mut names);
    assert!(names.len() > 60, "{names:?}");
    let header = std::fs::read_to_string(root().join("include/kurma.h")).unwrap();
    let manual = std::fs::read_to_string(root().join("man/libkurma.3")).unwrap();
    for name in names {
        assert!(header.contains(&name), "{name}");
        assert!(manual.contains(name.trim_end_matches('(')), "{name} in the manual");
    }
}
