//! SETATTR of all that can be set, and OPEN that sets some of it in a new file.

use nfs4::attribute::acl::{ALLOWED, AUDIT, DENIED, flag, mask};
use nfs4::{
    Ace, Acl41, AttributeValues, CreateHow, ModeMasked, NfsArgOp, NfsStatus, NfsTime, OpenHow, SetTime,
    StableHow, StateId, Verifier,
};
use nfs4_client::OpenFile;
use nfs4_client::operations as op;

use super::{Kind, Scene, data};

fn at(seconds: i64, nanoseconds: u32) -> NfsTime {
    NfsTime { seconds, nanoseconds }
}

fn no_time() -> NfsTime {
    at(1, 1_000_000_000)
}

fn entry(ace_type: u32, who: &str, flags: u32, access_mask: u32) -> Ace {
    Ace { ace_type, flags, access_mask, who: who.into() }
}

fn guarded(attributes: &AttributeValues) -> OpenHow {
    OpenHow::Create(CreateHow::Guarded(attributes.to_fattr()))
}

fn exclusive(verifier: u8, attributes: &AttributeValues) -> OpenHow {
    let (verifier, attributes) = (Verifier([verifier; 8]), attributes.to_fattr());
    OpenHow::Create(CreateHow::Exclusive41 { verifier, attributes })
}

impl Scene {
    /// A file that must not be there yet, in every way there is.
    pub(super) fn creations(&self) -> [Kind; 2] {
        let none = AttributeValues::default;
        let owned =
            AttributeValues { owner: Some("1001".into()), owner_group: Some("1002".into()), ..none() };
        let nobody = AttributeValues { owner: Some("4294967295".into()), ..owned.clone() };
        let sized = AttributeValues { size: Some(77_777), mode: Some(0o604), ..none() };
        [
            Kind {
                name: "open-guarded",
                good: [
                    self.open("n1", guarded(&sized)),
                    self.open("n2", guarded(&owned)),
                    [self.open("n3", op::guarded(0o600)), vec![op::close(StateId::CURRENT)]].concat(),
                ],
                bad: self.open("n4", guarded(&nobody)),
                status: NfsStatus::BadOwner,
            },
            Kind {
                name: "open-exclusive",
                good: [
                    self.open("n1", exclusive(1, &sized)),
                    // Asked for again, as by somebody who has not heard of the first.
                    [
                        self.open("n2", exclusive(2, &owned)),
                        self.open("n2", exclusive(2, &owned)),
                        vec![op::write(StateId::CURRENT, 3, StableHow::Unstable, data(100, 4))],
                    ]
                    .concat(),
                    self.open("n3", OpenHow::Create(CreateHow::Exclusive(Verifier([3; 8])))),
                ],
                bad: self.open("a", exclusive(4, &none())),
                status: NfsStatus::Exist,
            },
        ]
    }

    fn set(&self, file: &OpenFile, values: &AttributeValues) -> Vec<NfsArgOp> {
        self.on(file, op::set_attributes(file.state_id, values))
    }

    /// SETATTR; of access control lists where they are offered.
    pub(super) fn settings(&self) -> Vec<Kind> {
        let mut kinds = vec![self.modes_and_sizes(), self.owners(), self.times()];
        kinds.extend(self.has_acls.then(|| self.lists()));
        kinds
    }

    fn modes_and_sizes(&self) -> Kind {
        let none = AttributeValues::default;
        let setgid = ModeMasked { value: 0o2000, mask: 0o7000 };
        Kind {
            name: "setattr",
            good: [
                [
                    self.set(&self.a, &AttributeValues { mode: Some(0o4711), ..none() }),
                    self.set(&self.a, &AttributeValues { mode_set_masked: Some(setgid), ..none() }),
                ]
                .concat(),
                self.set(&self.b, &AttributeValues { size: Some(12_345), ..none() }),
                self.set(&self.c, &AttributeValues { size: Some(500_000), mode: Some(0o600), ..none() }),
            ],
            bad: self.in_folder(op::set_attributes(
                StateId::ANONYMOUS,
                &AttributeValues { size: Some(1), ..none() },
            )),
            status: NfsStatus::IsDir,
        }
    }

    fn owners(&self) -> Kind {
        let owned = |user: Option<&str>, group: Option<&str>| AttributeValues {
            owner: user.map(Into::into),
            owner_group: group.map(Into::into),
            ..AttributeValues::default()
        };
        Kind {
            name: "setattr-owner",
            good: [
                self.set(&self.a, &owned(Some("1001"), None)),
                self.set(&self.b, &owned(None, Some("1002"))),
                self.set(&self.c, &owned(Some("1003"), Some("1004"))),
            ],
            // The largest number is nobody's.
            bad: self.set(&self.b, &owned(Some("1005"), Some("4294967295"))),
            status: NfsStatus::BadOwner,
        }
    }

    fn times(&self) -> Kind {
        let none = AttributeValues::default;
        let accessed = |time| AttributeValues { time_access_set: Some(time), ..none() };
        let modified = |time| AttributeValues { time_modify_set: Some(time), ..none() };
        let created = |time| AttributeValues { time_create: Some(time), ..none() };
        let early = SetTime::ClientTime(at(1_000, 5));
        Kind {
            name: "setattr-times",
            good: [
                [self.set(&self.a, &accessed(early)), self.set(&self.a, &modified(SetTime::ServerTime))]
                    .concat(),
                self.set(&self.b, &AttributeValues { mode: Some(0o600), ..modified(early) }),
                self.set(&self.c, &created(at(-1_000, 7))),
            ],
            bad: self.set(&self.c, &AttributeValues { time_create: Some(no_time()), ..accessed(early) }),
            status: NfsStatus::Inval,
        }
    }

    fn lists(&self) -> Kind {
        let none = AttributeValues::default;
        let acl = |aces| AttributeValues { acl: Some(aces), ..none() };
        let dacl = |flags, aces| AttributeValues { dacl: Some(Acl41 { flags, aces }), ..none() };
        let denied = entry(DENIED, "1002", flag::IDENTIFIER_GROUP, mask::WRITE_DATA);
        let own = entry(ALLOWED, "OWNER@", 0, mask::READ_DATA | mask::WRITE_DATA);
        let named = entry(ALLOWED, "1001", 0, mask::READ_DATA);
        Kind {
            name: "setattr-acl",
            good: [
                self.set(&self.a, &acl(vec![own.clone(), named.clone()])),
                self.set(&self.b, &dacl(1, vec![denied, own.clone()])),
                [self.set(&self.c, &acl(vec![named])), self.set(&self.c, &dacl(0, vec![own.clone()]))]
                    .concat(),
            ],
            bad: self.set(&self.a, &acl(vec![own, entry(AUDIT, "1001", 0, mask::READ_DATA)])),
            status: NfsStatus::AttrNotSupp,
        }
    }
}
