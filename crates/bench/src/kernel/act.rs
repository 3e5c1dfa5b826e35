//! One act of a personality.

use anyhow::{Result, ensure};
use bytes::Bytes;

use super::Kernel;
use crate::personality::Act;

impl Kernel {
    /// Does `act` with the file at `path`; what it writes comes from `data`.
    pub async fn act(&self, act: &Act, path: &str, data: &Bytes) -> Result<()> {
        match act {
            Act::Create { size, .. } => self.write(path, &data.slice(..*size)).await,
            Act::Append { size, .. } => self.append(path, &data.slice(..*size)).await,
            Act::Delete { .. } => self.remove(path).await,
            Act::Read { .. } => {
                ensure!(self.read(path).await? > 0, "an empty file");
                Ok(())
            }
            Act::Stat { .. } => self.stat(path).await,
        }
    }
}
