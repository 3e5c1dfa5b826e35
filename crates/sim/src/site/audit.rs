//! What must hold when nothing is on its way any more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use blocks::CloudId;
use cache::Scope;
use file_system::FileSystem;
use upkeep::{GarbageRow, RepairRow};
use volume::{Volume, VolumeError};

use super::Site;
use super::drains::{Place, Places};
use super::machine::Machine;
use crate::world::cloud::Store;

/// Where fragments are, or should be: numbers of clouds, and names.
type Objects = BTreeSet<(u16, String)>;

/// Rounds of upkeep in which all must have come to rest.
const ROUNDS: usize = 20;

/// Lets upkeep do all that is left to be done; clouds are expected to be well.
pub async fn come_to_rest(site: &Site, machine: &Machine) -> Result<(), String> {
    let volume = &machine.volume;
    volume.end_of_claims();
    let pause = Duration::from_secs(site.setup.gc_delay + 60);
    let fail = |what: &'static str| move |error: &dyn std::fmt::Display| format!("{what}: {error}");
    for _ in 0..ROUNDS {
        let flushed = machine.upkeep.flush(pause).await.map_err(|error| fail("flush")(&error))?;
        if site.setup.loses {
            machine.upkeep.scrubber.once(100, 0).await.map_err(|error| fail("scrub")(&error))?;
        }
        machine.upkeep.repairer.retry_now();
        let _left = machine.upkeep.repairer.once().await.map_err(|error| fail("repair")(&error))?;
        machine.env.clock.sleep(pause).await;
        let is_backed_up = match &machine.backups {
            Some(backups) => {
                if site.setup.loses {
                    backups.verify().await;
                }
                backups.make().await.map_err(|error| fail("backup")(&error))? && backups.is_swept().await
            }
            None => true,
        };
        let _ = machine.upkeep.garbage.once().await.map_err(|error| fail("garbage")(&error))?;
        let cleaned = machine.upkeep.cleaner.once().await.map_err(|error| fail("cleaning")(&error))?;
        let is_moving = machine.drains.places().moving().is_some();
        let is_dirty = flushed.left_dirty_bytes > 0 || machine.cache.dirty_bytes(Scope::All) > 0;
        if !is_dirty && !is_moving && is_backed_up && cleaned.made == 0 && is_at_rest(volume).await? {
            return Ok(());
        }
    }
    let dirty = machine.cache.dirty_bytes(Scope::All);
    let rest = what_is_left(volume).await?;
    Err(format!("upkeep does not come to rest: {dirty} bytes are dirty, {rest}"))
}

async fn is_at_rest(volume: &Volume) -> Result<bool, String> {
    Ok(what_is_left(volume).await?.is_empty())
}

async fn what_is_left(volume: &Volume) -> Result<String, String> {
    let error = |error: VolumeError| error.to_string();
    let moving = volume.migrating().await.map_err(error)?;
    let counts = [
        ("rows of garbage", volume.all_garbage(None, 99).await.map_err(error)?.len()),
        ("attempts", volume.unsettled(None, 99).await.map_err(error)?.len()),
        ("packs not settled", volume.unsettled_packs(None, 99).await.map_err(error)?.len()),
        ("repairs", volume.repair_count(99).await.map_err(error)?),
        ("files to be moved", (moving.files + moving.directories) as usize),
        ("epochs of keys to be left", volume.key_progress().old_epochs),
    ];
    let left = counts.iter().filter(|(_, count)| *count > 0);
    Ok(left.map(|(what, count)| format!("{count} {what} ")).collect())
}

/// Tells the owners of clouds which objects are versions of the same block: whoever trusts none of them must assume that they know.
pub async fn tell_owners(clouds: &[Arc<Store>], places: &Places, volume: &Volume) -> Result<(), VolumeError> {
    let mut after = None;
    loop {
        let page = volume.named_blocks(after, 99).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.identity);
        for version in &page {
            let kin = (version.identity.object.number.0, version.identity.block.0);
            for (number, name) in version.fragments() {
                let Place { from, to } = places.of(number);
                from.into_iter().chain([to]).for_each(|cloud| clouds[usize::from(cloud)].tell(&name, kin));
            }
        }
    }
}

/// The clouds hold exactly what the metadata refer to, but for what waits to be repaired or removed.
pub async fn check_clouds(site: &Site, machine: &Machine) -> Result<(), String> {
    let volume = &machine.volume;
    let error = |error: VolumeError| error.to_string();
    let places = machine.drains.places();
    let at = |(number, name): (CloudId, String)| (places.of(number).to, name);
    let mut current = Objects::new();
    let mut after = None;
    loop {
        let page = volume.named_blocks(after, 99).await.map_err(error)?;
        let Some(last) = page.last() else { break };
        after = Some(last.identity);
        current.extend(page.iter().flat_map(|version| version.fragments()).map(at));
    }
    let leaving = volume.all_garbage(None, usize::MAX).await.map_err(error)?;
    let mut unsettled = volume.unsettled(None, usize::MAX).await.map_err(error)?;
    unsettled.extend(volume.unsettled_packs(None, usize::MAX).await.map_err(error)?);
    let versions = leaving.into_iter().chain(unsettled).flat_map(GarbageRow::into_versions);
    let passing: Objects =
        versions.flat_map(|version| version.fragments().map(at).collect::<Vec<_>>()).collect();
    let mut queued = Objects::new();
    for RepairRow { version, fragments, .. } in volume.repairs(None, usize::MAX).await.map_err(error)? {
        let all: Vec<_> = version.iter().flat_map(|version| version.fragments()).map(at).collect();
        queued.extend(fragments.iter().filter_map(|fragment| all.get(usize::from(*fragment)).cloned()));
    }
    // What comes late into a cloud that was emptied is no longer anybody's.
    let in_use = places.in_use();
    let clouds = site.clouds.iter().zip(0..).filter(|(_, number)| in_use.contains(number));
    let there: Objects = clouds
        .flat_map(|(cloud, number)| cloud.names().into_iter().map(move |name| (number, name)))
        .collect();
    let lost: Vec<_> = current.difference(&there).filter(|at| !queued.contains(at)).take(5).collect();
    if !lost.is_empty() {
        return Err(format!("missing in the clouds, and nobody repairs it: {lost:?}"));
    }
    let mut of_backups = site.record.ended();
    if let Some(backups) = &machine.backups {
        let lacking = backups.verify().await;
        if lacking > 0 {
            return Err(format!("{lacking} clouds lack a part of the backup"));
        }
        backups.check_heads().await?;
        of_backups.extend(backups.object_names().await);
    }
    // What was stored after the backup that a site was restored from belongs to nobody.
    let is_of_burnt = |(cloud, name): &(u16, String)| {
        let sender = site.clouds[usize::from(*cloud)].sender(name);
        site.burnt.is_some_and(|burnt| sender.is_some_and(|sender| sender <= burnt))
    };
    let unknown = there.iter().filter(|at| !current.contains(at) && !passing.contains(at));
    let unknown: Vec<_> =
        unknown.filter(|at| !of_backups.contains(&at.1) && !is_of_burnt(at)).take(5).collect();
    if !unknown.is_empty() {
        return Err(format!("in the clouds, and nobody knows of it: {unknown:?}"));
    }
    Ok(())
}

/// The metadata agree with themselves.
pub async fn check_metadata(volume: &Volume) -> Result<(), String> {
    let findings = volume.check().await.map_err(|error| error.to_string())?;
    match findings.is_empty() {
        true => Ok(()),
        false => Err(format!("the metadata contradict themselves: {findings:?}")),
    }
}
