use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::Operation;

/// What a provider may charge for, since the start of the process.
///
/// Of [`s3`](crate::s3), [`azure`](crate::azure) and [`gcs`](crate::gcs) every request is counted that left for the bucket: tries
/// that failed, every page of a listing, the further questions of a driver; but not signing in, and nothing to a server that could not be
/// reached. Of other drivers every try of an operation is one request.
#[derive(Debug, Default)]
pub struct Costs {
    requests: [AtomicU64; 4],
    given_up: AtomicU64,
    uploaded: AtomicU64,
    downloaded: AtomicU64,
}

/// Requests that cost the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Put,
    Get,
    List,
    Delete,
}

/// A copy of [`Costs`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostCounts {
    /// Requests that store something, or change anything but by deleting.
    pub put: u64,
    /// Requests for an object, or for what is known of it.
    pub get: u64,
    /// Requests for names.
    pub list: u64,
    /// Requests that delete.
    pub delete: u64,
    /// Those among all of these of which nobody waited for the answer any more: the provider may not have seen them.
    pub given_up: u64,
    /// Bytes of payload that were sent, or would have been had the try not failed.
    pub uploaded_bytes: u64,
    /// Bytes of payload that came.
    pub downloaded_bytes: u64,
}

impl Class {
    pub fn of(operation: Operation) -> Class {
        match operation {
            Operation::Put => Class::Put,
            Operation::Open | Operation::Get | Operation::Head => Class::Get,
            Operation::List => Class::List,
            Operation::Delete => Class::Delete,
        }
    }

    /// Of a request to an object store over HTTP.
    pub fn of_request(method: &str, query: &str) -> Class {
        let lists = |pair: &str| pair.starts_with("list-type=") || pair == "comp=list";
        match method {
            "GET" if query.split('&').any(lists) => Class::List,
            "GET" | "HEAD" => Class::Get,
            "DELETE" => Class::Delete,
            // Many at once in S3, which are no dearer than one; in Azure's batches there is nothing else.
            "POST"
                if query
                    .split('&')
                    .any(|pair| pair.trim_end_matches('=') == "delete" || pair == "comp=batch") =>
            {
                Class::Delete
            }
            _ => Class::Put,
        }
    }
}

/// A request under way; dropping it means that nobody waits for the answer any more.
pub(crate) struct Sent<'a> {
    costs: &'a Costs,
    class: Class,
    upload: u64,
    ended: bool,
}

impl Costs {
    /// A request begins, with so many bytes to send.
    pub(crate) fn begin(&self, class: Class, upload: u64) -> Sent<'_> {
        self.requests[class as usize].fetch_add(1, Ordering::Relaxed);
        self.uploaded.fetch_add(upload, Ordering::Relaxed);
        Sent { costs: self, class, upload, ended: false }
    }

    /// So many bytes came.
    pub(crate) fn came(&self, bytes: u64) {
        self.downloaded.fetch_add(bytes, Ordering::Relaxed);
    }

    /// As of now.
    pub fn counts(&self) -> CostCounts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let [put, get, list, delete] = self.requests.each_ref().map(value);
        CostCounts {
            put,
            get,
            list,
            delete,
            given_up: value(&self.given_up),
            uploaded_bytes: value(&self.uploaded),
            downloaded_bytes: value(&self.downloaded),
        }
    }
}

impl Sent<'_> {
    /// There is an answer, or it is known that there will be none.
    pub fn ended(mut self) {
        self.ended = true;
    }

    /// Nothing was sent: the server could not be reached.
    pub fn never_left(mut self) {
        self.ended = true;
        self.costs.requests[self.class as usize].fetch_sub(1, Ordering::Relaxed);
        self.costs.uploaded.fetch_sub(self.upload, Ordering::Relaxed);
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.costs.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl std::ops::AddAssign for CostCounts {
    fn add_assign(&mut self, other: CostCounts) {
        self.put += other.put;
        self.get += other.get;
        self.list += other.list;
        self.delete += other.delete;
        self.given_up += other.given_up;
        self.uploaded_bytes += other.uploaded_bytes;
        self.downloaded_bytes += other.downloaded_bytes;
    }
}
