//! A gateway on clouds of several kinds, each with its own credentials.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use support::{Client, Gateway, KURMA, Random, Settings, free_port, parallel};

/// A server of `tests/servers`.
struct Server {
    script: PathBuf,
    folder: PathBuf,
    port: u16,
}

/// Of the account of Azure.
const ACCOUNTS: &str = "kurma:a3VybWEga3VybWEga3VybWEga3VybWEga3VybWEga3VybWEga3VybWEga3VybWEg";

impl Server {
    fn start(script: &str, folder: &Path) -> Server {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/servers").join(script);
        let server = Server { script, folder: folder.to_owned(), port: free_port().port() };
        server.run(&["start", &server.port.to_string(), folder.to_str().unwrap()]);
        server
    }

    fn run(&self, arguments: &[&str]) {
        let mut command = Command::new(&self.script);
        let status = parallel(|| command.args(arguments).env("AZURITE_ACCOUNTS", ACCOUNTS).status());
        assert!(status.unwrap().success(), "{command:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new(&self.script).arg("stop").arg(&self.folder).status(); // it may have ended by itself
    }
}

fn secret_file(path: &Path, text: &str) -> PathBuf {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    path.to_owned()
}

fn azure(server: &Server) -> String {
    server.run(&["container", &server.port.to_string(), "fragments"]);
    format!("azure://kurma/fragments/home?endpoint=http://127.0.0.1:{}/kurma", server.port)
}

fn azure_key(folder: &Path) -> PathBuf {
    let key = ACCOUNTS.split_once(':').unwrap().1;
    secret_file(&folder.join("azure-key"), &format!("AZURE_STORAGE_ACCOUNT_KEY={key}\n"))
}

fn sftp(server: &Server) -> String {
    let store = server.folder.join("store");
    std::fs::create_dir_all(&store).unwrap();
    let config = server.folder.join("ssh_config");
    format!("sftp://127.0.0.1:{}{}?ssh_config={}", server.port, store.display(), config.display())
}

async fn expect_all(gateway: &Gateway, files: &[(String, Bytes)]) {
    gateway.drop_cache();
    let client = Client::connect(gateway.nfs, "reader").await;
    for (path, data) in files {
        client.expect(path, data).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_on_azure_sftp_and_a_directory_survive_restarts_and_the_loss_of_one_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let azurite = Server::start("azure", &folder.path().join("azure"));
    let sshd = Server::start("sftp", &folder.path().join("sftp"));
    let mut settings = Settings::in_folder(folder.path());
    settings = settings.with_cloud("a", azure(&azurite)).with_credentials("a", azure_key(folder.path()));
    settings = settings.with_cloud("b", sftp(&sshd));
    let data = folder.path().join("data");
    let mut gateway = Gateway::start_with(&data, &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    let mut random = Random::from_environment("other clouds");
    let files: Vec<(String, Bytes)> =
        (0..10).map(|n| (format!("file{n}"), random.bytes(1 << (2 * n)))).collect();
    for (path, data) in &files {
        client.write(path, data).await;
    }
    gateway.flush();
    expect_all(&gateway, &files).await;

    // What was used and costs is counted; what is secret is not told.
    for (cloud, kind) in [("a", "azure"), ("b", "sftp"), ("c", "dir")] {
        gateway.kurma_ends(&["cloud", "test", cloud], &[0]);
        let shown = gateway.json(&["cloud", "show", cloud], &[0]);
        assert!(shown["url"].as_str().unwrap().starts_with(kind), "{shown}");
        assert!(shown["costs"]["put"].as_u64().unwrap() > 2, "{shown}");
        assert!(shown["costs"]["uploaded_bytes"].as_u64().unwrap() > 100_000, "{shown}");
        assert!(!shown.to_string().contains("a3VybWE"), "{shown}");
    }
    assert_eq!(gateway.stop(), Some(0));
    gateway.launch();
    expect_all(&gateway, &files).await;
    gateway.kill();
    gateway.launch();
    gateway.kurma_ends(&["scrub"], &[0]);

    // Who restores names the file with the credentials again; without it that cloud is out of reach, and the rest goes on.
    let [keys, old, key] = ["recovery.key", "azure-key", "other-key"].map(|name| folder.path().join(name));
    std::fs::rename(&old, &key).unwrap();
    let kurma = |arguments: &[&str]| Command::new(&*KURMA).args(arguments).output().unwrap();
    let export = kurma(&["key", "export", keys.to_str().unwrap(), "--data", data.to_str().unwrap()]);
    assert!(export.status.success(), "{export:?}");
    let name_key = format!("a={}", key.display());
    for (to, given) in [("without", None), ("with", Some(["--credentials", &name_key]))] {
        let to = folder.path().join(to);
        let arguments = ["restore", "--json", "--to", to.to_str().unwrap(), "--keys", keys.to_str().unwrap()];
        let restored = kurma(&[&arguments[..], given.as_ref().map_or(&[], |given| &given[..])].concat());
        let value: serde_json::Value =
            serde_json::from_slice(&restored.stdout).unwrap_or_else(|_| panic!("{restored:?}"));
        let states = value["clouds"].as_array().unwrap();
        let azure = states.iter().find(|state| state["cloud"] == "a").unwrap();
        assert_eq!(azure["state"] == "unreachable", given.is_none(), "{value:#}");
        let config = std::fs::read_to_string(to.join("kurma.toml")).unwrap();
        assert!(!config.contains("azure-key") && config.contains("other-key") == given.is_some(), "{config}");
    }
    let wrong = folder.path().join("wrong");
    let arguments = ["restore", "--to", wrong.to_str().unwrap(), "--keys", keys.to_str().unwrap()];
    for (given, why) in [
        ("x=azure-key", "azure-key"),
        (&name_key.replace("a=", "x="), "no cloud of this name"),
        (&name_key.replace("a=", "c="), "takes none"),
    ] {
        let refused = kurma(&[&arguments[..], &["--credentials", given]].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
        assert!(!wrong.exists());
    }
    std::fs::rename(&key, &old).unwrap();

    // Any of the three may go away.
    std::fs::rename(folder.path().join("clouds/c"), folder.path().join("gone")).unwrap();
    expect_all(&gateway, &files).await;
    std::fs::rename(folder.path().join("gone"), folder.path().join("clouds/c")).unwrap();
    gateway.kurma_ends(&["scrub"], &[0, 3]);
    gateway.kurma_ends(&["repair"], &[0]);
    drop(sshd);
    expect_all(&gateway, &files).await;
    assert!(!gateway.log().contains("a3VybWE"), "the key of the account is in the log");
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clouds_of_other_kinds_come_while_files_are_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let webdav = Server::start("webdav", &folder.path().join("webdav"));
    let swift = Server::start("swift", &folder.path().join("swift"));
    swift.run(&["container", &swift.port.to_string(), "fragments"]);
    let settings = Settings { lease: "10s", ..Settings::in_folder(folder.path()) };
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    let mut random = Random::from_environment("clouds of other kinds");
    let files: Vec<(String, Bytes)> =
        (0..5).map(|n| (format!("file{n}"), random.bytes(70_000 * n))).collect();
    for (path, data) in &files {
        client.write(path, data).await;
    }
    gateway.flush();

    let password = "webdav_username = kurma\nwebdav_password = test-secret\n";
    let password = secret_file(&folder.path().join("password"), password);
    let key = "ST_USER=test:kurma\nST_KEY=test-secret\n";
    let key = secret_file(&folder.path().join("key"), key);
    let urls = [
        ("d", format!("webdav://127.0.0.1:{}/", webdav.port), &password),
        ("e", format!("swift://fragments?auth=http://127.0.0.1:{}/auth/v1.0", swift.port), &key),
    ];
    for ((name, url, credentials), from) in urls.iter().zip(["a", "b"]) {
        let file = credentials.to_str().unwrap();
        let wrong = gateway.kurma_ends(&["cloud", "add", name, "--url", url], &[2]);
        let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(said.contains("credentials") && !said.contains("test-secret"), "{said}");
        gateway.kurma_ends(&["cloud", "add", name, "--url", url, "--credentials", file], &[0]);
        gateway.kurma_ends(&["cloud", "drain", from, "--to", name], &[0]);
        gateway.kurma_ends(&["cloud", "remove", from], &[0]);
    }
    expect_all(&gateway, &files).await;
    gateway.kill();
    gateway.launch();
    expect_all(&gateway, &files).await;
    gateway.kurma_ends(&["scrub"], &[0]);
    assert!(!gateway.log().contains("test-secret"));
    gateway.check();
}

/// Starts a gateway that must not start, and returns what it says.
fn refusal(folder: &Path, settings: &Settings) -> String {
    let data = folder.join("refused");
    settings.write(&data);
    let output = Gateway::new(&data).run_to_end();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn wrong_credentials_are_told_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let azurite = Server::start("azure", &folder.path().join("azure"));
    let settings = Settings::in_folder(folder.path()).with_cloud("a", azure(&azurite));
    let file = |text: &str| secret_file(&folder.path().join("key"), text);
    let refused = |text: &str, expected: &[&str]| {
        let settings = settings.clone().with_credentials("a", file(text));
        let said = refusal(folder.path(), &settings);
        assert!(expected.iter().all(|part| said.contains(part)), "{said}");
        assert!(!said.contains("aGlkZGVu"), "{said}");
    };
    refused("azure_storage_account_key = aGlkZGVu\n", &["\"a\"", "check the credentials"]);
    refused("azure_storage_key = aGlkZGVu\n", &["\"a\"", "line 1", "azure_storage_account_key"]);
    refused("# nothing\n", &["\"a\"", "lack azure_storage_account_key"]);

    let open = azure_key(folder.path());
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o644)).unwrap();
    let said = refusal(folder.path(), &settings.clone().with_credentials("a", open));
    assert!(said.contains("chmod 600") && said.contains("azure-key"), "{said}");
    let missing = folder.path().join("missing");
    let said = refusal(folder.path(), &settings.clone().with_credentials("a", missing));
    assert!(said.contains("cannot be read") && said.contains("missing"), "{said}");
}
