//! Finds a running gateway and talks to its admin interface.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use gateway::{ADMIN_TOKEN_FILE, Config};
use serde_json::Value;

use crate::outcome::Failure;
use crate::progress::Progress;

/// Which gateway is meant.
#[derive(Args, Clone)]
pub struct Target {
    /// Data folder of the gateway
    #[arg(long, value_name = "DIR", global = true)]
    pub data: Option<PathBuf>,
    /// Configuration file of the gateway
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Admin address of the gateway; goes before the environment, and both before --data and --config
    #[arg(long, value_name = "URL", env = "KURMA_ADMIN", global = true)]
    pub admin: Option<String>,
}

impl Target {
    /// The configuration file that `--config` or `--data` name, if they do.
    pub fn config_file(&self) -> Option<PathBuf> {
        self.config.clone().or_else(|| Some(self.data.as_ref()?.join("kurma.toml")))
    }

    /// The admin address: of `--admin` or the environment, or what the running gateway left in its data folder.
    pub fn url(&self) -> Result<String, Failure> {
        if let Some(admin) = &self.admin {
            let address = admin.trim_end_matches('/');
            return Ok(if address.contains("://") { address.into() } else { format!("http://{address}") });
        }
        let file = self.config_file().unwrap_or_else(|| PathBuf::from("kurma-data/kurma.toml"));
        let config = Config::load(&file).map_err(Failure::usage)?;
        let running = std::fs::read_to_string(config.gateway.data.join(gateway::ADMIN_ADDRESS_FILE));
        let address = running.unwrap_or_else(|_| config.admin.listen.to_string());
        Ok(format!("http://{}", address.trim()))
    }
}

type Response = ureq::http::Response<ureq::Body>;
type Sent = Result<Response, ureq::Error>;

/// Answers that tell how far they are.
const LINES: &str = "application/x-ndjson";

/// A connection to one gateway.
pub struct AdminClient {
    url: String,
    agent: ureq::Agent,
}

impl AdminClient {
    pub fn new(target: &Target) -> Result<AdminClient, Failure> {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(5)))
            .build()
            .new_agent();
        Ok(AdminClient { url: target.url()?, agent })
    }

    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        self.ask(|token| self.agent.get(format!("{}{path}", self.url)).header("Authorization", token).call())
    }

    pub fn post(&self, path: &str, body: Value) -> Result<Value, Failure> {
        self.ask(|token| {
            self.agent.post(format!("{}{path}", self.url)).header("Authorization", token).send_json(&body)
        })
    }

    /// As [`AdminClient::post`], for what takes long: shows how far it is.
    pub fn watch(&self, path: &str, body: Value, label: &'static str) -> Result<Value, Failure> {
        let mut progress = Progress::new(label);
        if !progress.is_watched() {
            return self.post(path, body);
        }
        let send = |token: &str| {
            let request = self.agent.post(format!("{}{path}", self.url)).header("Authorization", token);
            request.header("Accept", LINES).send_json(&body)
        };
        let answer = self.authorized(send)?;
        if answer.headers().get("content-type").is_none_or(|kind| kind != LINES) {
            return self.result(self.read(answer)?);
        }
        for line in BufReader::new(answer.into_body().into_reader()).lines() {
            let line = line.map_err(|cause| Failure::failed(format!("{}: {cause}", self.url)))?;
            let mut line: Value = serde_json::from_str(&line).map_err(Failure::failed)?;
            if let Some(done) = line.get("progress") {
                progress.show(done);
            } else if let Some(result) = line.get_mut("result") {
                return Ok(result.take());
            } else {
                let status = line["status"].as_u64().and_then(|status| status.try_into().ok());
                return self.result((status.unwrap_or(500), line));
            }
        }
        Err(Failure::failed(format!("the gateway at {} ended before it was done", self.url)))
    }

    /// A file, and how many bytes are not yet in the clouds.
    pub fn download(&self, path: &str) -> Result<(u64, Box<dyn Read>), Failure> {
        let answer = self.authorized(|token| {
            self.agent.get(format!("{}{path}", self.url)).header("Authorization", token).call()
        })?;
        if !answer.status().is_success() {
            return Err(match self.result(self.read(answer)?) {
                Err(failure) => failure,
                Ok(_) => Failure::failed(format!("{} sent no file", self.url)),
            });
        }
        let dirty = answer.headers().get("kurma-dirty-bytes").and_then(|value| value.to_str().ok());
        let dirty = dirty.and_then(|value| value.parse().ok()).unwrap_or(0);
        Ok((dirty, Box::new(answer.into_body().into_reader())))
    }

    /// Sends a request; the gateway says where its token is, and whoever may read that file may ask.
    fn ask(&self, send: impl Fn(&str) -> Sent) -> Result<Value, Failure> {
        self.result(self.read(self.authorized(send)?)?)
    }

    fn authorized(&self, send: impl Fn(&str) -> Sent) -> Result<Response, Failure> {
        let answer = self.sent(send(""))?;
        if answer.status().as_u16() != 401 {
            return Ok(answer);
        }
        let (status, body) = self.read(answer)?;
        match body.get("token_file").and_then(Value::as_str) {
            Some(file) => self.sent(send(&format!("Bearer {}", read_token(Path::new(file))?))),
            None => Err(Failure::failed(format!("{} answered {status}", self.url))),
        }
    }

    fn result(&self, (status, body): (u16, Value)) -> Result<Value, Failure> {
        match body.get("error").and_then(Value::as_str) {
            Some(error) if status == 400 => Err(Failure::usage(error)),
            Some(error) if status == 409 => Err(Failure::attention(error)),
            Some(error) => Err(Failure::failed(error)),
            None if (200..300).contains(&status) => Ok(body),
            None => Err(Failure::failed(format!("{} answered {status}", self.url))),
        }
    }

    fn sent(&self, sent: Sent) -> Result<Response, Failure> {
        sent.map_err(|cause| {
            Failure::failed(format!(
                "no gateway answers at {}: {cause}. Start one with `kurma up`, or name another with --data or --admin",
                self.url
            ))
        })
    }

    fn read(&self, mut answer: Response) -> Result<(u16, Value), Failure> {
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(1 << 30).read_json().map_err(|cause| {
            Failure::failed(format!("{} sent an answer that is no JSON: {cause}", self.url))
        })?;
        Ok((status, body))
    }
}

/// Reads a token, and nothing else: whoever listens at the address must not be sent any file that he names.
fn read_token(file: &Path) -> Result<String, Failure> {
    let refused = |cause: &dyn std::fmt::Display| {
        let file = file.display();
        Failure::failed(format!("the gateway's admin token {file}: {cause}; run this as the gateway's user"))
    };
    if file.file_name() != Some(ADMIN_TOKEN_FILE.as_ref()) {
        return Err(refused(&"not a token file"));
    }
    let mut text = String::new();
    let opened = File::open(file).and_then(|file| file.take(256).read_to_string(&mut text));
    opened.map_err(|cause| refused(&cause))?;
    let token = text.trim_end();
    if token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(token.to_owned())
    } else {
        Err(refused(&"not a token"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_token_is_ever_sent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(ADMIN_TOKEN_FILE);
        assert!(read_token(&file).is_err());
        std::fs::write(&file, "root:x:0:0:root:/root:/bin/bash\n").unwrap();
        assert!(read_token(&file).is_err());
        std::fs::write(&file, format!("{}\n", "0a".repeat(32))).unwrap();
        assert_eq!(read_token(&file).ok(), Some("0a".repeat(32)));
        let other = folder.path().join("other");
        std::fs::copy(&file, &other).unwrap();
        assert!(read_token(&other).is_err());
    }
}
