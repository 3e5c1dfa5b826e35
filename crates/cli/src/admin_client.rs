//! Finds a running gateway and talks to its admin interface.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use gateway::{ADMIN_TOKEN_FILE, Config};
use serde_json::Value;

use crate::outcome::Failure;

/// Which gateway is meant.
#[derive(Args, Clone)]
pub struct Target {
    /// Data folder of the gateway
    #[arg(long, value_name = "DIR", global = true)]
    pub data: Option<PathBuf>,
    /// Configuration file of the gateway
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Admin address of the gateway
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
        if let (Some(admin), None, None) = (&self.admin, &self.data, &self.config) {
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

    /// Sends a request; the gateway says where its token is, and whoever may read that file may ask.
    fn ask(
        &self,
        send: impl Fn(&str) -> Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Value, Failure> {
        let (status, body) = self.answer(send(""))?;
        let (status, body) = match (status, body.get("token_file").and_then(Value::as_str)) {
            (401, Some(file)) => self.answer(send(&format!("Bearer {}", read_token(Path::new(file))?)))?,
            _ => (status, body),
        };
        match body.get("error").and_then(Value::as_str) {
            Some(error) if status == 400 => Err(Failure::usage(error)),
            Some(error) => Err(Failure::failed(error)),
            None if (200..300).contains(&status) => Ok(body),
            None => Err(Failure::failed(format!("{} answered {status}", self.url))),
        }
    }

    fn answer(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<(u16, Value), Failure> {
        let mut answer = answer.map_err(|cause| {
            Failure::failed(format!(
                "no gateway answers at {}: {cause}. Start one with `kurma up`, or name another with --data or --admin",
                self.url
            ))
        })?;
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
