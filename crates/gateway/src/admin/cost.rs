//! What the clouds cost so far.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{Json, Response};
use cloud::Prices;
use serde_json::{Value, json};

use super::progress::{Meter, streamed};
use super::{Answer, Refusal};
use crate::bill::{Account, WRITTEN};
use crate::node::Node;

/// One cloud: requests, bytes and, if its prices are known, money.
fn line(node: &Node, name: &str, account: &Account) -> Value {
    let config = node.clouds.get(name).map(|(config, _)| config);
    let price = config.as_ref().and_then(|config| config.price.as_ref());
    let counts = &account.counts;
    json!({
        "cloud": name,
        "configured": config.is_some(),
        "requests": {
            "put": counts.put,
            "get": counts.get,
            "list": counts.list,
            "delete": counts.delete,
            "given_up": counts.given_up,
        },
        "uploaded_bytes": counts.uploaded_bytes,
        "downloaded_bytes": counts.downloaded_bytes,
        "stored_bytes": account.stored.as_ref().map(|stored| stored.bytes),
        "stored_objects": account.stored.as_ref().map(|stored| stored.objects),
        "measured": account.stored.as_ref().map(|stored| stored.at),
        "gb_months": account.gb_months,
        "price": price,
        "money": price.map(|price| Prices::from(price).charge(counts, account.gb_months)),
    })
}

/// The bill.
pub(super) fn bill(node: &Node) -> Value {
    let statement = node.bill.statement();
    let lines: Vec<Value> =
        statement.clouds.iter().map(|(name, account)| line(node, name, account)).collect();
    let money: Vec<f64> = lines.iter().filter_map(|line| line["money"]["total"].as_f64()).collect();
    json!({
        "since": statement.since,
        "clouds": lines,
        "money": (!money.is_empty()).then(|| money.iter().sum::<f64>()),
        "crashes": statement.crashes,
        "last_crash": statement.last_crash,
        "seconds_before_a_crash_that_may_be_missing": WRITTEN.as_secs(),
    })
}

pub(super) async fn show(State(node): State<Arc<Node>>) -> Answer {
    Ok(Json(bill(&node)))
}

/// Lists the clouds to see what lies there.
pub(super) async fn measure(State(node): State<Arc<Node>>, headers: HeaderMap) -> Response {
    let (meter, clock) = (Meter::new("objects"), node.environment.clock.clone());
    let counting = meter.clone();
    let work = async move {
        let mut failed = Vec::new();
        for connection in node.clouds.connections() {
            if let Err(cause) = node.measure(&connection, |objects| counting.add(objects)).await {
                failed.push(cause.to_string());
            }
        }
        match failed.is_empty() {
            true => Ok(Json(bill(&node))),
            false => {
                Err(Refusal::attention(format!("not all clouds could be measured: {}", failed.join("; "))))
            }
        }
    };
    streamed(&headers, meter, clock, work).await
}
