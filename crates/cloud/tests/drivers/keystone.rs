//! Version 3 of OpenStack's identity service, in front of a real Swift: it proves who asks, signs in there with version 1, and hands out that
//! token, and a catalogue. A stand-in: the real one takes a database and dozens of packages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

pub const PASSWORD: &str = "test-password";
pub const SECRET: &str = "test-application-secret";
/// Where the object store is; the catalogue has another one elsewhere.
pub const REGION: &str = "here";

pub struct Keystone {
    pub address: SocketAddr,
    service: Arc<Service>,
    serving: tokio::task::JoinHandle<()>,
}

struct Service {
    /// Of the Swift.
    port: u16,
    /// Tokens handed out. The first has run out already.
    tokens: AtomicUsize,
}

impl Keystone {
    pub async fn start(swift: u16) -> Keystone {
        let service = Arc::new(Service { port: swift, tokens: AtomicUsize::new(0) });
        let router = Router::new().route("/v3/auth/tokens", post(sign_in)).with_state(service.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Keystone { address, service, serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}/v3", self.address)
    }

    pub fn tokens(&self) -> usize {
        self.service.tokens.load(Ordering::Relaxed)
    }
}

impl Drop for Keystone {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What users and projects of the domain are called in a question.
fn is_known(question: &Value) -> bool {
    let auth = &question["auth"];
    let identity = &auth["identity"];
    match identity["methods"].as_array().map(Vec::as_slice) {
        Some([method]) if method == "password" => {
            let user = &identity["password"]["user"];
            let project = &auth["scope"]["project"];
            let is_ours = project["id"] == "4711"
                || (project["name"] == "kurma project" && project["domain"]["name"] == "Projects");
            user["name"] == "kurma"
                && user["domain"]["name"] == "Users"
                && user["password"] == PASSWORD
                && is_ours
        }
        // The scope is that of the credential, and may not be given.
        Some([method]) if method == "application_credential" => {
            let credential = &identity["application_credential"];
            credential["id"] == "0815" && credential["secret"] == SECRET && auth.get("scope").is_none()
        }
        _ => false,
    }
}

async fn sign_in(State(service): State<Arc<Service>>, Json(question): Json<Value>) -> Response {
    if !is_known(&question) {
        let error = json!({"error": {"code": 401, "title": "Unauthorized", "message": "not known here"}});
        return (StatusCode::UNAUTHORIZED, Json(error)).into_response();
    }
    let auth = format!("http://127.0.0.1:{}/auth/v1.0", service.port);
    let asked = reqwest::Client::new().get(auth).header("x-auth-user", "test:kurma");
    let answer = asked.header("x-auth-key", "test-secret").send().await.unwrap();
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    let (storage, good) = (header("x-storage-url"), header("x-auth-token"));
    let token = match service.tokens.fetch_add(1, Ordering::Relaxed) {
        0 => "has-run-out".to_owned(),
        _ => good,
    };
    let endpoint = |interface: &str, region: &str, url: &str| json!({"interface": interface, "region": region, "region_id": region, "url": url});
    let nowhere = "http://127.0.0.1:9/v1/nowhere";
    let catalog = json!([
        {"type": "identity", "endpoints": [endpoint("public", REGION, nowhere)]},
        {"type": "object-store", "endpoints": [
            endpoint("internal", REGION, nowhere),
            endpoint("public", "elsewhere", nowhere),
            endpoint("public", REGION, &storage),
        ]},
    ]);
    let body =
        Json(json!({"token": {"methods": question["auth"]["identity"]["methods"], "catalog": catalog}}));
    (StatusCode::CREATED, [("x-subject-token", token)], body).into_response()
}
