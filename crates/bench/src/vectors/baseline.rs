//! Workloads by programs that use one file after the other, through the client of the Linux kernel.

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::future::try_join_all;

use super::page;
use super::place::Place;
use super::workload::Workload;
use crate::kernel::Kernel;
use crate::personality::Personality;

pub async fn run(kernel: &Kernel, workload: Workload, place: &Place<'_>) -> Result<()> {
    match workload {
        Workload::Write { files, size } => {
            let data = Bytes::from(vec![place.fill(); size]);
            for n in 0..files {
                kernel.write(&place.file(size, n), &data).await?;
            }
        }
        Workload::Read { files, size } => {
            for n in 0..files {
                let bytes = kernel.read(&place.file(size, n)).await?;
                ensure!(bytes == size as u64, "a file is too short");
            }
        }
        Workload::ReadAgain { size, times } => {
            for _ in 0..times {
                ensure!(kernel.read(&place.again(size)).await? == size as u64, "the file is too short");
            }
        }
        Workload::Stat { files } => {
            for n in 0..files {
                kernel.stat(&place.file(1 << 10, n)).await?;
            }
        }
        Workload::List => {
            let names = kernel.list_tree(&place.original()).await?;
            ensure!(names == place.tree.objects().count() as u64, "{names} names are listed");
        }
        Workload::Copy | Workload::Link => {
            let links = workload == Workload::Link;
            kernel.copy_tree(&place.original(), &place.made(workload), links).await?;
        }
        Workload::Remove => kernel.remove_tree(&place.made(workload)).await?,
        Workload::Pack => kernel.pack(&place.original(), &place.packed).await?,
        Workload::Unpack { touch } => kernel.unpack(place.tree, &place.made(workload), touch).await?,
        Workload::Page => {
            let folder = place.page();
            let index = kernel.whole(&format!("{folder}/index.html")).await?;
            let mut bytes = index.len() as u64;
            for name in page::references(&index) {
                bytes += kernel.read(&format!("{folder}/{name}")).await?;
            }
            ensure!(bytes == page::bytes(), "{bytes} bytes of the page");
        }
        Workload::Load(personality) => {
            let folder = place.load(personality);
            let threads = (0..personality.threads).map(|thread| load(kernel, personality, thread, &folder));
            try_join_all(threads).await?;
        }
    }
    Ok(())
}

async fn load(kernel: &Kernel, personality: Personality, thread: usize, folder: &str) -> Result<()> {
    let data = Bytes::from(vec![b'n'; personality.largest()]);
    for act in personality.rounds(thread).into_iter().flatten() {
        kernel.act(&act, &format!("{folder}/{}", act.name()), &data).await?;
    }
    Ok(())
}
