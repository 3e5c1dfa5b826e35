//! Counting requests where they leave, for drivers through `object_store`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Buf;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};

use crate::Costs;
use crate::costs::Class;

/// Makes clients that count in [`Costs`] every request that names the bucket. Others, to whoever gives out credentials, cost
/// nothing.
#[derive(Debug)]
pub(crate) struct Metered {
    costs: Arc<Costs>,
    bucket: String,
}

#[derive(Debug)]
struct Service {
    inner: HttpClient,
    costs: Arc<Costs>,
    bucket: String,
}

impl Metered {
    pub fn new(costs: &Arc<Costs>, bucket: &str) -> Metered {
        Metered { costs: costs.clone(), bucket: bucket.to_owned() }
    }
}

impl HttpConnector for Metered {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Service { inner, costs: self.costs.clone(), bucket: self.bucket.clone() }))
    }
}

/// Whether a bucket is in the host's name, or in the path: first, or behind the account of an emulator.
fn names(bucket: &str, host: &str, path: &str) -> bool {
    let in_host = host.strip_prefix(bucket).is_some_and(|rest| rest.starts_with('.'));
    in_host || path.trim_start_matches('/').split('/').take(2).any(|segment| segment == bucket)
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri();
        if !names(&self.bucket, uri.host().unwrap_or_default(), uri.path()) {
            return self.inner.execute(request).await;
        }
        let class = Class::of_request(request.method().as_str(), uri.query().unwrap_or_default());
        let sent = self.costs.begin(class, request.body().content_length() as u64);
        match self.inner.execute(request).await {
            Err(error) if error.kind() == HttpErrorKind::Connect => {
                sent.never_left();
                Err(error)
            }
            Err(error) => {
                sent.ended();
                Err(error)
            }
            Ok(answer) => {
                sent.ended();
                let counts = class == Class::Get && answer.status().is_success();
                Ok(if counts { self.counted(answer) } else { answer })
            }
        }
    }
}

impl Service {
    /// An answer whose bytes are counted as they come.
    fn counted(&self, answer: HttpResponse) -> HttpResponse {
        let costs = self.costs.clone();
        answer.map(|body| {
            HttpResponseBody::new(body.map_frame(move |frame| {
                costs.came(frame.data_ref().map_or(0, Buf::remaining) as u64);
                frame
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_to_the_bucket_is_charged() {
        for (host, path) in [
            ("127.0.0.1", "/cellar/some/object"),
            ("127.0.0.1", "/cellar"),
            ("cellar.s3.eu-central-1.amazonaws.com", "/object"),
            ("127.0.0.1", "/devstoreaccount1/cellar/object"),
        ] {
            assert!(names("cellar", host, path), "{host}{path}");
        }
        for (host, path) in [
            ("169.254.169.254", "/latest/meta-data/iam/security-credentials/"),
            ("sts.amazonaws.com", "/"),
            ("oauth2.googleapis.com", "/token"),
            ("cellars.s3.amazonaws.com", "/object"),
        ] {
            assert!(!names("cellar", host, path), "{host}{path}");
        }
    }

    #[test]
    fn requests_are_told_apart_by_method_and_question() {
        for (method, query, class) in [
            ("PUT", "", Class::Put),
            ("POST", "uploads", Class::Put),
            ("GET", "", Class::Get),
            ("HEAD", "", Class::Get),
            ("GET", "list-type=2&prefix=a", Class::List),
            ("GET", "restype=container&comp=list", Class::List),
            ("DELETE", "", Class::Delete),
            ("POST", "delete", Class::Delete),
            ("POST", "delete=", Class::Delete),
            ("POST", "restype=container&comp=batch", Class::Delete),
        ] {
            assert_eq!(Class::of_request(method, query), class, "{method} {query}");
        }
    }
}
