//! Users without privileges, who mount by way of `fusermount3`.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Output};

use crate::support::KURMA;
use crate::world::World;

/// Device and configuration of FUSE are in here what they are on a usual machine, whatever they are outside. Status 77: this machine cannot do
/// that, or nobody may not run the command.
const SCRIPT: &str = r#"
set -u
folder=$1 kurma=$2 url=$3
cd "$folder"
: >fuse.conf
mknod fuse c 10 229 && chmod 666 fuse && mount --bind fuse /dev/fuse && mount --bind fuse.conf /etc/fuse.conf || exit 77
nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
nobody sh -c ': <>/dev/fuse' && nobody "$kurma" --version >/dev/null || exit 77
trap 'nobody fusermount3 -qu mine' EXIT
nobody "$kurma" mount "$url" mine || exit 1
echo "mounted: $(grep -c "$folder/mine fuse.kurma rw,nosuid,nodev.*user_id=65534" /proc/mounts)"
echo "root: $(ls mine 2>&1 | grep -c 'Permission denied')"
nobody sh -c 'echo mine >mine/open/file && cat mine/open/file mine/theirs && stat -c "%u %g %a" mine/open/file'
nobody sh -c 'echo no >>mine/theirs' 2>/dev/null || echo refused
nobody fusermount3 -u mine || exit 1
nobody "$kurma" mount -o allow_other "$url" mine 2>&1 | grep -o "only allowed if 'user_allow_other' is set in /etc/fuse.conf"
nobody ls mine
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_mounts_what_only_he_may_see() {
    let world = World::new();
    let folder = world.folder.path();
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(folder.join("theirs"), "theirs\n").unwrap();
    let url = world.url("/home");
    let kurma = |words: &[&str]| {
        let output = Command::new(&*KURMA).current_dir(folder).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    };
    kurma(&["cp", "theirs", &url]);
    kurma(&["mkdir", "-m", "777", &format!("{url}/open")]);
    std::fs::create_dir(folder.join("mine")).unwrap();
    if chown(folder.join("mine"), Some(65534), Some(65534)).is_err() {
        println!("skipped: this user cannot run the command as nobody");
        return;
    }
    let may_mount = Command::new("unshare").args(["-m", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        println!("skipped: this user has no mounts of his own");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "bash", "-c", SCRIPT, "bash"]).arg(folder).arg(&*KURMA).arg(&url);
    let Output { status, stdout, stderr } = tokio::task::block_in_place(|| command.output()).unwrap();
    let (said, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    if status.code() == Some(77) {
        println!("skipped: nobody may not use the device or the command: {errors}");
        return;
    }
    let expected = "mounted: 1\nroot: 1\nmine\ntheirs\n65534 65534 644\nrefused\nonly allowed if 'user_allow_other' is set in /etc/fuse.conf\n";
    assert_eq!(said, expected, "{status}: {errors}");
}
