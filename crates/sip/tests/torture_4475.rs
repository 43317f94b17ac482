//! RFC 4475's torture messages, each with what a proxy makes of it.
//!
//! A proxy is lenient: it refuses a message for what it has to read, not for what only the endpoints read.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, Outcome, check, outcome};
use sip::{Fault, HeaderName, Message, Param, ParseError};

use Outcome::{Forward, Refuse, Silence};

const fn case(
    file: &'static str,
    outcome: Outcome,
    start: &'static str,
    call_id: &'static str,
    vias: usize,
    tags: [&'static str; 2],
) -> Case {
    Case {
        file,
        outcome,
        start,
        call_id,
        vias,
        tags,
    }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    // White space within To's angle brackets: a proxy doesn't read the URI in To.
    case("badaspec", Forward, "OPTIONS", "badaspec.sdf0234n2nds0a099u23h3hnnw009cdkne3", 1, ["433423", ""]),
    // A branch that is the magic cookie and no more identifies nothing.
    case("badbranch", Refuse(Fault::Via), "OPTIONS", "badbranch.sadonfo23i420jv0as0derf3j3n", 1, ["33242", ""]),
    // Date is not a proxy's to read.
    case("baddate", Forward, "INVITE", "baddate.239423mnsadf3j23lj42--sedfnm234", 1, ["2234923", ""]),
    // The archive's copy lacks the empty line; `completed` has what becomes of it with one.
    case("baddn", Silence(ParseError::Truncated), "", "", 0, ["", ""]),
    // Separators without parameters in the top Via.
    case("badinv01", Refuse(Fault::Via), "INVITE", "badinv01.0ha0isndaksdjasdf3234nas", 0, ["134161461246", ""]),
    // SIP/7.0.
    case("badvers", Refuse(Fault::Version), "OPTIONS", "badvers.31417@c.example.com", 1, ["qweoiqpe", ""]),
    // Well formed; the broadcast address in the second Via is for whoever sends there to refuse.
    case("bcast", Forward, "200", "bcast.0384840201234ksdfak3j2erwedfsASdf", 2, ["11141343", "2229"]),
    // Well formed; Proxy-Require is the node's to answer with 420.
    case("bext01", Forward, "OPTIONS", "bext01.0ha0isndaksdj", 1, ["242etr", ""]),
    // A status code beyond 32 bits.
    case("bigcode", Silence(ParseError::BadStatus), "", "", 0, ["", ""]),
    // Content-Length 9999.
    case("clerr", Refuse(Fault::Body), "INVITE", "clerr.0ha0isndaksdjweiafasdk3", 1, ["93942939o2", ""]),
    case("cparam01", Forward, "REGISTER", "cparam01.70710@saturn.example.com", 1, ["DkfVgjkrtMwaerKKpe", ""]),
    case("cparam02", Forward, "REGISTER", "cparam02.70710@saturn.example.com", 1, ["838293", ""]),
    // The second request in the datagram is cut off.
    case("dblreq", Forward, "REGISTER", "dblreq.0ha0isndaksdj99sdfafnl3lk233412", 1, ["43251j3j324", ""]),
    case("esc01", Forward, "INVITE", "esc01.239409asdfakjkn23onasd0-3234", 1, ["938", ""]),
    // Not REGISTER: methods have no escapes.
    case("esc02", Forward, "RE%47IST%45R", "esc02.asdfnqwo34rq23i34jrjasdcnl23nrlknsdf", 1, ["f232jadfj23", ""]),
    case("escnull", Forward, "REGISTER", "escnull.39203ndfvkjdasfkq3w4otrq0adsfdfnavd", 1, ["839923423", ""]),
    // Headers in the Request-URI may not be forwarded.
    case("escruri", Refuse(Fault::RequestUri), "INVITE", "escruri.23940-asdfhj-aje3br-234q098w-fawerh2q-h4n5", 1, ["341518", ""]),
    // No Call-ID, From or To; From is the first missed.
    case("insuf", Refuse(Fault::From), "INVITE", "", 1, ["", ""]),
    // Control characters in a quoted display name included.
    case("intmeth", Forward, "!interesting-Method0123456789_*+`.%indeed'~", "intmeth.word%ZK-!.*_+'@word`~)(><:\\/\"][?}{", 1, ["_token~1'+`*%!-.", ""]),
    // No branch, no From tag, no Max-Forwards: RFC 2543 has none of them.
    case("inv2543", Forward, "INVITE", "inv2543.1717@ift.client.example.com", 1, ["", ""]),
    // The body's type is the callee's to refuse.
    case("invut", Forward, "INVITE", "invut.0ha0isndaksdjadsfij34n23d", 1, ["8392034", ""]),
    case("longreq", Forward, "INVITE", "longreq.onereallyreallyreallyreallyreallyreallyreallyreallyreallyreallyreallyreallyreallyreallyreallyreallyreallyreallyreallyreallylongcallid", 34, ["12982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982982424", ""]),
    // Angle brackets around the Request-URI.
    case("ltgtruri", Refuse(Fault::RequestUri), "INVITE", "ltgtruri.1@192.0.2.5", 1, ["39291", ""]),
    case("lwsdisp", Forward, "OPTIONS", "lwsdisp.1234abcd@funky.example.com", 1, ["323", ""]),
    // White space within the Request-URI.
    case("lwsruri", Refuse(Fault::RequestUri), "INVITE", "lwsruri.asdfasdoeoi2323-asdfwrn23-asd834rk423", 1, ["231413434", "3xfe-9921883-z9f"]),
    // Two spaces between the request line's elements.
    case("lwsstart", Refuse(Fault::StartLine), "INVITE", "lwsstart.dfknq234oi243099adsdfnawe3@example.com", 1, ["8814", ""]),
    // Two Content-Lengths.
    case("mcl01", Refuse(Fault::ContentLength), "OPTIONS", "mcl01.fhn2323orihawfdoa3o4r52o3irsdf", 1, ["3923942", ""]),
    case("mismatch01", Refuse(Fault::CSeqMethod), "OPTIONS", "mismatch01.dj0234sxdfl3", 1, ["34525", ""]),
    // The RFC has 501, since an endpoint knows no NEWMETHOD; a proxy needs not know it.
    case("mismatch02", Refuse(Fault::CSeqMethod), "NEWMETHOD", "mismatch02.dj0234sxdfl3", 1, ["34525", ""]),
    case("mpart01", Forward, "MESSAGE", "3d9485ad0c49859b@Zmx1ZmZ5LW1hYy0xNi5sb2NhbA..", 1, ["2fb0dcc9", ""]),
    // Several of each header that may be there once; From is the first met.
    case("multi01", Refuse(Fault::From), "INVITE", "", 1, ["", ""]),
    // Content-Length -999.
    case("ncl", Refuse(Fault::ContentLength), "INVITE", "ncl.0ha0isndaksdj2193423r542w35", 1, ["32394234", ""]),
    case("noreason", Forward, "100", "noreason.asndj203insdf99223ndf", 1, ["39ansfi3", "902jndnke3"]),
    // soap.beep:
    case("novelsc", Refuse(Fault::UriScheme), "OPTIONS", "novelsc.asdfasser0q239nwsdfasdkl34", 1, ["384", ""]),
    // A quote that never closes: the To tag can't be told.
    case("quotbal", Refuse(Fault::To), "INVITE", "quotbal.aksdj", 1, ["93334", ""]),
    // The authorization scheme is the registrar's to refuse.
    case("regaut01", Forward, "REGISTER", "regaut01.0ha0isndaksdj", 1, ["87321hj23128", ""]),
    // Contact is the registrar's to refuse.
    case("regbadct", Forward, "REGISTER", "regbadct.k345asrl3fdbv@10.0.0.1", 1, ["998332", ""]),
    case("regescrt", Forward, "REGISTER", "regescrt.k345asrl3fdbv@192.0.2.1", 1, ["8", ""]),
    // CSeq, Max-Forwards, Expires beyond their ranges; CSeq is the first met.
    case("scalar02", Refuse(Fault::CSeq), "REGISTER", "scalar02.23o0pd9vanlq3wnrlnewofjas9ui32", 1, ["239232jh3", ""]),
    // The response is dropped.
    case("scalarlg", Refuse(Fault::CSeq), "503", "scalarlg.noase0of0234hn2qofoaf0232aewf2394r", 1, ["2easdjfejw", ""]),
    case("sdp01", Forward, "INVITE", "sdp01.ndaksdj9342dasdd", 1, ["234", ""]),
    case("semiuri", Forward, "OPTIONS", "semiuri.0ha0isndaksdj", 1, ["33242", ""]),
    case("transports", Forward, "OPTIONS", "transports.kijh4akdnaqjkwendsasfdj", 5, ["323", ""]),
    // White space behind the request line.
    case("trws", Refuse(Fault::StartLine), "OPTIONS", "trws.oicu34958239neffasdhr2345r", 1, ["329429089", ""]),
    case("unkscm", Refuse(Fault::UriScheme), "OPTIONS", "unkscm.nasdfasser0q239nwsdfasdkl34", 1, ["384", ""]),
    // Unknown schemes in To, From and Contact; the Request-URI's is known.
    case("unksm2", Forward, "REGISTER", "unksm2.daksdj@hyphenated-host.example.com", 1, ["3234233", ""]),
    case("unreason", Forward, "200", "unreason.1234ksdfak3j2erwedfsASdf", 1, ["11141343", "2229"]),
    // Folds, compact forms, white space wherever it may be.
    case("wsinv", Forward, "INVITE", "wsinv.ndaksdj@192.0.2.1", 3, ["98asjd8", "1918181833n"]),
    // Well formed; 483 is the node's answer.
    case("zeromf", Forward, "OPTIONS", "zeromf.jfasdlfnm2o2l43r5u0asdfas", 1, ["3ghsd41", ""]),
];

fn read(file: &str) -> Vec<u8> {
    let path = format!(
        "{}/tests/corpus/rfc4475/{file}.dat",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn each_message_has_its_outcome() {
    for case in CASES {
        check(case, &read(case.file));
    }
}

#[test]
fn no_message_is_left_out() {
    let directory = format!("{}/tests/corpus/rfc4475", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), CASES.len());
}

/// RFC 4475 §3.1.2.15: a display name with a comma needs quotes; without them the value could be two.
#[test]
fn completed() {
    let bytes = [&read("baddn")[..], b"\r\n"].concat();
    assert_eq!(outcome(&bytes), Refuse(Fault::From));
}

/// RFC 4475 §3.1.1.8: what follows Content-Length in a datagram is no part of the message.
#[test]
fn trailing_bytes_are_cut_off() {
    let bytes = read("dblreq");
    let message = Message::parse(&bytes, 128).unwrap();
    assert!(message.bytes().len() < bytes.len());
    assert!(message.bytes().ends_with(b"\r\n\r\n"));
}

/// RFC 4475 §3.1.1.1: the values of a message written as oddly as can be.
#[test]
fn tortuous_invite_is_understood() {
    let bytes = read("wsinv");
    let message = Message::parse(&bytes, 128).unwrap();
    let vias: Vec<_> = message.vias().map(Result::unwrap).collect();
    let hosts: Vec<_> = vias.iter().map(|via| via.host).collect();
    assert_eq!(
        hosts,
        [
            &b"192.0.2.2"[..],
            b"spindle.example.com",
            b"192.168.255.111"
        ]
    );
    let branches: Vec<_> = vias.iter().filter_map(|via| via.branch).collect();
    assert_eq!(
        branches,
        [&b"390skdjuw"[..], b"z9hG4bK9ikj8", b"z9hG4bK30239"]
    );
    assert_eq!(vias[1].transport, b"TCP");
    assert_eq!(message.max_forwards(), Ok(Some(68)));
    let cseq = message.cseq().unwrap();
    assert_eq!((cseq.number, cseq.method), (9, sip::Method::Invite));
    let contact = message.contacts().next().unwrap().unwrap();
    assert_eq!(contact.uri, b"sip:jdrosen@example.com");
    assert_eq!(contact.param(b"newparam"), Param::Value(b"newvalue"));
    assert_eq!(contact.param(b"q"), Param::Value(b"0.33"));
    assert_eq!(message.routes().count(), 1);
    assert_eq!(message.headers().count(), 14);
    assert_eq!(message.body().len(), 150);
}

/// RFC 4475 §3.1.1.5: an escaped header name is another header.
#[test]
fn header_names_have_no_escapes() {
    let bytes = read("esc02");
    let message = Message::parse(&bytes, 128).unwrap();
    assert_eq!(message.header_values(HeaderName::Contact).count(), 2);
}
