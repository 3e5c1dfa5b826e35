use std::sync::Arc;
use std::time::Duration;

use environment::Environment;
use nfs4::Verifier;
use nfs4_server::{Export, Server, ServerConfig};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vector_client::{Client, Error, Options};

use super::Site;
use super::machine::Machine;
use crate::life::plan::CLIENTS;
use crate::world::entropy::SeededEntropy;
use crate::world::network::Network;

/// How the volume is called.
pub const EXPORT: &str = "home";
/// Where the network leads.
const ADDRESS: &str = "127.0.0.1:2049";
const LEASE: Duration = Duration::from_secs(10);
/// Sessions that a client may have: the present one, and those with requests that nobody waits for any more.
const SESSIONS: usize = 8;
/// Longer than a client is silent by itself, and short enough that clients that are cut off lose something.
const COURTESY: Duration = Duration::from_secs(30);

/// What a machine shows to a network: the server, and who connects to it.
pub struct Front {
    pub network: Network,
    env: Environment,
    seed: u64,
    machine: u64,
    connections: usize,
    server: Server,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Front {
    /// In front of this machine, if clients come over the network.
    pub async fn open(site: &Site, machine: &Machine, number: u64) -> Option<Front> {
        let connections = site.setup.connections?;
        let network = Network::new(&site.world, machine.env.clock.clone(), site.seed, number);
        let config = ServerConfig {
            records: site.records.clone(),
            server_id: b"simulated".to_vec(),
            lease: LEASE,
            courtesy: COURTESY,
            ..ServerConfig::in_memory(vec![Export::new(EXPORT, machine.fs())], machine.env.clone())
        };
        let server = Server::new(config).await.expect("the server starts");
        let stop = CancellationToken::new();
        let (listener, serving, stopped) = (network.listener(), server.clone(), stop.clone());
        let serving =
            tokio::spawn(async move { serving.serve(listener, stopped).await.expect("the server serves") });
        let (env, seed) = (machine.env.clone(), site.seed);
        Some(Front { network, env, seed, machine: number, connections, server, stop, serving })
    }

    /// The client of this number, started for the so-manieth time on this machine: with each start it drops what it had.
    pub async fn connect(&self, number: usize, start: u64) -> Result<Client, Error> {
        let random = (self.machine << 32) | ((number as u64 + 1) << 16) | start;
        let entropy = Arc::new(SeededEntropy::new(self.seed, random));
        let mut options = Options::new(Environment { entropy, ..self.env.clone() });
        let nfs = &mut options.nfs;
        nfs.network = self.network.of_client(number);
        nfs.owner = format!("client {number}").into();
        nfs.verifier = Verifier(random.to_be_bytes());
        nfs.connections = self.connections;
        nfs.timeout = Duration::from_secs(5);
        nfs.connect_timeout = Duration::from_secs(3);
        nfs.patience = Duration::from_secs(60);
        nfs.back_off = Duration::from_millis(20)..=Duration::from_secs(1);
        Client::connect(ADDRESS, options).await
    }

    /// The server does not collect what clients have left behind; says what it does collect.
    pub fn check_bounds(&self) -> Result<(), String> {
        let census = self.server.metrics().census;
        let bounds =
            [("clients", census.clients, CLIENTS * 2), ("sessions", census.sessions, CLIENTS * SESSIONS)];
        match bounds.into_iter().find(|(_, found, bound)| found > bound) {
            Some((what, found, bound)) => Err(format!("the server has {found} {what}, more than {bound}")),
            None => Ok(()),
        }
    }

    /// Ends the server in order.
    pub async fn stop(self) {
        self.stop.cancel();
        self.serving.await.expect("the server stops");
    }
}
