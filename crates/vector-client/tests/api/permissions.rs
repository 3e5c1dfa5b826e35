//! What an ordinary user may and may not do.

use onc_rpc::{AuthSys, Credential};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use tokio::runtime::{Builder, Runtime};
use vector_client::{
    AttributeSet, Client, NewAttributes, Open, Options, Owner, Read, SetTime, Step, Target, Time, Write,
};

use crate::world::World;

const USER: u32 = 1000;

/// Its threads are that user; on Linux each thread is somebody.
fn runtime_of_user() -> Runtime {
    let become_user = || {
        let (user, group) = (Uid::from_raw(USER), Gid::from_raw(USER));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(group, group, group).unwrap();
        set_thread_res_uid(user, user, user).unwrap();
    };
    Builder::new_multi_thread().worker_threads(1).enable_all().on_thread_start(become_user).build().unwrap()
}

async fn as_user(world: &World) -> Client {
    match (world.address(), world.directory()) {
        (Some(address), _) => {
            let mut options = Options::default();
            options.nfs.credential = Credential::Sys(AuthSys::new(USER, USER));
            Client::connect(address, options).await.unwrap()
        }
        (None, directory) => Client::local(directory.unwrap()).unwrap(),
    }
}

async fn prepare(root: &Client) {
    let directories = [("/home/open", 0o1777), ("/home/others", 0o755), ("/home/closed", 0o700)];
    root.vmkdir(directories.map(|(path, mode)| (Target::from(path), mode)).into()).await.unwrap();
    let files = [
        ("/home/others/secret", 0o600),
        ("/home/others/known", 0o644),
        ("/home/open/other", 0o644),
        ("/home/closed/file", 0o666),
    ];
    root.vwrite(files.map(|(path, mode)| Write::whole(path, mode, "text")).into()).await.unwrap();
}

fn set(path: &str, attributes: NewAttributes) -> Step {
    Step::SetAttributes { target: path.into(), attributes, follow: true }
}

/// Steps, and the `errno` of each that is refused.
fn attempts() -> Vec<(Step, Option<i32>)> {
    const EPERM: Option<i32> = Some(1);
    const EACCES: Option<i32> = Some(13);
    let time = SetTime::To(Time { seconds: 7, nanoseconds: 0 });
    let owner = |id| NewAttributes { owner: Some(Owner::Id(id)), ..NewAttributes::default() };
    let modified = |modified| NewAttributes { modified: Some(modified), ..NewAttributes::default() };
    let now = SetTime::Now;
    let now = NewAttributes { accessed: Some(now), modified: Some(now), ..NewAttributes::default() };
    vec![
        (Step::Write(Write::whole("/home/open/own", 0o400, "own")), None),
        (Step::Read(Read::new("/home/open/own", 0, 9)), None),
        (Step::Write(Write::new("/home/open/own", 0, "x")), EACCES),
        (set("/home/open/own", NewAttributes::mode(0o640)), None),
        (set("/home/open/own", modified(time)), None),
        (set("/home/open/own", owner(0)), EPERM),
        (Step::Read(Read::new("/home/others/known", 0, 9)), None),
        (Step::Read(Read::new("/home/others/secret", 0, 9)), EACCES),
        (Step::Write(Write::new("/home/others/known", 0, "x")), EACCES),
        (Step::Write(Write::whole("/home/others/new", 0o600, "x")), EACCES),
        (Step::MakeDirectory { target: "/home/others/new".into(), mode: 0o755 }, EACCES),
        (Step::Remove("/home/others/known".into()), EACCES),
        (Step::Remove("/home/open/other".into()), EPERM),
        (Step::Rename { from: "/home/open/own".into(), to: "/home/others/own".into() }, EACCES),
        (set("/home/others/known", NewAttributes::mode(0o666)), EPERM),
        (set("/home/others/known", NewAttributes::size(0)), EACCES),
        (set("/home/others/known", modified(time)), EPERM),
        (set("/home/others/known", now), EACCES),
        (Step::Read(Read::new("/home/closed/file", 0, 9)), EACCES),
        (Step::Remove("/home/open/own".into()), None),
    ]
}

#[test]
fn what_is_forbidden_is_refused_for_the_same_reason_everywhere() {
    if !rustix::process::getuid().is_root() {
        // Nobody else can make what is not his.
        return;
    }
    let (root, user) = (Runtime::new().unwrap(), runtime_of_user());
    for world in root.block_on(World::of_ours()) {
        root.block_on(prepare(&world.client));
        user.block_on(async {
            let client = as_user(&world).await;
            for (step, expected) in attempts() {
                let result = client.execute(vec![step.clone()]).await;
                let errno = result.err().map(|failure| failure.error.errno());
                assert_eq!(errno, expected, "{step:?}");
            }
            // One open is enough for both if there is the right to both.
            let known = "/home/others/known";
            let steps = vec![
                Step::Read(Read::new(known, 0, 9)),
                Step::Read(Read::new(known, 1, 9)),
                Step::Write(Write::new(known, 0, "x")),
            ];
            let failure = client.execute(steps).await.unwrap_err();
            assert_eq!((failure.index(), failure.error.errno()), (2, 13), "{failure}");
            let listed = client.list("/home/closed", AttributeSet::KIND).await;
            assert_eq!(listed.unwrap_err().errno(), 13);
            client.vwrite(vec![Write::whole("/home/mine", 0o600, "x")]).await.unwrap();
            let mine = client.stat("/home/mine").await.unwrap();
            assert_eq!((mine.owner, mine.mode), (Some(Owner::Id(USER)), Some(0o600)));
            // Nothing of what is refused is done, and all of what is allowed.
            let opened = client.vopen(vec![Open::write("/home/mine")]).await.unwrap()[0];
            for target in [Target::from("/home/mine"), opened.into()] {
                let given = NewAttributes { owner: Some(Owner::Id(0)), ..NewAttributes::size(0) };
                let failure = client.vsetattrs(vec![(target.clone(), given)]).await.unwrap_err();
                assert_eq!(failure.error.errno(), 1, "{failure}");
                assert_eq!(client.stat("/home/mine").await.unwrap().size, Some(1));
                let longer = NewAttributes { mode: Some(0o4700), ..NewAttributes::size(1) };
                client.vsetattrs(vec![(target, longer)]).await.unwrap();
                assert_eq!(client.stat("/home/mine").await.unwrap().mode, Some(0o4700));
            }
        });
    }
}
