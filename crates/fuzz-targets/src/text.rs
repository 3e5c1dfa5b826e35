//! What people write: the configuration, and values in it and on the command line.

use std::fmt::{Debug, Display};
use std::path::Path;
use std::str::FromStr;

use cloud::{CloudUrl, ObjectName};
use disperse::Scheme;
use gateway::Config;
use gateway::config::{ByteSize, Span};
use scan::Address;
use seal::{GatewayPublicKey, KeyFileId};

/// A configuration. A refusal says where and what.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = Config::parse(text, Path::new("kurma.toml")) {
        let message = error.to_string();
        assert!(message.contains("kurma.toml"), "{message}");
        assert!(message.len() < 16 * text.len() + 1024, "a message of {} bytes", message.len());
    }
}

pub(crate) fn config_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "",
        "[gateway]\nid = 7\ndata = \"/srv/kurma\"\n[nfs]\nlisten = \"127.0.0.1:2049\"\nlease = \"90s\"\n",
        "[admin]\nlisten = \"[::1]:9460\"\n[meta]\nengine = \"embedded\"\n[upkeep]\ngc_delay = \"10m\"\nin_flight = \"64MiB\"\n",
        "[cache]\nmemory = \"256MiB\"\njournal = \"1GiB\"\ndisk = \"0\"\nwrite_back_wait = \"500ms\"\nreadahead = \"16MiB\"\n",
        "[[cloud]]\nname = \"a\"\nurl = \"dir:a\"\n[[cloud]]\nname = \"b\"\nurl = \"s3://bucket/p?region=x\"\ntimeout = \"5s\"\nconcurrency = 3\n\
         [[volume]]\nname = \"home\"\npolicy = \"replicas:2\"\nclouds = [\"a\", \"b\"]\nblock_size = \"64KiB\"\ntier = \"cloud\"\nintegrity_only = true\n",
        "[scan]\naddress = \"clamd:tcp:h:3310\"\nfail = \"closed\"\ninfected = \"report\"\nvolumes = [\"home\"]\n",
        "[gatevay]\nid = 1\n",
    ];
    seeds.map(|seed| seed.as_bytes().to_vec()).into()
}

/// A value. What is accepted prints as a text that means the same.
pub(crate) fn values(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    reads_back::<Scheme>(text);
    reads_back::<ByteSize>(text);
    reads_back::<Span>(text);
    reads_back::<KeyFileId>(text);
    reads_back::<GatewayPublicKey>(text);
    reads_back::<Address>(text);
    if let Ok(name) = ObjectName::new(text) {
        assert_eq!(name.as_str(), text);
    }
    if let Ok(url) = CloudUrl::parse(text) {
        let again = url.to_string();
        assert_eq!(CloudUrl::parse(&again).ok(), Some(url), "{again}");
    }
}

fn reads_back<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let again = value.to_string();
        assert_eq!(again.parse::<T>().ok(), Some(value), "{again}");
    }
}

pub(crate) fn value_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "replicas:3",
        "rs:2+1",
        "rs:30+2",
        "aont-rs:3+1",
        "64MiB",
        "10 MB",
        "16TiB",
        "512",
        "90s",
        "500ms",
        "10m",
        "1h",
        "00112233445566778899aabbccddeeff",
        "7-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        "blocks/ab-c_d/0",
        "dir:///srv/cloud",
        "file:///srv/a%20b",
        "clamd:unix:/run/clamav/clamd.ctl",
        "clamd:tcp:[::1]:3310",
        "icap://scanner/avscan",
        "s3://bucket/prefix/x?endpoint=http://127.0.0.1:9000&region=eu&path_style=true",
    ];
    seeds.map(|seed| seed.as_bytes().to_vec()).into()
}
