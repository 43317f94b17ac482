//! What is damaged, cut or no capture at all.

use std::collections::BTreeMap;

use capture::{Machines, OpenError, Options, Reason, Study, Trace, WarningKind};
use proptest::prelude::*;

use super::{
    CALLS, caller, calls, capture_of, check,
    common::{File, Format, Link, PCAP},
    count, server, study_of, trace_of,
};

#[test]
fn a_capture_cut_in_the_middle_is_used_up_to_there() {
    for format in [
        PCAP,
        Format::Ng {
            is_big_endian: true,
            is_binary: false,
        },
    ] {
        let bytes = capture_of(format, Link::Ethernet, (caller(), server())).bytes;
        let study = study_of(&bytes[..bytes.len() - 100]);
        check(&study, CALLS - 1);
        assert_eq!(count(&study.warnings, WarningKind::CutFile), 1);
        assert_eq!(study.reasons(), BTreeMap::from([(Reason::EndMissing, 1)]));
    }
}

#[test]
fn what_is_behind_a_damaged_place_is_used() {
    for format in [
        PCAP,
        Format::Ng {
            is_big_endian: false,
            is_binary: true,
        },
    ] {
        let mut file = capture_of(format, Link::Ethernet, (caller(), server()));
        // Within one call.
        let middle = file.bytes.len() * 13 / 24;
        file.bytes[middle..middle + 500].fill(0xff);
        let study = study_of(&file.bytes);
        check(&study, CALLS - 1);
        let damage = study
            .warnings
            .iter()
            .find(|warning| warning.kind == WarningKind::DamagedFile)
            .unwrap();
        assert_eq!(damage.count, 1);
        assert!(
            damage
                .packet
                .is_some_and(|packet| (37..43).contains(&packet)),
            "{damage}"
        );
    }
}

#[test]
fn a_short_snap_length_is_told() {
    let mut file = File::new(PCAP, Link::Ethernet);
    file.snap = 96;
    for (time, source, destination, bytes) in calls(caller(), server()) {
        file.udp(time, source, destination, &bytes);
    }
    let trace = trace_of(&file.bytes);
    let warnings: Vec<_> = trace.warnings().collect();
    assert_eq!(count(&warnings, WarningKind::SnapLength), 6 * CALLS as u64);
    assert!(
        warnings[0].to_string().contains("tcpdump -s 0"),
        "{}",
        warnings[0]
    );
}

#[test]
fn what_is_no_capture_is_refused_with_the_reason() {
    let refused = |bytes: &[u8]| Trace::default().read("x", bytes, |_| {}).unwrap_err();
    assert!(matches!(refused(b""), OpenError::Empty));
    assert!(matches!(
        refused(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        OpenError::Compressed
    ));
    assert!(matches!(
        refused(b"INVITE sip:bob@example.com SIP/2.0\r\n"),
        OpenError::NoCapture
    ));
    assert!(matches!(refused(&[0xd4, 0xc3, 0xb2]), OpenError::NoCapture));
}

fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let formats = prop_oneof![
        Just(PCAP),
        Just(Format::Pcap {
            is_big_endian: true,
            is_nano: false
        }),
        Just(Format::Ng {
            is_big_endian: false,
            is_binary: false
        }),
        Just(Format::Ng {
            is_big_endian: true,
            is_binary: true
        }),
    ];
    let links = prop_oneof![
        Just(Link::Ethernet),
        Just(Link::StackedVlan),
        Just(Link::Cooked),
        Just(Link::Cooked2),
        Just(Link::Null),
        Just(Link::Raw)
    ];
    (formats, links).prop_map(|(format, link)| capture_of(format, link, (caller(), server())).bytes)
}

fn read_anything(bytes: &[u8]) {
    let mut trace = Trace::default();
    let _ = trace.read("any", bytes, |_| {});
    if let Ok(study) = Study::new(&trace, &Options::default()) {
        let _ = study.model("any", &Machines::default());
        let _ = study.ladder_text();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_anything(&bytes);
    }

    #[test]
    fn damaged_captures_are_read_without_a_panic(
        file in any_file(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = file;
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let end = cut.index(file.len());
        read_anything(&file);
        read_anything(&file[..end]);
    }
}
