use std::fmt;
use std::sync::Arc;

use ids::{BlockIndex, GatewayId, ObjectId, Timestamp, Version, VolumeId};
use serde_json::{Value, json};

/// A cloud did not give back what it was given (`K28`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// When it was noticed; for repetitions, the last time.
    pub time: Timestamp,
    /// The configured name of the cloud.
    pub cloud: Arc<str>,
    /// The name of the object in the cloud.
    pub object_name: String,
    /// Which fragment of the block.
    pub fragment: u8,
    /// The volume of the file.
    pub volume: VolumeId,
    /// The file.
    pub object: ObjectId,
    /// The block of the file.
    pub block: BlockIndex,
    /// The version that was asked for.
    pub version: Version,
    /// The gateway that stored it.
    pub creator: GatewayId,
    /// What was wrong, in words.
    pub wrong: String,
    /// What became of it.
    pub outcome: Outcome,
    /// How often the same was seen so far.
    pub times: u64,
}

/// What became of the operation that met an [`Incident`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The right data came from other clouds; a repair is due.
    ServedFromOthers,
    /// Too few good fragments were left: the reader got an error.
    Unreadable,
    /// A check found it; a repair is due.
    FoundByCheck,
}

/// Where incidents go.
pub trait IncidentSink: Send + Sync {
    /// Takes note. Must return at once.
    fn report(&self, incident: Incident);
}

impl Outcome {
    const ALL: [(Outcome, &'static str); 3] = [
        (Outcome::ServedFromOthers, "served from other clouds"),
        (Outcome::Unreadable, "unreadable"),
        (Outcome::FoundByCheck, "found by a check"),
    ];
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Outcome::ALL[*self as usize].1)
    }
}

impl Incident {
    /// One line of JSON, without the line end.
    pub fn to_json(&self) -> String {
        json!({
            "seconds": self.time.seconds,
            "nanos": self.time.nanos,
            "cloud": &*self.cloud,
            "object_name": self.object_name,
            "fragment": self.fragment,
            "volume": self.volume.to_string(),
            "object": self.object.to_string(),
            "block": self.block.0,
            "version": self.version.0,
            "creator": self.creator.0,
            "wrong": self.wrong,
            "outcome": self.outcome.to_string(),
            "times": self.times,
        })
        .to_string()
    }

    /// The inverse of [`Incident::to_json`]; `None` for anything else.
    pub fn from_json(line: &str) -> Option<Incident> {
        let fields: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| fields[name].as_str();
        let number = |name: &str| fields[name].as_u64();
        let outcome = text("outcome")?;
        Some(Incident {
            time: Timestamp {
                seconds: fields["seconds"].as_i64()?,
                nanos: number("nanos")?.try_into().ok()?,
            },
            cloud: text("cloud")?.into(),
            object_name: text("object_name")?.into(),
            fragment: number("fragment")?.try_into().ok()?,
            volume: VolumeId(u128::from_str_radix(text("volume")?, 16).ok()?),
            object: text("object")?.parse().ok()?,
            block: BlockIndex(number("block")?),
            version: Version(number("version")?),
            creator: GatewayId(number("creator")?.try_into().ok()?),
            wrong: text("wrong")?.into(),
            outcome: Outcome::ALL.into_iter().find(|(_, name)| *name == outcome)?.0,
            times: number("times")?,
        })
    }

    /// Whether it is the same object with the same trouble.
    pub(crate) fn repeats(&self, other: &Incident) -> bool {
        self.object_name == other.object_name
            && self.cloud == other.cloud
            && self.wrong == other.wrong
            && self.outcome == other.outcome
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ids::ObjectNumber;

    use super::*;

    pub(crate) fn incident(name: &str) -> Incident {
        Incident {
            time: Timestamp { seconds: 1_700_000_000, nanos: 5 },
            cloud: "north".into(),
            object_name: name.into(),
            fragment: 2,
            volume: VolumeId(0xabc),
            object: ObjectId { creator: GatewayId(1), number: ObjectNumber(77) },
            block: BlockIndex(3),
            version: Version(4),
            creator: GatewayId(1),
            wrong: "missing \"quoted\"\nline".into(),
            outcome: Outcome::FoundByCheck,
            times: 1,
        }
    }

    #[test]
    fn a_line_of_json_holds_all_of_it() {
        let incident = incident("abc");
        let line = incident.to_json();
        assert!(!line.contains('\n'));
        assert_eq!(Incident::from_json(&line), Some(incident));
        for bad in ["", "{}", "[1]", "{\"seconds\":1}", &line[..line.len() - 1]] {
            assert_eq!(Incident::from_json(bad), None);
        }
        for (outcome, text) in Outcome::ALL {
            assert_eq!(outcome.to_string(), text);
        }
    }
}
