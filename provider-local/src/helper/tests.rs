//! The shared formats against arbitrary bytes and arbitrary values.

use super::codec::{MAX_PACKET, PacketBuffer, Reader, Sink};
use super::exec::encode_block;
use super::packet::{FileAction, Reply, Request, Scope};
use super::plan::{Action, Flags, Header, IdMaps, Overlay, Owner, Texts};
use super::step::Step;
use proptest::prelude::*;
use std::ffi::{CStr, CString};

fn text() -> impl Strategy<Value = CString> {
    prop::collection::vec(1_u8.., 0..300).prop_map(|bytes| CString::new(bytes).expect("no NUL"))
}

fn step() -> impl Strategy<Value = Step> {
    prop::sample::select(Step::ALL)
}

fn file_action<'a>(kind: u8, one: &'a CStr, two: &'a CStr, numbers: (u32, u32)) -> FileAction<'a> {
    match kind {
        0 => FileAction::Open { path: one, flags: numbers.0, mode: numbers.1 },
        1 => FileAction::MakeDir { path: one, mode: numbers.1 },
        2 => FileAction::Unlink { path: one },
        3 => FileAction::RemoveDir { path: one },
        _ => FileAction::Rename { from: one, to: two },
    }
}

fn encoded(encode: impl FnOnce(&mut PacketBuffer) -> Option<()>) -> Vec<u8> {
    let mut packet = PacketBuffer::new();
    encode(&mut packet).expect("it fits");
    packet.filled().to_vec()
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused_or_read_whole(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        if let Some(request) = Request::decode(&bytes) {
            prop_assert_eq!(encoded(|sink| request.encode(sink)), bytes.clone());
        }
        if let Some(reply) = Reply::decode(&bytes) {
            prop_assert_eq!(encoded(|sink| reply.encode(sink)), bytes.clone());
        }
        let mut reader = Reader::new(&bytes);
        let _ = Header::decode(&mut reader);
        while let Some(action) = Action::decode(&mut reader) {
            if let Action::Overlay(overlay) = action {
                prop_assert!(overlay.layers.iter().count() <= bytes.len());
            }
        }
    }

    /// As above, with the tags and lengths that make the decoders go deeper.
    #[test]
    fn broken_packets_are_refused(
        tag in 0_u8..20, small in prop::collection::vec(0_u8..6, 0..60), cut in 0_usize..60,
    ) {
        let mut bytes = vec![tag];
        bytes.extend(&small);
        let bytes = bytes.get(..cut.min(bytes.len())).expect("in range");
        let _ = Request::decode(bytes);
        let _ = Reply::decode(bytes);
        let _ = Action::decode(&mut Reader::new(bytes));
        let _ = Header::decode(&mut Reader::new(bytes));
    }

    #[test]
    fn requests_come_back(
        id in any::<u32>(), numbers in any::<(u32, u32)>(), length in any::<u64>(), tree in any::<bool>(),
        kind in 0_u8..5, one in text(), two in text(),
    ) {
        let scope = if tree { Scope::Tree } else { Scope::Process };
        let action = file_action(kind, &one, &two, numbers);
        for request in [
            Request::Plan { length },
            Request::Exec { id, uid: numbers.0, gid: numbers.1, length },
            Request::Signal { id, target: numbers.0, signal: numbers.1, scope },
            Request::File { id, uid: numbers.0, gid: numbers.1, action },
            Request::Shutdown { grace_milliseconds: id },
        ] {
            let bytes = encoded(|sink| request.encode(sink));
            prop_assert_eq!(Request::decode(&bytes), Some(request));
            let longer = [bytes.as_slice(), &[0]].concat();
            prop_assert_eq!(Request::decode(&longer), None);
            for end in 0..bytes.len() {
                prop_assert_eq!(Request::decode(&bytes[..end]), None);
            }
        }
    }

    #[test]
    fn replies_come_back(id in any::<u32>(), word in any::<u32>(), errno in any::<i32>(), step in step(), subject in text()) {
        for reply in [
            Reply::Born,
            Reply::Ready,
            Reply::Failed { step, errno, subject: &subject },
            Reply::Started { id, pid: word },
            Reply::Exited { id, status: word },
            Reply::Done { id },
            Reply::Refused { id, step, errno },
        ] {
            let bytes = encoded(|sink| reply.encode(sink));
            prop_assert_eq!(Reply::decode(&bytes), Some(reply));
            let longer = [bytes.as_slice(), &[7]].concat();
            prop_assert_eq!(Reply::decode(&longer), None);
        }
    }

    #[test]
    fn plans_come_back(
        texts in prop::collection::vec(text(), 6), layers in prop::collection::vec(text(), 0..5),
        mapped in any::<bool>(), marks in any::<bool>(), capabilities in any::<u64>(), mode in any::<u32>(), kind in any::<u8>(),
        data in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let [a, b, c, d, e, f] = texts.as_slice() else { unreachable!() };
        let maps = IdMaps { users: &data, groups: b"x" };
        let user_namespace = mapped.then_some(maps);
        let header = Header { user_namespace, no_new_privileges: marks, capabilities, hostname: a };
        let mut encoded_layers = Vec::new();
        layers.iter().for_each(|layer| encoded_layers.text(layer).expect("it fits"));
        let flags = Flags(mode);
        let owner = Owner { mode, uid: 0, gid: Owner::KEEP };
        let actions = [
            Action::Tmpfs { target: a, options: b, flags },
            Action::Dir { path: a, owner },
            Action::File { path: a, owner, data: &data },
            Action::Link { path: a, target: b },
            Action::Whiteout { path: a },
            Action::Opaque { path: a, user_marks: marks },
            Action::Overlay(Overlay {
                target: a, layers: Texts::new(&encoded_layers), mask: b, base: c, upper: d, work: e, stage: f, flags,
            }),
            Action::Enter { root: a },
            Action::Bind { slot: kind, target: b, flags },
            Action::Take { source: a, slot: kind, flags },
            Action::Proc { target: a },
            Action::Devpts { target: a, options: b },
            Action::Hide { path: a },
            Action::ReadOnly { path: a },
            Action::Reserve { path: a, parents: marks },

        ];
        let mut bytes = Vec::new();
        header.encode(&mut bytes).expect("it fits");
        actions.iter().for_each(|action| action.encode(&mut bytes).expect("it fits"));
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(Header::decode(&mut reader), Some(header));
        for action in actions {
            prop_assert_eq!(Action::decode(&mut reader), Some(action));
        }
        prop_assert!(reader.is_empty());
        let read: Vec<&CStr> = Texts::new(&encoded_layers).iter().collect();
        prop_assert!(read.iter().copied().eq(layers.iter().map(CString::as_c_str)));
    }
}

#[test]
fn a_packet_has_a_limit() {
    let mut packet = PacketBuffer::new();
    assert_eq!(packet.put(&[0; MAX_PACKET]), Some(()));
    assert_eq!(packet.put(&[0]), None);
    let long = CString::new(vec![b'x'; MAX_PACKET]).expect("no NUL");
    let request = Request::File { id: 1, uid: 0, gid: 0, action: FileAction::Unlink { path: &long } };
    assert_eq!(request.encode(&mut PacketBuffer::new()), None);
}

#[test]
fn texts_need_exactly_one_nul() {
    for (bytes, expected) in [(&b"ab\0"[..], Some(c"ab")), (b"ab", None), (b"a\0b\0", None), (b"", None)] {
        let mut encoded = Vec::new();
        encoded.bytes(bytes).expect("it fits");
        assert_eq!(Reader::new(&encoded).text(), expected);
    }
}

#[test]
fn steps_keep_their_numbers_and_words() {
    for step in Step::ALL {
        assert_eq!(Step::from_number(*step as u16), Some(*step));
        assert!(!step.words().is_empty());
    }
    assert_eq!(Step::from_number(0), None);
}

#[test]
fn an_argument_block_is_bounded_by_its_numbers() {
    let mut block = Vec::new();
    encode_block(&mut block, c"/", &[1, 2], [c"sh"].into_iter(), [c"A=b"].into_iter()).expect("it fits");
    let mut reader = Reader::new(&block);
    assert_eq!(reader.text(), Some(c"/"));
    assert_eq!((reader.u32(), reader.u32(), reader.u32()), (Some(2), Some(1), Some(2)));
    assert_eq!((reader.u32(), reader.text()), (Some(1), Some(c"sh")));
    assert_eq!((reader.u32(), reader.text()), (Some(1), Some(c"A=b")));
    assert!(reader.is_empty());
}
