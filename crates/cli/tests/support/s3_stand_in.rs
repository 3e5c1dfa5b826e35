use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, watch};

/// How the stand-in treats requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mood {
    /// As S3 does.
    Well,
    /// Takes requests and never answers.
    Hanging,
    /// Answers every PUT and DELETE with this status.
    RefusingWrites(u16),
    /// As S3 does, over one line that carries so many bytes a second.
    Slow(u64),
    /// As S3 does, but none of so many objects is read before all of them are asked for.
    Together(usize),
}

/// The only bucket.
const BUCKET: &str = "bucket";

/// A tiny S3 on a port of its own: put (also conditional), get, head, delete and list of one bucket, objects in
/// a folder. For clouds that behave as no real server can be told to.
pub struct S3StandIn {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    folder: PathBuf,
    mood: watch::Sender<Mood>,
    /// The line that slow transfers share.
    line: Mutex<()>,
    /// Objects that were asked for while they are given out together only.
    asked: watch::Sender<HashSet<String>>,
    /// Method and target of every request.
    seen: std::sync::Mutex<Vec<(String, String)>>,
}

struct Request {
    method: String,
    bucket: String,
    key: String,
    query: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

impl S3StandIn {
    /// Starts; objects are files of `folder`.
    pub fn start(folder: &Path) -> S3StandIn {
        std::fs::create_dir_all(folder).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            folder: folder.to_owned(),
            mood: watch::Sender::new(Mood::Well),
            line: Mutex::default(),
            asked: watch::Sender::default(),
            seen: std::sync::Mutex::default(),
        });
        let serving = shared.clone();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let shared = serving.clone();
                // A connection that the gateway cuts is no failure of the stand-in.
                tokio::spawn(async move { drop(shared.serve(connection).await) });
            }
        });
        S3StandIn { address, shared, runtime: Some(runtime) }
    }

    /// For the configuration.
    pub fn url(&self) -> String {
        self.url_of(BUCKET)
    }

    /// The address of a bucket, which need not exist.
    pub fn url_of(&self, bucket: &str) -> String {
        format!("s3://{bucket}/kurma?endpoint=http%3A%2F%2F{}&region=us-east-1", self.address)
    }

    /// Changes how requests are treated, also those that hang now: they are cut.
    pub fn set(&self, mood: Mood) {
        self.shared.asked.send_replace(HashSet::new());
        self.shared.mood.send_replace(mood);
    }

    /// Method and target of every request so far.
    pub fn requests(&self) -> Vec<(String, String)> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Requests with this method since the start.
    pub fn requests_by(&self, method: &str) -> usize {
        self.shared.seen.lock().unwrap().iter().filter(|(seen, _)| seen == method).count()
    }

    /// Objects stored now.
    pub fn objects(&self) -> usize {
        std::fs::read_dir(&self.shared.folder).unwrap().count()
    }
}

impl Drop for S3StandIn {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    async fn serve(&self, connection: TcpStream) -> std::io::Result<()> {
        connection.set_nodelay(true)?;
        let mut connection = BufReader::new(connection);
        while let Some(request) = read_request(&mut connection).await? {
            let target = format!("/{}/{}?{}", request.bucket, request.key, request.query);
            self.seen.lock().unwrap().push((request.method.clone(), target));
            let mut moods = self.mood.subscribe();
            let mood = *moods.borrow_and_update();
            let answer = match mood {
                Mood::Hanging => {
                    let _ = moods.wait_for(|mood| *mood != Mood::Hanging).await;
                    return Ok(());
                }
                Mood::RefusingWrites(status) if matches!(request.method.as_str(), "PUT" | "DELETE") => {
                    Answer::error(status, if status == 403 { "AccessDenied" } else { "SlowDown" })
                }
                _ => self.answer(&request),
            };
            if let Mood::Together(count) = mood
                && request.method == "GET"
                && !request.key.is_empty()
            {
                self.asked.send_modify(|asked| _ = asked.insert(request.key.clone()));
                let _ = self.asked.subscribe().wait_for(|asked| asked.len() >= count).await;
            }
            if let Mood::Slow(rate) = mood {
                let bytes = (request.body.len() + answer.body.len()) as u64;
                let _line = self.line.lock().await;
                tokio::time::sleep(Duration::from_secs_f64(bytes as f64 / rate as f64)).await;
            }
            let is_head = request.method == "HEAD";
            let mut head = format!("HTTP/1.1 {} X\r\n{}", answer.status, answer.headers);
            if !answer.headers.contains("content-length") {
                head += &format!("content-length: {}\r\n", answer.body.len());
            }
            connection.write_all(format!("{head}\r\n").as_bytes()).await?;
            if !is_head {
                connection.write_all(&answer.body).await?;
            }
            connection.flush().await?;
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> Answer {
        if request.bucket != BUCKET {
            return Answer::error(404, "NoSuchBucket");
        }
        if request.key.is_empty() {
            return self.list(&request.query);
        }
        let path = self.folder.join(request.key.replace('/', "+"));
        match request.method.as_str() {
            "PUT" if request.headers.contains_key("if-none-match") && path.exists() => {
                Answer::error(412, "PreconditionFailed")
            }
            "PUT" => {
                let new = self.folder.join(format!(".{:p}", request));
                std::fs::write(&new, &request.body).and_then(|()| std::fs::rename(&new, &path)).unwrap();
                Answer { status: 200, headers: "etag: \"x\"\r\n".into(), body: Vec::new() }
            }
            "DELETE" => {
                let _ = std::fs::remove_file(path); // deleting what is not there succeeds
                Answer { status: 204, headers: String::new(), body: Vec::new() }
            }
            "GET" | "HEAD" => match std::fs::read(path) {
                Ok(body) => object(request, body),
                Err(_) => Answer::error(404, "NoSuchKey"),
            },
            _ => Answer::error(501, "NotImplemented"),
        }
    }

    fn list(&self, query: &str) -> Answer {
        let parameter = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or("").replace("%2F", "/").replace("%7D", "}")
        };
        let prefix = parameter("prefix");
        let after = parameter("start-after").max(parameter("continuation-token"));
        let mut found: Vec<(String, u64)> = std::fs::read_dir(&self.folder)
            .unwrap()
            .flatten()
            .map(|entry| {
                let size = entry.metadata().map_or(0, |meta| meta.len());
                (entry.file_name().to_string_lossy().replace('+', "/"), size)
            })
            .filter(|(key, _)| {
                key.starts_with(&prefix) && key.as_str() > after.as_str() && !key.starts_with('.')
            })
            .collect();
        found.sort();
        let truncated = found.len() > 1000;
        found.truncate(1000);
        let mut xml = format!("<ListBucketResult><IsTruncated>{truncated}</IsTruncated>");
        if let (true, Some((last, _))) = (truncated, found.last()) {
            xml += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
        }
        for (key, size) in found {
            xml += &format!(
                "<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>\
                 <ETag>x</ETag><Size>{size}</Size></Contents>"
            );
        }
        xml += "</ListBucketResult>";
        Answer { status: 200, headers: "content-type: application/xml\r\n".into(), body: xml.into_bytes() }
    }
}

/// The object, or the part of it that was asked for.
fn object(request: &Request, body: Vec<u8>) -> Answer {
    let about = "etag: \"x\"\r\nlast-modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n";
    let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((start, end)) = range else {
        let headers = format!("{about}content-length: {}\r\n", body.len());
        return Answer { status: 200, headers, body };
    };
    let start: usize = start.parse().unwrap_or(0);
    let end = end.parse().map_or(body.len(), |last: usize| body.len().min(last + 1));
    if start >= body.len() {
        return Answer::error(416, "InvalidRange");
    }
    let headers = format!(
        "{about}content-range: bytes {start}-{}/{}\r\ncontent-length: {}\r\n",
        end - 1,
        body.len(),
        end - start
    );
    Answer { status: 206, headers, body: body[start..end].to_vec() }
}

impl Answer {
    fn error(status: u16, code: &str) -> Answer {
        let body = format!("<Error><Code>{code}</Code><Message>as told</Message></Error>");
        Answer { status, headers: String::new(), body: body.into_bytes() }
    }
}

async fn read_request(connection: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if connection.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or("").to_owned(), words.next().unwrap_or("/").to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.trim().to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let path = path.trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let (bucket, key, query) = (bucket.to_owned(), key.to_owned(), query.to_owned());
    Ok(Some(Request { method, bucket, key, query, headers, body }))
}
