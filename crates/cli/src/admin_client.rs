//! Finds a running gateway and talks to its admin interface.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use gateway::Config;
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
        self.answer(self.agent.get(format!("{}{path}", self.url)).call())
    }

    pub fn post(&self, path: &str, body: Value) -> Result<Value, Failure> {
        self.answer(self.agent.post(format!("{}{path}", self.url)).send_json(body))
    }

    fn answer(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value, Failure> {
        let mut answer = answer.map_err(|cause| {
            Failure::failed(format!(
                "no gateway answers at {}: {cause}. Start one with `kurma up`, or name another with --data or --admin",
                self.url
            ))
        })?;
        let status = answer.status();
        let body: Value = answer
            .body_mut()
            .with_config()
            .limit(1 << 30)
            .read_json()
            .map_err(|cause| Failure::failed(format!("{} sent an answer that is no JSON: {cause}", self.url)))?;
        match body.get("error").and_then(Value::as_str) {
            Some(error) if status.as_u16() == 400 => Err(Failure::usage(error)),
            Some(error) => Err(Failure::failed(error)),
            None if status.is_success() => Ok(body),
            None => Err(Failure::failed(format!("{} answered {status}", self.url))),
        }
    }
}
