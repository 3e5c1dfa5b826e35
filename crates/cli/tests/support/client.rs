use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nfs4::bits::share_access;
use nfs4::{
    Attribute, AttributeValues, Bitmap, FileHandle, FileType, NfsArgOp, NfsResOp, NfsStatus, Outcome,
    StableHow, StateId, Verifier,
};
use nfs4_client::operations::{self, put_handle};
use nfs4_client::{ClientError, Config, OpenFile, Session};

/// An NFS client on the volume `home`, which does again what the server asks to do later.
pub struct Client {
    pub session: Session,
    /// The root of the volume.
    pub home: FileHandle,
}

/// An object in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub kind: FileType,
    pub id: u64,
    pub links: u32,
    pub size: u64,
}

/// How long the server may put a client off before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    /// Connects as the client `name`; a client of the same name that lived before is replaced.
    pub async fn connect(server: SocketAddr, name: &str) -> Client {
        Client::try_connect(server, name).await.unwrap()
    }

    /// As [`Client::connect`]; fails when the server ends.
    pub async fn try_connect(server: SocketAddr, name: &str) -> Result<Client, ClientError> {
        let mut config = Config::new(name.to_owned(), *b"verifier");
        config.timeout = Duration::from_secs(120);
        let session = Session::connect(server, config, None).await?;
        let home = session.lookup(&["home"]).await?;
        Ok(Client { session, home })
    }

    /// Executes operations, all of which must succeed. What the server asks to send again is sent again.
    pub async fn run(&self, operations: &[NfsArgOp]) -> Result<Vec<NfsResOp>, ClientError> {
        let again = async {
            loop {
                match self.session.execute(operations).await {
                    Err(error) if error.asks_to_retry() => {
                        tokio::time::sleep(Duration::from_millis(20)).await
                    }
                    other => return other,
                }
            }
        };
        tokio::time::timeout(PATIENCE, again).await.expect("the server puts the client off for too long")
    }

    /// The compound's way to `path` (names below the volume's root, separated by `/`).
    pub fn walk(&self, path: &str) -> Vec<NfsArgOp> {
        let mut operations = vec![put_handle(&self.home)];
        operations.extend(path.split('/').filter(|name| !name.is_empty()).map(operations::lookup));
        operations
    }

    /// The handle at `path`.
    pub async fn find(&self, path: &str) -> Result<FileHandle, ClientError> {
        let mut operations = self.walk(path);
        operations.push(NfsArgOp::GetFh);
        match self.run(&operations).await?.pop() {
            Some(NfsResOp::GetFh(Outcome::Ok(handle))) => Ok(handle),
            other => panic!("GETFH returned {other:?}"),
        }
    }

    /// Makes the directory `path`.
    pub async fn make_directory(&self, path: &str) {
        let (parent, name) = split(path);
        let parent = self.find(parent).await.unwrap();
        self.session.make_directory(&parent, name, 0o755).await.unwrap();
    }

    /// Makes or replaces the file `path`; every write is acknowledged as stable.
    pub async fn write(&self, path: &str, data: &Bytes) {
        self.try_write(path, data).await.unwrap();
    }

    /// As [`Client::write`].
    pub async fn try_write(&self, path: &str, data: &Bytes) -> Result<(), ClientError> {
        let file = self.open(path).await?;
        let size = AttributeValues { size: Some(0), ..AttributeValues::default() };
        self.run(&[put_handle(&file.handle), operations::set_attributes(file.state_id, &size)]).await?;
        let step = (self.session.payload_bytes() as usize).min(1 << 20);
        for at in (0..data.len()).step_by(step) {
            let part = data.slice(at..data.len().min(at + step));
            self.write_at(&file.handle, file.state_id, at as u64, StableHow::FileSync, part).await?;
        }
        self.session.close(&file).await
    }

    /// Opens the file `path` for reading and writing, making it if need be.
    pub async fn open(&self, path: &str) -> Result<OpenFile, ClientError> {
        let (parent, name) = split(path);
        let parent = self.find(parent).await?;
        let access = share_access::BOTH | share_access::WANT_NO_DELEG;
        let open = operations::open(name, access, operations::unchecked(0o644), operations::owner("open"));
        let mut results = self.run(&[put_handle(&parent), open, NfsArgOp::GetFh]).await?;
        match (results.pop(), results.pop()) {
            (Some(NfsResOp::GetFh(Outcome::Ok(handle))), Some(NfsResOp::Open(Outcome::Ok(opened)))) => {
                Ok(OpenFile { handle, state_id: opened.state_id, delegation: opened.delegation })
            }
            other => panic!("OPEN returned {other:?}"),
        }
    }

    /// One WRITE, which must be done whole.
    pub async fn write_at(
        &self,
        handle: &FileHandle,
        state_id: StateId,
        offset: u64,
        stable: StableHow,
        data: Bytes,
    ) -> Result<Verifier, ClientError> {
        let length = data.len() as u32;
        let request = [put_handle(handle), operations::write(state_id, offset, stable, data)];
        match self.run(&request).await?.pop() {
            Some(NfsResOp::Write(Outcome::Ok(written))) => {
                assert_eq!(written.count, length, "a short write");
                assert!(written.committed >= stable);
                Ok(written.verifier)
            }
            other => panic!("WRITE returned {other:?}"),
        }
    }

    /// The whole file `path`.
    pub async fn read(&self, path: &str) -> Result<Bytes, ClientError> {
        let handle = self.find(path).await?;
        self.read_handle(&handle).await
    }

    /// The whole file behind a handle.
    pub async fn read_handle(&self, handle: &FileHandle) -> Result<Bytes, ClientError> {
        let step = self.session.payload_bytes().min(1 << 20);
        let mut whole = BytesMut::new();
        loop {
            let request =
                [put_handle(handle), operations::read(StateId::ANONYMOUS, whole.len() as u64, step)];
            let Some(NfsResOp::Read(Outcome::Ok(read))) = self.run(&request).await?.pop() else {
                panic!("READ returned something else")
            };
            let part = read.data.into_bytes();
            assert!(read.eof || !part.is_empty(), "an empty read before the end");
            if whole.is_empty() && read.eof {
                return Ok(part);
            }
            whole.extend_from_slice(&part);
            if read.eof {
                return Ok(whole.freeze());
            }
        }
    }

    /// The file must hold exactly `expected`.
    pub async fn expect(&self, path: &str, expected: &Bytes) {
        let found = self.read(path).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        if let Some(difference) = difference(expected, &found) {
            panic!("{path}: {difference}");
        }
    }

    /// What is in the directory `path`.
    pub async fn list(&self, path: &str) -> Result<Vec<Entry>, ClientError> {
        let request = Bitmap::EMPTY
            .with(Attribute::Type)
            .with(Attribute::Size)
            .with(Attribute::Fileid)
            .with(Attribute::Numlinks);
        let handle = self.find(path).await?;
        let entries = self.session.read_directory(&handle, request).await?;
        let entries = entries.into_iter().map(|entry| {
            let values = entry.attributes.values().unwrap();
            Entry {
                name: entry.name.as_str().unwrap().to_owned(),
                kind: values.r#type.expect("type"),
                id: values.fileid.expect("fileid"),
                links: values.numlinks.expect("numlinks"),
                size: values.size.expect("size"),
            }
        });
        Ok(entries.collect())
    }

    /// Where the symbolic link `path` points.
    pub async fn read_link(&self, path: &str) -> Result<String, ClientError> {
        let mut operations = self.walk(path);
        operations.push(NfsArgOp::ReadLink);
        match self.run(&operations).await?.pop() {
            Some(NfsResOp::ReadLink(Outcome::Ok(text))) => Ok(text.as_str().unwrap().to_owned()),
            other => panic!("READLINK returned {other:?}"),
        }
    }

    /// Removes `path`.
    pub async fn remove(&self, path: &str) {
        let (parent, name) = split(path);
        let mut operations = self.walk(parent);
        operations.push(operations::remove(name));
        self.run(&operations).await.unwrap();
    }

    /// Reading `path` must fail with this status.
    pub async fn expect_failure(&self, path: &str, status: NfsStatus) {
        match self.read(path).await {
            Ok(data) => panic!("{path} gave {} bytes and not {status:?}", data.len()),
            Err(error) => assert_eq!(error.status(), Some(status), "{path}: {error}"),
        }
    }
}

/// Folder and name of a path.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Where two contents differ, for people.
pub fn difference(expected: &[u8], found: &[u8]) -> Option<String> {
    if expected == found {
        return None;
    }
    let at = expected.iter().zip(found).position(|(a, b)| a != b).unwrap_or(expected.len().min(found.len()));
    let last = expected.iter().zip(found).rposition(|(a, b)| a != b).unwrap_or(at);
    Some(format!(
        "{} bytes instead of {}, different from byte {at} to byte {last}",
        found.len(),
        expected.len()
    ))
}
