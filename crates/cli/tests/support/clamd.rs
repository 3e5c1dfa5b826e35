use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{free_port, parallel};

/// What its signature finds.
pub const MALWARE: &[u8] = b"some text, KURMA-TEST-MALWARE, and more of it";
/// What it calls that.
pub const MALWARE_NAME: &str = "Kurma.Test.UNOFFICIAL";

/// The file that every scanner finds, put together here so that none finds this source.
pub fn eicar() -> Vec<u8> {
    let (first, second) = (r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD", "-ANTIVIRUS-TEST-FILE!$H+H*");
    [first, second].concat().into_bytes()
}

/// A real `clamd` with two signatures of its own.
pub struct Clamd {
    socket: PathBuf,
    child: Child,
}

impl Clamd {
    /// Starts one whose folder this is.
    pub fn start(folder: &Path) -> Clamd {
        let (socket, database) = (folder.join("clamd.ctl"), folder.join("signatures"));
        std::fs::create_dir_all(&database).unwrap();
        let hex = |text: &[u8]| text.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let signatures = [("Kurma.Test", b"KURMA-TEST-MALWARE".to_vec()), ("Kurma.Eicar", eicar())];
        let lines = signatures.map(|(name, bytes)| format!("{name}:0:*:{}\n", hex(&bytes)));
        std::fs::write(database.join("kurma.ndb"), lines.concat()).unwrap();
        let config = format!(
            "LocalSocket {}\nDatabaseDirectory {}\nForeground yes\nLogFile {}\nStreamMaxLength 20M\nMaxThreads 4\n",
            socket.display(),
            database.display(),
            folder.join("clamd.log").display()
        );
        std::fs::write(folder.join("clamd.conf"), config).unwrap();
        let child =
            daemon("clamd").arg(format!("--config-file={}", folder.join("clamd.conf").display())).spawn();
        let child = child.expect("clamd, which `scripts/setup test` installs");
        let clamd = Clamd { socket, child };
        until_it_answers(|| UnixStream::connect(&clamd.socket).is_ok());
        clamd
    }

    /// Its address in the configuration of a gateway.
    pub fn address(&self) -> String {
        format!("clamd:unix:{}", self.socket.display())
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Clamd {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A real ICAP service, `c-icap` with its `virus_scan`, before a `clamd`.
pub struct Icap {
    port: u16,
    child: Child,
}

impl Icap {
    /// Starts one whose folder this is.
    pub fn start(folder: &Path, clamd: &Clamd) -> Icap {
        let (port, place) = (free_port().port(), folder.display());
        let run = |arguments: &[&str]| {
            let output = Command::new("id").args(arguments).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let (user, group) = (run(&["-un"]), run(&["-gn"]));
        let library =
            std::fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path().join("c_icap"));
        let library =
            library.chain(["/usr/lib/c_icap".into()]).find(|path| path.join("virus_scan.so").exists());
        let library = library.expect("libc-icap-mod-virus-scan, which `scripts/setup test` installs");
        let library = library.display();
        let config = format!(
            "PidFile {place}/c-icap.pid\nCommandsSocket {place}/c-icap.ctl\nStartServers 1\nMaxServers 2\n\
             MinSpareThreads 2\nMaxSpareThreads 10\nThreadsPerChild 8\nPort 127.0.0.1:{port}\nUser {user}\nGroup {group}\n\
             ServerAdmin nobody@localhost\nServerName localhost\nTmpDir {place}\nModulesDir {library}\nServicesDir {library}\n\
             TemplateDir /usr/share/c_icap/templates/\nTemplateDefaultLanguage en\nLoadMagicFile /etc/c-icap/c-icap.magic\n\
             ServerLog {place}/c-icap.log\nAccessLog {place}/access.log\nModule common clamd_mod.so\n\
             clamd_mod.ClamdSocket {}\nService antivirus_module virus_scan.so\n\
             ServiceAlias avscan virus_scan?allow204=on&sizelimit=off&mode=simple\n\
             virus_scan.ScanFileTypes TEXT DATA EXECUTABLE ARCHIVE\nvirus_scan.DefaultEngine clamd\n\
             virus_scan.MaxObjectSize 20M\nvirus_scan.SendPercentData 0\n",
            clamd.socket().display()
        );
        std::fs::write(folder.join("c-icap.conf"), config).unwrap();
        let child = daemon("c-icap").arg("-N").arg("-f").arg(folder.join("c-icap.conf")).spawn();
        let icap = Icap { port, child: child.expect("c-icap, which `scripts/setup test` installs") };
        until_it_answers(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        icap
    }

    /// Its address in the configuration of a gateway.
    pub fn address(&self) -> String {
        format!("icap://127.0.0.1:{}/avscan", self.port)
    }
}

impl Drop for Icap {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn daemon(name: &str) -> Command {
    let place = ["/usr/sbin", "/usr/bin"].map(|folder| Path::new(folder).join(name));
    let mut command = Command::new(place.into_iter().find(|path| path.exists()).unwrap_or(name.into()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn until_it_answers(answers: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !parallel(&answers) {
        assert!(Instant::now() < deadline, "a scanner of the tests does not answer");
        parallel(|| std::thread::sleep(Duration::from_millis(20)));
    }
}

/// Ends a daemon as an administrator would, so that it takes its children with it.
fn end(child: &mut Child) {
    let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status(); // it may have ended by itself
    let _ = child.wait();
}
