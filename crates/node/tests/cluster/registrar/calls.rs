//! Calls to users: RFC 3261 §16.5, RFC 3327.

use super::*;

/// RFC 3327 §5.3 and §5.4: calls go along the Path, and in-dialog requests along the route set.
#[test]
fn calls_go_along_the_path() {
    let mut world = World::new(open());
    let path = "<sip:192.0.2.77:5070;lr>,<sip:192.0.2.78;lr>";
    let register = register(1, "<sip:bob@10.0.0.9:5062>;q=0.5")
        .with("Supported", "path")
        .with("Path", path);
    let register = through(OUTER, register);
    assert_eq!(world.pass(&register).all("Path").join(","), path);
    let mut invite = request("INVITE", ALICE, "call");
    invite.start = "INVITE sip:bob@example.com SIP/2.0".to_owned();
    let sent = world.pass(&invite);
    assert_eq!(sent.to.to_string(), "192.0.2.77:5070");
    assert_eq!(sent.uri(), "sip:bob@10.0.0.9:5062");
    assert_eq!(sent.all("Route").join(","), path);

    // The first proxy of the path stays in the dialog, and so is asked for by the route set.
    let recorded = Msg::new(sent.to, "SIP/2.0 200 OK".to_owned());
    let mut answer = sent.respond(200);
    let routes: Vec<String> = answer
        .all("Record-Route")
        .iter()
        .map(|&r| r.to_owned())
        .collect();
    answer = answer
        .without("Record-Route")
        .with("Record-Route", "<sip:192.0.2.77:5070;lr>");
    answer = routes
        .iter()
        .fold(answer, |answer, route| answer.with("Record-Route", route));
    assert_eq!(recorded.from, answer.from);
    let back = world.pass(&answer);
    let mut caller = Dialog::of_caller(&invite, &back);
    let ack = world.pass(&caller.ack());
    assert_eq!(ack.to.to_string(), "192.0.2.77:5070");
    assert_eq!(ack.all("Route"), ["<sip:192.0.2.77:5070;lr>"]);
    let bye = world.pass(&caller.request("BYE"));
    assert_eq!(bye.to.to_string(), "192.0.2.77:5070");
}

/// A pool's server calls a user; a user calls a service of the pool.
#[test]
fn servers_and_users_call_each_other() {
    let mut config = open();
    config.routes = vec![
        route(&[], &["app.example.com"], "app"),
        config.routes[0].clone(),
    ];
    let mut world = World::new(config);
    world.pass(&register(1, &format!("<sip:bob@{PHONE}>")));
    let mut invite = request("INVITE", ONE, "out");
    invite.start = "INVITE sip:bob@example.com SIP/2.0".to_owned();
    let sent = world.pass(&invite);
    assert_eq!(sent.to.to_string(), PHONE);
    let back = world.pass(&sent.respond(200));
    assert_eq!(back.to.to_string(), ONE);
    let mut caller = Dialog::of_caller(&invite, &back);
    assert_eq!(world.pass(&caller.ack()).to.to_string(), PHONE);
    assert_eq!(world.pass(&caller.request("BYE")).to.to_string(), PHONE);

    let mut to_address = request("INVITE", ONE, "outward");
    to_address.start = format!("INVITE sip:x@{DESK} SIP/2.0");
    assert_eq!(world.pass(&to_address).to.to_string(), DESK);
    let mut to_service = request("INVITE", PHONE, "in");
    to_service.start = "INVITE sip:service@app.example.com SIP/2.0".to_owned();
    assert_eq!(world.pass(&to_service).to.to_string(), ONE);
}

#[test]
fn a_register_may_go_elsewhere() {
    let mut config = open();
    let mut elsewhere = route(&["REGISTER"], &[], "app");
    elsewhere.state = Mode::Stateless;
    config.routes.insert(0, elsewhere);
    assert_eq!(config.routes[1].to, Destination::Registrar);
    let mut world = World::new(config);
    let sent = world.pass(&register(1, "<sip:bob@198.51.100.1>"));
    assert_eq!(
        (sent.to.to_string().as_str(), sent.method()),
        (ONE, "REGISTER")
    );
}

/// A contact with `?headers` or `;method=` became a Request-URI with them, and our own edge refused that.
/// RFC 3261 §16.6 item 2, §19.1.5
#[test]
fn a_contacts_headers_and_method_do_not_go_on() {
    let mut world = World::new(open());
    let contact = format!("<sip:bob@{PHONE};method=BYE;ob?Route=%3Csip:x%3E&Subject=y>");
    assert_eq!(world.pass(&register(1, &contact)).status(), 200);
    let mut invite = request("INVITE", ALICE, "call");
    invite.start = "INVITE sip:bob@example.com SIP/2.0".to_owned();
    let sent = world.pass(&invite);
    assert_eq!(sent.uri(), format!("sip:bob@{PHONE};ob"));
    assert!(sent.all("Subject").is_empty() && sent.all("Route").is_empty());
}

/// A REGISTER with Max-Forwards 0 was refused by the registrar that it was for. RFC 3261 §16.3: that is
/// for what is forwarded.
#[test]
fn a_register_that_has_arrived_needs_no_more_hops() {
    let register = || register(1, "<sip:bob@198.51.100.1>").set("Max-Forwards", 0);
    assert_eq!(World::new(open()).pass(&register()).status(), 200);
    let mut config = open();
    config.routes.insert(0, route(&["REGISTER"], &[], "app"));
    assert_eq!(World::new(config).pass(&register()).status(), 483);
    let mut call = request("INVITE", ALICE, "call").set("Max-Forwards", 0);
    call.start = "INVITE sip:bob@example.com SIP/2.0".to_owned();
    assert_eq!(World::new(open()).pass(&call).status(), 483);
}

/// The answer to an OPTIONS named no REGISTER among the methods of a registrar, and one to its domain was
/// a 404.
#[test]
fn a_registrar_says_that_it_takes_registers() {
    let mut elsewhere = open();
    elsewhere.routes.insert(0, route(&["REGISTER"], &[], "app"));
    for (config, host, expected) in [
        (open(), "example.com", "OPTIONS, REGISTER"),
        (open(), EDGE, "OPTIONS, REGISTER"),
        (elsewhere, EDGE, "OPTIONS"),
        (crate::harness::config(&[ONE]), EDGE, "OPTIONS"),
    ] {
        let mut options = request("OPTIONS", ALICE, "options");
        options.start = format!("OPTIONS sip:{host} SIP/2.0");
        let reply = World::new(config).pass(&options);
        assert_eq!(
            (reply.status(), &*reply.all("Allow").join(", ")),
            (200, expected),
            "{host}"
        );
    }
}
