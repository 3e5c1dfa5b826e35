//! Sealing and dispersal on one core, against memcpy and the bare library: no gateway, no network, no disk. What counts is the time
//! that the thread had the processor, so that others who want it do little harm, and the best of several measurements.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;
use disperse::{Fragment, Scheme, SplitKeys, VerifiedFragment, join, reed_solomon, split};
use environment::{Entropy, SystemEntropy};
use ids::{BlockIndex, GatewayId, ObjectId, ObjectNumber, Timestamp, Version, VolumeId};
use seal::{BlockIdentity, FileKey, KeyEpoch, SealOptions, SealedBlock, open, seal, seal_convergent};

/// What to measure.
#[derive(clap::Args)]
pub struct Coding {
    /// Block sizes in KiB
    #[arg(long, value_delimiter = ',', default_value = "64,256,1024,4096,16384")]
    sizes: Vec<usize>,
    /// Policies
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "replicas:3,rs:2+1,rs:3+1,rs:4+2,rs:6+3,aont-rs:3+1,caont-rs:3+1"
    )]
    policies: Vec<Scheme>,
    /// Milliseconds of each of the measurements of which the best counts
    #[arg(long, default_value = "12")]
    milliseconds: u64,
    /// How many such measurements
    #[arg(long, default_value = "9")]
    repeat: usize,
}

/// Rates of one row, in GB/s of plaintext, by block size.
struct Row {
    name: String,
    rates: Vec<f64>,
}

/// Measures one thing after the other.
struct Meter {
    length: usize,
    time: Duration,
    repeat: usize,
    rows: Vec<Row>,
    next: usize,
}

impl Meter {
    /// Runs `work`, which handles one block, for long enough to know its rate.
    fn measure<T>(&mut self, name: impl Into<String>, mut work: impl FnMut() -> T) {
        // To look at the clock costs as much as to seal 16 KiB.
        let batch = ((4 << 20) / self.length as u32).max(1);
        let mut rates = Vec::with_capacity(self.repeat);
        for _ in 0..=self.repeat {
            let (mut blocks, start, mut end) = (0_u32, processor_time(), Duration::ZERO);
            while end < start + self.time {
                for _ in 0..batch {
                    black_box(work());
                }
                blocks += batch;
                end = processor_time();
            }
            rates.push(f64::from(blocks) * self.length as f64 / (end - start).as_secs_f64() / 1e9);
        }
        // The first one warms up.
        rates.remove(0);
        rates.sort_by(f64::total_cmp);
        let rate = rates[rates.len() - 1];
        match self.rows.get_mut(self.next) {
            Some(row) => row.rates.push(rate),
            None => self.rows.push(Row { name: name.into(), rates: vec![rate] }),
        }
        self.next += 1;
    }
}

/// What this thread has used.
pub fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

pub fn run(arguments: &Coding) -> Result<()> {
    let (time, repeat) = (Duration::from_millis(arguments.milliseconds), arguments.repeat.max(1));
    let mut meter = Meter { length: 0, time, repeat, rows: Vec::new(), next: 0 };
    for size in &arguments.sizes {
        (meter.length, meter.next) = (size << 10, 0);
        sealing(&mut meter)?;
        for scheme in &arguments.policies {
            dispersal(&mut meter, *scheme)?;
        }
    }
    let mut text = String::from("| GB/s of plaintext, one core |");
    arguments.sizes.iter().try_for_each(|size| write!(text, " {size} KiB |"))?;
    text.push_str("\n|---|");
    arguments.sizes.iter().for_each(|_| text.push_str("---:|"));
    for Row { name, rates } in &meter.rows {
        write!(text, "\n| {name} |")?;
        rates.iter().try_for_each(|rate| write!(text, " {rate:.1} |"))?;
    }
    println!("{text}");
    Ok(())
}

fn content(length: usize) -> Bytes {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

fn identity() -> BlockIdentity {
    BlockIdentity {
        volume: VolumeId(1),
        object: ObjectId { creator: GatewayId(1), number: ObjectNumber(2) },
        block: BlockIndex(3),
        version: Version(4),
        creator: GatewayId(1),
        epoch: KeyEpoch(1),
    }
}

fn sealing(meter: &mut Meter) -> Result<()> {
    let (entropy, plaintext) = (SystemEntropy::new(), content(meter.length));
    let mut buffer = vec![0; meter.length];
    meter.measure("memcpy", || buffer.copy_from_slice(black_box(&plaintext)));
    meter.measure("memcpy into new memory", || plaintext.to_vec());
    let bare = UnboundKey::new(&AES_256_GCM, &[7; 32]).ok().context("a key")?;
    let bare = LessSafeKey::new(bare);
    let nonce = || Nonce::assume_unique_for_key([0; 12]);
    meter.measure("bare AES-256-GCM, in place", || {
        bare.seal_in_place_separate_tag(nonce(), Aad::empty(), &mut buffer).is_ok()
    });
    // What an AEAD with safe random nonces has to do at least (decision D4): one key may not see so many of twelve bytes.
    meter.measure("bare AES-256-GCM, a key and a random nonce for each block, in place", || {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).ok()?);
        let mut nonce = [0; 12];
        entropy.fill(&mut nonce);
        key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut buffer).ok()
    });
    meter.measure("bare AES-256-GCM, into new memory", || {
        let mut sealed = Vec::with_capacity(plaintext.len() + 16);
        sealed.extend_from_slice(&plaintext);
        bare.seal_in_place_append_tag(nonce(), Aad::empty(), &mut sealed).map(|()| sealed).ok()
    });
    meter.measure("bare AES-256-GCM, out of place into new memory", || {
        let (mut sealed, mut tag) = (vec![0; plaintext.len()], [0; 16]);
        let done =
            bare.seal_out_of_place_scatter(nonce(), Aad::empty(), &plaintext, &mut sealed, &[], &mut tag);
        done.map(|()| (sealed, tag)).ok()
    });
    let (key, options) = (FileKey::generate(&entropy), SealOptions::at(Timestamp::default()));
    meter.measure("seal", || seal(&key, &identity(), &[&plaintext], &options, &entropy));
    meter.measure("seal, convergent", || seal_convergent(key.content_key(), &[&plaintext], options.padding));
    let sealed = seal(&key, &identity(), &[&plaintext], &options, &entropy);
    // A second reference: what is opened in place could be opened once.
    meter.measure("open", || {
        open(&key, &identity(), SealedBlock::from_untrusted(sealed.as_bytes().clone())).is_ok()
    });
    Ok(())
}

fn dispersal(meter: &mut Meter, scheme: Scheme) -> Result<()> {
    let (entropy, block) = (SystemEntropy::new(), content(meter.length));
    let (data, spare) = (scheme.needed(), scheme.spare());
    if scheme.to_string().starts_with("rs:") {
        let coded = reed_solomon::encode(data, spare, &block);
        meter.measure(format!("{scheme}: code alone"), || reed_solomon::encode(data, spare, &block));
        let shards: Vec<_> = coded.iter().cloned().enumerate().skip(spare.min(1)).take(data).collect();
        meter.measure(format!("{scheme}: decode alone, one fragment lost"), || {
            reed_solomon::decode(data, &shards, block.len())
        });
    }
    let keys = SplitKeys { checksum: &[1; 32], convergence: &[2; 32] };
    let context = identity().to_bytes();
    meter.measure(format!("{scheme}: split"), || split(scheme, &block, keys, &context, &entropy));
    let stored: Vec<Bytes> =
        split(scheme, &block, keys, &context, &entropy).iter().map(Fragment::to_bytes).collect();
    let fetch = |from: usize| {
        let fragments = stored.iter().enumerate().skip(from).take(data);
        let verify = |(index, bytes): (usize, &Bytes)| {
            Fragment::from_bytes(bytes.clone())?.verify(keys.checksum, scheme, index as u8, &context)
        };
        fragments.map(verify).collect::<Result<Vec<VerifiedFragment>, _>>()
    };
    meter.measure(format!("{scheme}: verify and join"), || fetch(0).map(join).is_ok());
    if spare > 0 && data > 1 {
        meter.measure(format!("{scheme}: verify and join, one fragment lost"), || fetch(1).map(join).is_ok());
    }
    Ok(())
}
