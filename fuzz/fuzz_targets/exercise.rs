//! What any bytes must withstand. Run by the fuzz target, and by the tests on all that it has found.

use sip::{Edits, Fault, Glance, Host, Message, Uri, write_reply};

/// Reads all there is, rewrites, answers; and checks that what comes out is a message still.
pub fn parser(bytes: &[u8]) {
    if let Ok(uri) = Uri::parse(bytes) {
        read_uri(&uri);
    }
    let glance = Glance::of(bytes);
    let Ok(message) = Message::parse(bytes, 64) else {
        return;
    };
    if let Some(whole) = Glance::at(&message) {
        assert_eq!(glance, Some(whole));
    }
    read(&message);
    reply(&message);
    if message.validate().is_ok() {
        rewrite(&message);
    }
}

fn read_uri(uri: &Uri<'_>) {
    assert!(uri.equivalent(uri));
    let mut target = Vec::new();
    uri.write_as_request_uri(&mut target);
    let target = Uri::parse(&target).expect("a Request-URI is a URI");
    assert!(target.headers.is_empty() && !target.param(b"method").is_present());
    uri.address();
    uri.param(b"lr");
}

fn read(message: &Message<'_>) {
    let uris = message
        .routes()
        .chain(message.record_routes())
        .chain(message.contacts());
    for value in uris.flatten() {
        assert!(value.span.start < value.span.end && value.span.end <= message.bytes().len());
        value.param(b"lr");
        Uri::parse(value.uri).as_ref().map(read_uri).ok();
    }
    for via in message.vias().flatten() {
        assert!(!via.host.is_empty() && Host::parse(via.host).is_some());
        via.response_address();
        let told = via.overload(message);
        assert!(told.is_none() || via.has_overload);
        let mut edits = Edits::default();
        edits.set_overload(message, &via, None);
        edits.apply(message.bytes(), &mut Vec::new());
    }
    for (name, value) in message.headers() {
        let (name, value) = (message.span_of(name), message.span_of(value));
        assert!(name.end <= value.start);
    }
    if let Ok(call_id) = message.call_id() {
        assert_eq!(message.header(sip::HeaderName::CallId), Some(call_id));
    }
    _ = (
        message.cseq(),
        message.from(),
        message.to(),
        message.max_forwards(),
        message.body(),
    );
    _ = (
        message.expires(),
        message.session_expires(),
        message.retry_after(),
        message.dialog_named(),
    );
}

fn reply(message: &Message<'_>) {
    let from = ([192, 0, 2, 1], 5070).into();
    let mut out = Vec::new();
    write_reply(message, 400, "Bad", Some("t"), from, &[], &mut out);
    let reply = Message::parse(&out, 1000).expect("a reply is a message");
    if message.validate().is_ok() {
        assert_eq!(reply.validate(), Ok(()));
        assert_eq!(reply.vias().count(), message.vias().count());
        assert!(reply.to_tag().expect("validated").is_some());
    }
}

fn rewrite(message: &Message<'_>) {
    let (mut edits, mut out) = (Edits::default(), Vec::new());
    let routes = message.routes().count();
    edits.set_received(
        message,
        &message.top_via().unwrap(),
        ([192, 0, 2, 1], 5070).into(),
    );
    edits.push_via(message, |out| {
        out.extend_from_slice(b"SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKx")
    });
    edits.push_record_route(message, |out| out.extend_from_slice(b"<sip:192.0.2.9;lr>"));
    edits.undo_strict_route(message);
    edits.pop_routes(message, 1);
    edits.set_max_forwards(message, 69);
    edits.apply(message.bytes(), &mut out);
    let Ok(sent) = Message::parse(&out, 1000) else {
        panic!("a rewritten message is a message");
    };
    assert_eq!(
        sent.vias().filter(Result::is_ok).count(),
        message.vias().filter(Result::is_ok).count() + 1
    );
    if message.is_request() {
        // A Route may name what a Request-URI can't.
        let fault = sent.validate().err();
        assert!(
            matches!(fault, None | Some(Fault::RequestUri | Fault::UriScheme)),
            "{fault:?}"
        );
        assert_eq!(sent.routes().count(), routes.saturating_sub(2));
        assert_eq!(sent.max_forwards(), Ok(Some(69)));
    }
    assert_eq!(
        (sent.call_id(), sent.body()),
        (message.call_id(), message.body())
    );
    edits.pop_via(&sent, &sent.top_via().expect("it has one"));
    let mut back = Vec::new();
    edits.apply(sent.bytes(), &mut back);
    let back = Message::parse(&back, 1000).expect("what is popped was pushed");
    let top = (
        back.top_via().expect("validated"),
        message.top_via().expect("validated"),
    );
    assert_eq!((top.0.branch, top.0.host), (top.1.branch, top.1.host));
    if top.1.rport.is_present() || top.1.received.is_some() {
        assert_eq!(top.0.received, Some(&b"192.0.2.1"[..]));
    }
}
