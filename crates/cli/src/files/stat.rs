//! `stat`: attributes of any number of files in one round trip.

mod format;

use std::ffi::OsString;

use clap::Args;
use serde_json::{Value, json};
use vector_client::{AttributeSet, Attributes, Done, Error, Kind, Owner, Step};

use self::format::Format;
use super::people::People;
use super::quote::quoted;
use super::removing::by_client;
use super::session::{self, Common, words};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};

/// What there is to say without a format.
const USUAL: &str = "  File: %N\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\nDevice: %Hd,%Ld\tInode: %-11i Links: %h\nAccess: (%04a/%10.10A)  Uid: (%5u/%8U)   Gid: (%5g/%8G)\nAccess: %x\nModify: %y\nChange: %z\n Birth: %w\n";
const DEVICE: &str = "  File: %N\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\nDevice: %Hd,%Ld\tInode: %-11i Links: %-5h Device type: %Hr,%Lr\nAccess: (%04a/%10.10A)  Uid: (%5u/%8U)   Gid: (%5g/%8G)\nAccess: %x\nModify: %y\nChange: %z\n Birth: %w\n";

/// Show the attributes of files
#[derive(Args)]
#[command(disable_help_flag = true, after_help = "Example: kurma stat nfs://127.0.0.1/home")]
pub struct Stat {
    /// What symbolic links lead to
    #[arg(short = 'L', long)]
    dereference: bool,
    /// A line of %n (name), %s (size), %a (permissions), %y (modified) and so on
    #[arg(short = 'c', long, value_name = "FORMAT", conflicts_with = "printf")]
    format: Option<String>,
    /// As --format, without a line end, and with \n and \t for those characters
    #[arg(long, value_name = "FORMAT")]
    printf: Option<String>,
    #[command(flatten)]
    common: Common,
    /// Files and directories: nfs://HOST[:PORT]/PATH or local
    #[arg(value_name = "FILE", required = true)]
    files: Vec<OsString>,
}

impl Stat {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let people = People::known();
        let own = match (&self.format, &self.printf) {
            (Some(format), _) => Some(format!("{format}\n")),
            (None, Some(format)) => Some(format::unescaped(format)),
            (None, None) => None,
        };
        let format = |text: &str| {
            Format::parse(text)
                .map_err(|wrong| Failure::usage(format_args!("stat: '{wrong}': invalid directive")))
        };
        let (usual, device) = match &own {
            Some(own) => (format(own)?, format(own)?),
            None => (format(USUAL)?, format(DEVICE)?),
        };
        session::run("stat", &self.common, async |session| {
            let places = session.places(&self.files).await?;
            let mut objects = Vec::new();
            for (client, places) in by_client(&places) {
                let targets: Vec<_> = places.iter().map(|place| place.target.clone()).collect();
                let found = client.attributes_of_each(targets, AttributeSet::STAT, self.dereference).await;
                let found = found.map_err(Failure::failed)?;
                let is_link = |found: &Result<Attributes, Error>| {
                    found.as_ref().is_ok_and(|it| it.is(Kind::SymbolicLink))
                };
                let links = places.iter().zip(&found).filter(|(_, found)| is_link(found));
                let steps = links.map(|(place, _)| Step::ReadLink(place.target.clone())).collect();
                let mut links = client.execute_each(steps).await.map_err(Failure::failed)?.into_iter();
                for (place, found) in places.iter().zip(found) {
                    let link = match is_link(&found).then(|| links.next()).flatten() {
                        Some(Ok(Done::Link(text))) => Some(text.to_vec()),
                        _ => None,
                    };
                    match found {
                        Ok(it) if context.json => {
                            let mut object = object(&it);
                            object["name"] = String::from_utf8_lossy(&place.shown).into();
                            if let Some(link) = link {
                                object["link"] = String::from_utf8_lossy(&link).into();
                            }
                            objects.push(object);
                        }
                        Ok(it) => {
                            let is_device =
                                matches!(it.kind, Some(Kind::BlockDevice | Kind::CharacterDevice));
                            let format = if is_device { &device } else { &usual };
                            session.print(format.of(
                                &place.shown,
                                link.as_deref(),
                                &it,
                                &people,
                                own.is_some(),
                            ));
                        }
                        Err(error) => {
                            let shown = quoted(&place.shown);
                            session.complain(format_args!("cannot statx {shown}: {}", words(&error)));
                        }
                    }
                }
            }
            if context.json {
                session.say(format_args!("{:#}", Value::from(objects)));
            }
            Ok(())
        })
    }
}

/// The kind in words.
pub fn kind_text(it: &Attributes) -> &'static str {
    match it.kind {
        Some(Kind::File) if it.size == Some(0) => "regular empty file",
        Some(Kind::File) => "regular file",
        Some(Kind::Directory) => "directory",
        Some(Kind::SymbolicLink) => "symbolic link",
        Some(Kind::BlockDevice) => "block special file",
        Some(Kind::CharacterDevice) => "character special file",
        Some(Kind::Fifo) => "fifo",
        Some(Kind::Socket) => "socket",
        None => "weird file",
    }
}

/// Attributes as JSON; times in seconds.
pub fn object(it: &Attributes) -> Value {
    let owner = |owner: &Option<Owner>| match owner {
        Some(Owner::Id(id)) => json!(id),
        Some(Owner::Name(name)) => json!(name),
        None => Value::Null,
    };
    let time = |time: Option<vector_client::Time>| {
        time.map_or(Value::Null, |time| json!(time.seconds as f64 + f64::from(time.nanoseconds) / 1e9))
    };
    let mut object = json!({
        "kind": it.kind.map(|_| kind_text(it)),
        "mode": it.mode.map(|mode| format!("{mode:04o}")),
        "owner": owner(&it.owner),
        "group": owner(&it.group),
        "size": it.size,
        "space_used": it.space_used,
        "links": it.links,
        "file_id": it.file_id,
        "accessed": time(it.accessed),
        "modified": time(it.modified),
        "changed": time(it.changed),
    });
    if let Some(object) = object.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    object
}
