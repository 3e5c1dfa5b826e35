//! `cat`: small files by the hundred, large ones with many reads under way.

mod lines;

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use futures::{StreamExt, stream};
use vector_client::{AttributeSet, Data, Done, Error, Kind, Open, Read, Step};

use self::lines::{Lines, Manner};
use super::place::Place;
use super::quote::quoted_if_needed;
use super::session::{self, Common, Session, words};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};

/// Bytes of one read, bytes read at once.
const PART: u64 = 1 << 20;
const AT_ONCE: u64 = 8 << 20;

/// Print files one after the other
#[derive(Args)]
#[command(disable_help_flag = true, after_help = "Example: kurma cat nfs://127.0.0.1/home/notes")]
pub struct Cat {
    #[command(flatten)]
    manner: Manner,
    #[command(flatten)]
    common: Common,
    /// Files: nfs://HOST[:PORT]/PATH, local, or - for standard input
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
}

impl Cat {
    pub fn run(self, _: &Context) -> Result<Outcome, Failure> {
        session::run("cat", &self.common, async |session| {
            let mut lines = Lines::new(self.manner);
            let input = [OsString::from("-")];
            let files = if self.files.is_empty() { &input[..] } else { &self.files[..] };
            let mut waiting: Vec<Place> = Vec::new();
            for file in files {
                let place = if file == "-" { None } else { Some(session.place(file).await?) };
                match place {
                    Some(place) if !place.is_local => {
                        if waiting.last().is_some_and(|last| !last.client.is_same(&place.client)) {
                            remote(session, &mut lines, std::mem::take(&mut waiting)).await?;
                        }
                        waiting.push(place);
                    }
                    _ => {
                        remote(session, &mut lines, std::mem::take(&mut waiting)).await?;
                        local(session, &mut lines, file);
                    }
                }
            }
            remote(session, &mut lines, waiting).await?;
            session.print(lines.end());
            Ok(())
        })
    }
}

/// Files of this machine may be anything: pipes, terminals.
fn local(session: &mut Session, lines: &mut Lines, file: &OsString) {
    let opened: std::io::Result<Box<dyn std::io::Read>> = match file == "-" {
        true => Ok(Box::new(std::io::stdin())),
        false => std::fs::File::open(file).map(|file| Box::new(file) as _),
    };
    let mut buffer = vec![0; 256 << 10];
    let result = opened.and_then(|mut opened| {
        loop {
            match opened.read(&mut buffer)? {
                0 => return Ok(()),
                count => session.print(lines.shown(&buffer[..count])),
            }
        }
    });
    if let Err(error) = result {
        let shown = quoted_if_needed(file.as_bytes());
        let words = session::errno_words(error.raw_os_error().unwrap_or(5));
        session.complain(format_args!("{shown}: {words}"));
    }
}

/// Files of one server.
async fn remote(session: &mut Session, lines: &mut Lines, places: Vec<Place>) -> Result<(), Failure> {
    let Some(client) = places.first().map(|place| place.client.clone()) else { return Ok(()) };
    let targets = places.iter().map(|place| place.target.clone()).collect();
    let wanted = AttributeSet::KIND | AttributeSet::SIZE;
    let found = client.attributes_of_each(targets, wanted, true).await.map_err(Failure::failed)?;
    let mut files = Vec::new();
    for (place, found) in places.iter().zip(found) {
        files.push((
            place,
            match found {
                Ok(it) if it.is(Kind::Directory) => Err(session::errno_words(21)),
                Ok(it) => Ok(it.size.unwrap_or(0)),
                Err(error) => Err(words(&error)),
            },
        ));
    }
    let mut rest = &files[..];
    while let Some((place, size)) = rest.first() {
        match size {
            Err(words) => {
                complain(session, place, words);
                rest = &rest[1..];
            }
            Ok(size) if *size > PART => {
                if let Err(error) = large(session, lines, place, *size).await? {
                    complain(session, place, &words(&error));
                }
                rest = &rest[1..];
            }
            Ok(_) => {
                let mut bytes = 0;
                let fits = |(_, size): &&(&Place, Result<u64, String>)| match size {
                    Ok(size) if *size <= PART => {
                        bytes += size + 1;
                        bytes <= AT_ONCE
                    }
                    _ => false,
                };
                let (batch, after) = rest.split_at(rest.iter().take_while(fits).count().max(1));
                rest = after;
                let read = |(place, _): &(&Place, _)| Step::Read(Read::new(&place.target, 0, PART + 1));
                let read = client.execute_each(batch.iter().map(read).collect()).await;
                for ((place, _), read) in batch.iter().zip(read.map_err(Failure::failed)?) {
                    match read {
                        Ok(Done::Read(data)) => print(session, lines, &data),
                        Ok(_) => {}
                        Err(error) => complain(session, place, &words(&error)),
                    }
                }
            }
        }
    }
    Ok(())
}

fn complain(session: &mut Session, place: &Place, words: &str) {
    let shown = quoted_if_needed(&place.shown);
    session.complain(format_args!("{shown}: {words}"));
}

async fn large(
    session: &mut Session,
    lines: &mut Lines,
    place: &Place,
    size: u64,
) -> Result<Result<(), Error>, Failure> {
    let client = &place.client;
    let file = match client.open(Open::read(&place.target)).await {
        Ok(file) => file,
        Err(error @ Error::Connection(_)) => return Err(Failure::failed(error)),
        Err(error) => return Ok(Err(error)),
    };
    let mut result = Ok(());
    let (mut next, mut end) = (0, size);
    'file: while next < end {
        let parts = (next..end).step_by(PART as usize).map(|start| client.pread(file, start, PART));
        let mut parts = stream::iter(parts).buffered((AT_ONCE / PART) as usize);
        while let Some(part) = parts.next().await {
            match part {
                Ok(data) => {
                    next += data.len();
                    print(session, lines, &data);
                    if data.end_of_file || data.is_empty() {
                        break 'file;
                    }
                }
                Err(error) => {
                    result = Err(error);
                    break 'file;
                }
            }
        }
        // It grew meanwhile.
        end = next + PART;
    }
    let closed = client.close_file(file).await;
    Ok(result.and(closed))
}

fn print(session: &mut Session, lines: &mut Lines, data: &Data) {
    session.bytes += data.len();
    data.pieces.iter().for_each(|piece| session.print(lines.shown(piece)));
}
