use super::*;

fn problem(text: &str) -> String {
    Config::parse(text, Path::new("k.toml")).unwrap_err().to_string()
}

const CLOUDS: &str = "[[cloud]]\nname = 'a'\nurl = 'dir:a'\n[[cloud]]\nname = 'b'\nurl = 'dir:b'\n";

#[test]
fn an_empty_file_means_the_defaults() {
    assert_eq!(Config::parse("", Path::new("x")).unwrap(), Config::default());
}

#[test]
fn an_unknown_key_is_refused_with_line_and_suggestion() {
    let text = problem("[nfs]\nlisen = '127.0.0.1:1'\n");
    assert!(text.starts_with("k.toml:2: unknown field `lisen`"), "{text}");
    assert!(text.ends_with("did you mean `listen`?"), "{text}");
}

#[test]
fn bad_values_name_their_line_and_key() {
    for (text, expected) in [
        ("[cache]\n\nmemory = '1 potato'", "k.toml:3: "),
        ("[cache]\nmemory = '1KiB'", "k.toml:2: cache.memory: 1KiB is too small"),
        ("[nfs]\nlease = '1s'", "k.toml:2: nfs.lease: 1s is not between"),
        ("[upkeep]\npack_size = '17MiB'", "k.toml:2: upkeep.pack_size: 17MiB is not between 1MiB and 16MiB"),
        ("[upkeep]\npack_size = '512KiB'", "k.toml:2: upkeep.pack_size: 512KiB is not between"),
        (
            "[upkeep]\nin_flight = '4MiB'\npack_size = '8MiB'",
            "k.toml:3: upkeep.pack_size: 8MiB is more than may be in flight",
        ),
        (
            "[upkeep]\nlongest_packed = '2MiB'",
            "k.toml:2: upkeep.longest_packed: 2MiB is more than a quarter of upkeep.pack_size (4MiB)",
        ),
        ("[admin]\nlisten = '0.0.0.0:9460'", "k.toml:2: admin.listen: "),
        ("[gateway]\nid = 0", "k.toml:2: gateway.id: "),
        (
            "[scan]\naddress = 'clamd:3310'",
            "k.toml:2: scan.address: \"clamd:3310\" is not the address of a scanner",
        ),
        ("[scan]\nat_once = 0", "k.toml:2: scan.at_once: 0 is not between 1 and 256"),
        ("[scan]\ntimeout = '0s'", "k.toml:2: scan.timeout: must be at least"),
        ("[scan]\nfail = 'ajar'", "k.toml:2: unknown variant `ajar`, expected `open` or `closed`"),
        (
            "[scan]\nquarantine_room = '1GiB'",
            "k.toml:2: scan.quarantine_room: 1GiB is more than half of cache.journal (1GiB)",
        ),
        ("[log]\nlevel = 'loud'", "k.toml:2: log.level: "),
        ("[[cloud]]\nname = 'a b'\nurl = 'dir:x'", "k.toml:2: cloud[0].name: "),
        ("[[cloud]]\nname = 'a'\nurl = 'ftp:x'", "k.toml:3: cloud[0].url: "),
        ("[[volume]]\nname = 'v'", "k.toml:1: volume[0].policy: rs:2+1 needs 3 clouds, there are 0"),
    ] {
        let message = problem(text);
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn names_of_clouds_must_be_known_and_unique() {
    let volume = "[[volume]]\nname = 'v'\npolicy = 'replicas:1'\nclouds = ['c']\n";
    assert!(
        problem(&format!("{CLOUDS}{volume}"))
            .starts_with("k.toml:10: volume[0].clouds: there is no [[cloud]]")
    );
    assert!(problem(&format!("{CLOUDS}{CLOUDS}")).contains("two clouds named \"a\""));
}

#[test]
fn show_tells_default_and_origin() {
    let settings = Config::settings("[nfs]\nlease = '45s'\n", Path::new("k.toml")).unwrap();
    let lease = settings.iter().find(|s| s.key == "nfs.lease").unwrap();
    assert_eq!((&lease.value, &lease.origin), (&"45s".into(), &Origin::Line(2)));
    assert_eq!(lease.default, Some("90s".into()));
    let memory = settings.iter().find(|s| s.key == "cache.memory").unwrap();
    assert_eq!(memory.origin, Origin::Default);
}

#[test]
fn paths_are_relative_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kurma.toml");
    std::fs::write(&path, CLOUDS).unwrap();
    let config = Config::load(&path).unwrap();
    assert_eq!(config.clouds[0].url, format!("dir://{}", folder.path().join("a").display()));
    assert_eq!(config.gateway.key_file, folder.path().join("keys/gateway.key"));
}

#[test]
fn the_schema_names_every_section() {
    let schema = schema();
    for section in ["gateway", "nfs", "admin", "cache", "meta", "upkeep", "scan", "log", "cloud", "volume"] {
        assert!(schema["properties"].get(section).is_some(), "{section}");
    }
}

#[test]
fn exports_are_checked_and_described() {
    let volume = |export: &str| {
        format!("{CLOUDS}[[volume]]\nname = 'v'\npolicy = 'replicas:2'\nexport = {{ {export} }}\n")
    };
    let good = volume(
        "squash = 'root', anonuid = 99, anongid = 98, read_only = true, acls = true, utf8 = true, networks = ['10.1.0.0/16']",
    );
    let config = Config::parse(&good, Path::new("k.toml")).unwrap();
    let options = config.volumes[0].export.options().unwrap();
    assert_eq!(options.squash, nfs4_server::Squash::Root);
    assert_eq!((options.anonymous_uid, options.anonymous_gid, options.read_only), (99, 98, true));
    assert!(options.acls && !nfs4_server::ExportOptions::default().acls);
    assert!(options.utf8 && !nfs4_server::ExportOptions::default().utf8);
    assert_eq!(options.networks, ["10.1.0.0/16".parse().unwrap()]);
    assert_eq!(ExportConfig::default().options().unwrap(), nfs4_server::ExportOptions::default());
    assert!(problem(&volume("networks = ['10.1.0.1/16']")).starts_with("k.toml:10: volume[0].export: "));
    assert!(problem(&volume("readonly = true")).ends_with("did you mean `read_only`?"));
    let schema = schema().to_string();
    for key in ["squash", "anonuid", "anongid", "read_only", "acls", "utf8", "networks"] {
        assert!(schema.contains(&format!("\"{key}\"")), "{key}");
    }
}
