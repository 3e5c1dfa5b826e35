use proptest::prelude::*;

use super::*;

/// One way for a cloud to be faulty.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    Lost,
    Flipped(u16),
    Cut(u16),
    Older,
    OtherBlock,
    Hangs,
    Fails(ErrorKind),
}

pub(super) fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        Just(Trouble::Lost),
        any::<u16>().prop_map(Trouble::Flipped),
        any::<u16>().prop_map(Trouble::Cut),
        Just(Trouble::Older),
        Just(Trouble::OtherBlock),
        Just(Trouble::Hangs),
        prop_oneof![Just(ErrorKind::Transient), Just(ErrorKind::Timeout), Just(ErrorKind::Refused)]
            .prop_map(Trouble::Fails),
    ]
}

impl Trouble {
    pub(super) fn strike(self, world: &World, id: &BlockIdentity, fragment: u8) {
        let bytes = world.peek(id, fragment);
        let cloud = &world.clouds[usize::from(fragment)];
        match self {
            Trouble::Lost => world.poke(id, fragment, None),
            Trouble::Flipped(at) => {
                let mut bytes = bytes.to_vec();
                let at = usize::from(at) % bytes.len();
                bytes[at] ^= 1;
                world.poke(id, fragment, Bytes::from(bytes));
            }
            Trouble::Cut(at) => world.poke(id, fragment, bytes.slice(..usize::from(at) % bytes.len())),
            Trouble::Older => {
                world.poke(id, fragment, world.peek(&BlockIdentity { version: Version(1), ..*id }, fragment));
            }
            Trouble::OtherBlock => {
                world.poke(
                    id,
                    fragment,
                    world.peek(&BlockIdentity { block: BlockIndex(4), ..*id }, fragment),
                );
            }
            Trouble::Hangs => cloud.set(Side::Reads, CloudFault::Hang),
            Trouble::Fails(kind) => cloud.set(Side::Reads, CloudFault::Fail(kind)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn up_to_m_faulty_clouds_read_right_and_more_never_read_wrong(
        data in 1u8..5,
        parity in 0u8..4,
        kind in 0usize..4,
        length in 0usize..9000,
        troubles in prop::collection::btree_map(0u8..9, trouble(), 0..9),
    ) {
        let scheme = match kind {
            0 => format!("replicas:{}", parity + 1),
            1 => format!("rs:{data}+{parity}"),
            2 => format!("aont-rs:{}+{parity}", data + 1),
            _ => format!("caont-rs:{}+{parity}", data + 1),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let world = World::new(&scheme);
            let total = world.placement.scheme().total() as u8;
            let troubles: Vec<_> = troubles.into_iter().filter(|(fragment, _)| *fragment < total).collect();
            let new = BlockIdentity { version: Version(2), ..identity() };
            let expected = content(2).slice(..length);
            world.fill(&identity(), &content(1).slice(..length)).await;
            world.fill(&BlockIdentity { block: BlockIndex(4), ..new }, &content(3)).await;
            world.fill(&new, &expected).await;
            for (fragment, trouble) in &troubles {
                trouble.strike(&world, &new, *fragment);
            }
            let read = world.get(&new).await;
            if troubles.len() <= world.placement.scheme().spare() {
                prop_assert_eq!(read.unwrap().plaintext, expected);
            } else {
                let error = read.unwrap_err();
                let out_of_reach = troubles.iter().filter(|(_, t)| matches!(t, Trouble::Hangs | Trouble::Fails(_)));
                let may_come_back = usize::from(total) - troubles.len() + out_of_reach.count();
                prop_assert_eq!(error.is_temporary(), may_come_back >= world.placement.scheme().needed());
            }
            Ok(())
        })?;
    }
}
