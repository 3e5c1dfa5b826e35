use std::path::{Path, PathBuf};
use std::process::Command;

use super::{free_port, parallel};

/// A real S3 server (`tests/servers/s3`), which keeps a log.
pub struct S3Server {
    script: PathBuf,
    folder: PathBuf,
    url: String,
}

impl S3Server {
    /// Starts it; what it keeps is in `folder`.
    pub fn start(folder: &Path) -> S3Server {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/servers/s3");
        let port = free_port().port();
        let status = Command::new(&script).args(["start", &port.to_string()]).arg(folder).status().unwrap();
        assert!(status.success(), "the S3 server did not start");
        S3Server { script, folder: folder.to_owned(), url: format!("http://127.0.0.1:{port}") }
    }

    /// Makes a bucket.
    pub fn make_bucket(&self, bucket: &str) {
        parallel(|| ureq::put(format!("{}/{bucket}", self.url)).send_empty()).unwrap();
    }

    /// Keys of at most a thousand objects.
    pub fn keys(&self, bucket: &str) -> Vec<String> {
        let answer = parallel(|| ureq::get(format!("{}/{bucket}?list-type=2", self.url)).call());
        let xml = answer.unwrap().body_mut().read_to_string().unwrap();
        let keys =
            xml.split("<Key>").skip(1).filter_map(|part| Some(part.split_once("</Key>")?.0.to_owned()));
        keys.collect()
    }

    /// Deletes an object behind everybody's back.
    pub fn delete(&self, bucket: &str, key: &str) {
        // Only its presence counts.
        let signature = "AWS4-HMAC-SHA256 Credential=a/20240101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let request = ureq::delete(format!("{}/{bucket}/{key}", self.url)).header("authorization", signature);
        parallel(|| request.call()).unwrap();
    }

    /// The address of a cloud in a bucket.
    pub fn cloud(&self, bucket: &str) -> String {
        let endpoint = self.url.replace(':', "%3A").replace('/', "%2F");
        format!("s3://{bucket}/some/prefix?endpoint={endpoint}&region=us-east-1")
    }

    /// A line for each request.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("s3.log")).unwrap()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = Command::new(&self.script).arg("stop").arg(&self.folder).status(); // it may have ended by itself
    }
}
