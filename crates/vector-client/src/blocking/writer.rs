use std::io;
use std::sync::Arc;

use super::{Client, Engine};
use crate::{Descriptor, Error};

/// Bytes that are taken at once, as they have to be copied before a call waits for room.
const TAKEN: usize = 4 << 20;

/// As [`crate::Writer`], and as any [`io::Write`].
///
/// [`flush`](io::Write::flush) is [`sync`](Writer::sync). Dropped, it closes the file, and nobody hears of errors.
pub struct Writer {
    writer: Option<crate::Writer>,
    engine: Arc<Engine>,
}

impl Client {
    /// As [`crate::Client::writer`].
    ///
    /// # Errors
    /// In asynchronous code; the file stays open then.
    pub fn writer(&self, descriptor: Descriptor, offset: u64) -> Result<Writer, Error> {
        let writer = self.engine.wait(async { self.client.writer(descriptor, offset) })?;
        Ok(Writer { writer: Some(writer), engine: Arc::clone(&self.engine) })
    }
}

impl Writer {
    /// As [`crate::Writer::position`].
    pub fn position(&self) -> u64 {
        self.writer.as_ref().map_or(0, crate::Writer::position)
    }

    /// As [`crate::Writer::write`]; the data is copied.
    ///
    /// # Errors
    /// Those of the asynchronous call; in asynchronous code, where nothing is taken.
    pub fn write(&mut self, data: &[u8]) -> Result<(), Error> {
        let runtime = self.engine.runtime()?;
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.check(data.len())?;
        for part in data.chunks(TAKEN) {
            if writer.take_slice(part)? {
                runtime.block_on(writer.pass_on())?;
            }
        }
        Ok(())
    }

    /// As [`crate::Writer::sync`].
    ///
    /// # Errors
    /// Those of the asynchronous call.
    pub fn sync(&mut self) -> Result<(), Error> {
        match &mut self.writer {
            Some(writer) => self.engine.wait(writer.sync())?,
            None => Ok(()),
        }
    }

    /// As [`crate::Writer::close`].
    ///
    /// # Errors
    /// Those of the asynchronous call.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.writer.take() {
            Some(writer) => self.engine.wait(writer.close())?,
            None => Ok(()),
        }
    }
}

impl io::Write for Writer {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let data = &data[..data.len().min(TAKEN)];
        Writer::write(self, data).map_err(said)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sync().map_err(said)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // In asynchronous code it goes on by itself.
        let _ = self.end();
    }
}

fn said(error: Error) -> io::Error {
    io::Error::new(io::Error::from_raw_os_error(error.errno()).kind(), error)
}
