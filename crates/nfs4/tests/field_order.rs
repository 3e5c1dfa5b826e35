//! Fields of equal width stand in the RFC's order: forms written by hand from the RFC's text.

#![allow(clippy::unwrap_used)]

use nfs4::*;
use xdr::Encode;

/// Words, with what follows them in the RFC's declaration.
fn assert_words(value: &impl Encode, words: &[u32]) {
    let wire = xdr::to_bytes(value);
    let found: Vec<u32> = wire.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
    assert_eq!(found, words);
}

fn state_id(seqid: u32) -> StateId {
    StateId { seqid, other: [0; 12] }
}

fn owner(client: u64) -> StateOwner {
    StateOwner { client: ClientId(client), owner: OwnerName::new("own!").unwrap() }
}

const OWN: u32 = u32::from_be_bytes(*b"own!");

#[test]
fn sequence() {
    let args = SequenceArgs {
        session: SessionId([0; 16]),
        sequence_id: 1,
        slot: 2,
        highest_slot: 3,
        cache_this: true,
    };
    assert_words(&NfsArgOp::Sequence(args), &[53, 0, 0, 0, 0, 1, 2, 3, 1]);
    let ok = SequenceOk {
        session: SessionId([0; 16]),
        sequence_id: 1,
        slot: 2,
        highest_slot: 3,
        target_highest_slot: 4,
        status_flags: 5,
    };
    assert_words(&NfsResOp::Sequence(Outcome::Ok(ok)), &[53, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5]);
}

#[test]
fn create_session() {
    let channel = |base| ChannelAttrs {
        header_pad_size: base,
        max_request_size: base + 1,
        max_response_size: base + 2,
        max_response_size_cached: base + 3,
        max_operations: base + 4,
        max_requests: base + 5,
        rdma_ird: None,
    };
    let sys = AuthSysParms {
        stamp: 31,
        machine_name: xdr::BoundedOpaque::new("own!").unwrap(),
        uid: 32,
        gid: 33,
        gids: xdr::BoundedVec::new(vec![34]).unwrap(),
    };
    let args = CreateSessionArgs {
        client: ClientId(1),
        sequence_id: 2,
        flags: 3,
        fore_channel: channel(10),
        back_channel: channel(20),
        callback_program: 4,
        callback_security: vec![CallbackSecParms::None, CallbackSecParms::Sys(sys)],
    };
    assert_words(
        &args,
        &[
            0, 1, 2, 3, 10, 11, 12, 13, 14, 15, 0, 20, 21, 22, 23, 24, 25, 0, 4, 2, 0, 1, 31, 4, OWN, 32, 33,
            1, 34,
        ],
    );
}

#[test]
fn open() {
    let args = OpenArgs {
        seqid: 1,
        share_access: 2,
        share_deny: 3,
        owner: owner(4),
        how: OpenHow::Create(CreateHow::Exclusive41 { verifier: Verifier([0; 8]), attributes: Fattr::EMPTY }),
        claim: OpenClaim::DelegateCurrent { state_id: state_id(5), file: "own!".into() },
    };
    assert_words(&args, &[1, 2, 3, 0, 4, 4, OWN, 1, 3, 0, 0, 0, 0, 2, 5, 0, 0, 0, 4, OWN]);
    let ok = OpenOk {
        state_id: state_id(1),
        change_info: ChangeInfo { atomic: true, before: 2, after: 3 },
        flags: 4,
        attributes_set: Bitmap::of(&[0]),
        delegation: OpenDelegation::Write(WriteDelegation {
            state_id: state_id(5),
            recall: false,
            space_limit: SpaceLimit::Blocks { count: 6, bytes_per_block: 7 },
            permissions: Ace { ace_type: 8, flags: 9, access_mask: 10, who: "own!".into() },
        }),
    };
    assert_words(&ok, &[1, 0, 0, 0, 1, 0, 2, 0, 3, 4, 1, 1, 2, 5, 0, 0, 0, 0, 2, 6, 7, 8, 9, 10, 4, OWN]);
    let downgrade = OpenDowngradeArgs { state_id: state_id(1), seqid: 2, share_access: 3, share_deny: 4 };
    assert_words(&downgrade, &[1, 0, 0, 0, 2, 3, 4]);
}

#[test]
fn lock() {
    let locker = Locker::New { open_seqid: 3, open_state_id: state_id(4), lock_seqid: 5, owner: owner(6) };
    let args = LockArgs { lock_type: LockType::Write, reclaim: false, offset: 1, length: 2, locker };
    assert_words(&args, &[2, 0, 0, 1, 0, 2, 1, 3, 4, 0, 0, 0, 5, 0, 6, 4, OWN]);
    let denied = LockDenied { offset: 1, length: 2, lock_type: LockType::Read, owner: owner(3) };
    assert_words(&LockRes::Denied(denied), &[10010, 0, 1, 0, 2, 1, 0, 3, 4, OWN]);
    let unlock =
        UnlockArgs { lock_type: LockType::Read, seqid: 2, lock_state_id: state_id(3), offset: 4, length: 5 };
    assert_words(&unlock, &[1, 2, 3, 0, 0, 0, 0, 4, 0, 5]);
}

#[test]
fn names_and_directories() {
    let change = |before| ChangeInfo { atomic: false, before, after: before + 1 };
    assert_words(&RenameOk { source: change(1), target: change(3) }, &[0, 0, 1, 0, 2, 0, 0, 3, 0, 4]);
    let args = ReadDirArgs {
        cookie: 1,
        cookie_verifier: Verifier([0; 8]),
        dir_count: 2,
        max_count: 3,
        request: Bitmap::of(&[32]),
    };
    assert_words(&args, &[0, 1, 0, 0, 2, 3, 2, 0, 1]);
    assert_words(&AccessOk { supported: 1, access: 2 }, &[1, 2]);
    assert_words(&SpecData { major: 1, minor: 2 }, &[1, 2]);
    assert_words(&ModeMasked { value: 1, mask: 2 }, &[1, 2]);
    assert_words(&ModeUmask { mode: 1, umask: 2 }, &[1, 2]);
    let one = |number| Bitmap::EMPTY.with(number);
    let arguments = OpenArguments {
        share_access: one(1u32),
        share_deny: one(2u32),
        wants: one(3u32),
        claims: one(4u32),
        create_modes: one(5u32),
    };
    assert_words(&arguments, &[1, 2, 1, 4, 1, 8, 1, 16, 1, 32]);
    assert_words(&SetAttrRes { status: NfsStatus::Perm, attributes_set: Bitmap::of(&[1]) }, &[1, 1, 2]);
}

#[test]
fn copies() {
    let args = CopyArgs {
        source_state_id: state_id(1),
        destination_state_id: state_id(2),
        source_offset: 3,
        destination_offset: 4,
        count: 5,
        consecutive: true,
        synchronous: false,
        source_servers: vec![],
    };
    assert_words(&args, &[1, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 4, 0, 5, 1, 0, 0]);
    let args = CloneArgs {
        source_state_id: state_id(1),
        destination_state_id: state_id(2),
        source_offset: 3,
        destination_offset: 4,
        count: 5,
    };
    assert_words(&args, &[1, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 4, 0, 5]);
    let block = AppDataBlock {
        offset: 1,
        block_size: 2,
        block_count: 3,
        relative_block_number: 4,
        block_number: 5,
        relative_pattern: 6,
        pattern: bytes::Bytes::from_static(b"own!"),
    };
    assert_words(&block, &[0, 1, 0, 2, 0, 3, 0, 4, 5, 0, 6, 4, OWN]);
}

#[test]
fn exchange_id() {
    let ops = StateProtectOps { must_enforce: Bitmap::of(&[0]), must_allow: Bitmap::of(&[1]) };
    let info = SsvInfo {
        ops,
        hash_algorithm: 1,
        encryption_algorithm: 2,
        ssv_length: 3,
        window: 4,
        handles: vec![],
    };
    assert_words(&StateProtectRes::Ssv(info), &[2, 1, 1, 1, 2, 1, 2, 3, 4, 0]);
    let ok = ExchangeIdOk {
        client: ClientId(1),
        sequence_id: 2,
        flags: 3,
        state_protect: StateProtectRes::None,
        server_owner: ServerOwner { minor_id: 4, major_id: OwnerName::new("own!").unwrap() },
        server_scope: OwnerName::default(),
        implementation: None,
    };
    assert_words(&ok, &[0, 1, 2, 3, 0, 0, 4, 4, OWN, 0, 0]);
}

#[test]
fn layouts() {
    let args = LayoutGetArgs {
        signal_available: false,
        layout_type: LayoutType::Files,
        io_mode: LayoutIoMode::ReadWrite,
        offset: 3,
        length: 4,
        min_length: 5,
        state_id: state_id(6),
        max_count: 7,
    };
    assert_words(&args, &[0, 1, 2, 0, 3, 0, 4, 0, 5, 6, 0, 0, 0, 7]);
}

#[test]
fn minor_version_0() {
    let args = SetClientIdArgs {
        verifier: Verifier([0; 8]),
        id: OwnerName::new("own!").unwrap(),
        callback_program: 1,
        callback_location: NetAddress { network: "tcp6".into(), address: "own!".into() },
        callback_ident: 2,
    };
    let tcp6 = u32::from_be_bytes(*b"tcp6");
    assert_words(&NfsArgOp::SetClientId(args), &[35, 0, 0, 4, OWN, 1, 4, tcp6, 4, OWN, 2]);
    let confirm = SetClientIdConfirm { client: ClientId(1), verifier: Verifier([0, 0, 0, 2, 0, 0, 0, 3]) };
    assert_words(&NfsArgOp::SetClientIdConfirm(confirm), &[36, 0, 1, 2, 3]);
    assert_words(&NfsResOp::SetClientId(SetClientIdRes::Ok(confirm)), &[35, 0, 0, 1, 2, 3]);
    let in_use = NetAddress { network: "tcp6".into(), address: "own!".into() };
    assert_words(&SetClientIdRes::InUse(in_use), &[10017, 4, tcp6, 4, OWN]);
    assert_words(&OpenConfirmArgs { state_id: state_id(1), seqid: 2 }, &[1, 0, 0, 0, 2]);
    assert_words(&CloseArgs { seqid: 1, state_id: state_id(2) }, &[1, 2, 0, 0, 0]);
    assert_words(&ReleaseLockOwnerArgs { owner: owner(1) }, &[0, 1, 4, OWN]);
    assert_words(&RenewArgs { client: ClientId(1) }, &[0, 1]);
    let callback = CbCompoundArgs {
        tag: "".into(),
        minor_version: 0,
        callback_ident: 7,
        ops: vec![NfsCbArgOp::Recall(CbRecallArgs {
            state_id: state_id(1),
            truncate: true,
            file_handle: FileHandle::new("own!").unwrap(),
        })],
    };
    assert_words(&callback, &[0, 0, 7, 1, 4, 1, 0, 0, 0, 1, 4, OWN]);
}

#[test]
fn compound_mode() {
    assert_words(&NfsArgOp::CompoundMode(CompoundModeArgs { flags: 3 }), &[0x4b55_0001, 3]);
    let ok = CompoundModeOk { flags: 1, max_operations: 2, max_bytes: 4 << 32 | 3 };
    assert_words(&NfsResOp::CompoundMode(Outcome::Ok(ok)), &[0x4b55_0001, 0, 1, 2, 4, 3]);
    let refused = NfsResOp::failure(OpCode::CompoundMode, NfsStatus::ReqTooBig);
    assert_words(&refused, &[0x4b55_0001, 10065]);
}
