//! The bytes of an archive, compressed or not.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzReader, XzWriter};

/// Most memory that an xz archive may ask for, in KiB: more than any preset does.
const XZ_MEMORY: u32 = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
}

impl Compression {
    /// What the name of an archive says.
    pub fn of_name(name: &Path) -> Compression {
        match name.extension().and_then(OsStr::to_str) {
            Some("gz" | "tgz") => Compression::Gzip,
            Some("xz" | "txz") => Compression::Xz,
            Some("zst" | "tzst") => Compression::Zstd,
            _ => Compression::None,
        }
    }

    fn of_content(start: &[u8]) -> Compression {
        match start {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

type Sink = BufWriter<Box<dyn Write + Send>>;

/// An archive being written.
pub enum Output {
    Plain(Sink),
    Gzip(GzEncoder<Sink>),
    Xz(Box<XzWriter<Sink>>),
    Zstd(zstd::Encoder<'static, Sink>),
}

impl Output {
    /// `-` is standard output.
    pub fn create(file: &OsStr, compression: Compression) -> io::Result<Output> {
        let sink: Box<dyn Write + Send> = match file == "-" {
            true => Box::new(io::stdout()),
            false => Box::new(File::create(file)?),
        };
        let sink = BufWriter::with_capacity(256 << 10, sink);
        Ok(match compression {
            Compression::None => Output::Plain(sink),
            Compression::Gzip => Output::Gzip(GzEncoder::new(sink, flate2::Compression::default())),
            Compression::Xz => Output::Xz(Box::new(XzWriter::new(sink, XzOptions::with_preset(6))?)),
            Compression::Zstd => Output::Zstd(zstd::Encoder::new(sink, zstd::DEFAULT_COMPRESSION_LEVEL)?),
        })
    }

    pub fn finish(self) -> io::Result<()> {
        match self {
            Output::Plain(sink) => Ok(sink),
            Output::Gzip(encoder) => encoder.finish(),
            Output::Xz(encoder) => encoder.finish(),
            Output::Zstd(encoder) => encoder.finish(),
        }?
        .flush()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Plain(sink) => sink.write(bytes),
            Output::Gzip(encoder) => encoder.write(bytes),
            Output::Xz(encoder) => encoder.write(bytes),
            Output::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Plain(sink) => sink.flush(),
            Output::Gzip(encoder) => encoder.flush(),
            Output::Xz(encoder) => encoder.flush(),
            Output::Zstd(encoder) => encoder.flush(),
        }
    }
}

/// How long an archive is, if it is a file.
pub fn length(file: &OsStr) -> Option<u64> {
    let it = std::fs::metadata(file).ok().filter(|it| file != "-" && it.is_file())?;
    Some(it.len())
}

/// Counts what is read.
struct Counted<R> {
    source: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The bytes of an archive, uncompressed; `-` is standard input. Counts the bytes that were read as they are in the file.
pub fn open(file: &OsStr, count: Arc<AtomicU64>) -> io::Result<Box<dyn Read + Send>> {
    let source: Box<dyn Read + Send> = match file == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(file)?),
    };
    let mut source = Counted { source, count };
    let mut start = Vec::new();
    (&mut source).take(6).read_to_end(&mut start)?;
    let compression = Compression::of_content(&start);
    let source = BufReader::with_capacity(256 << 10, Cursor::new(start).chain(source));
    Ok(match compression {
        Compression::None => Box::new(source),
        Compression::Gzip => Box::new(MultiGzDecoder::new(source)),
        Compression::Xz => Box::new(XzReader::new_mem_limit(source, true, XZ_MEMORY)),
        Compression::Zstd => Box::new(zstd::Decoder::with_buffer(source)?),
    })
}
