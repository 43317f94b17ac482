//! Route sets: loose and strict, preloaded, and over two listeners.

use node::Config;

use crate::{
    harness::{ALICE, Cluster, EDGE, Established, ONE, TWO, config, listener},
    message::{Dialog, Msg, request, uri_of},
};

const PROXY: &str = "198.51.100.4:5060";
const INSIDE: &str = "[2001:db8::10]:5060";
const SERVER6: &str = "[2001:db8::21]:5060";

/// RFC 3261 §16.12.1.1: a client behind a proxy that stays in the path.
fn behind_proxy(cluster: &mut Cluster, proxy_route: &str) -> Established {
    let invite = request("INVITE", ALICE, "call")
        .with("Record-Route", proxy_route)
        .from(PROXY);
    cluster.establish_with(&invite)
}

#[test]
fn a_loose_route_ends_with_what_is_left_of_it() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let proxy = format!("<sip:{PROXY};lr>");
    let mut call = behind_proxy(&mut cluster, &proxy);
    let bye = cluster.exchange(&call.callee.request("BYE"), 200);
    assert_eq!(
        bye.to,
        PROXY.parse().unwrap(),
        "the next route, not the target"
    );
    assert_eq!(bye.all("Route"), [&proxy]);
    assert_eq!(bye.uri(), format!("sip:alice@{ALICE}"));
}

/// RFC 3261 §16.6 step 6, §16.12.1.2: the route in front of the client knows only RFC 2543.
#[test]
fn a_strict_router_gets_its_name_in_the_request_uri() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = behind_proxy(&mut cluster, &format!("<sip:{PROXY}>"));
    let bye = cluster.exchange(&call.callee.request("BYE"), 200);
    assert_eq!(bye.to, PROXY.parse().unwrap());
    assert_eq!(bye.uri(), format!("sip:{PROXY}"));
    assert_eq!(bye.all("Route"), [format!("<sip:alice@{ALICE}>")]);
}

/// RFC 3261 §16.4: what a strict router did to the request is undone.
fn as_strict_router(request: &Msg) -> Msg {
    let mut routes = request.all("Route").into_iter();
    let ours = uri_of(routes.next().unwrap());
    let mut strict = request.clone().without("Route");
    strict.start = format!("{} {ours} SIP/2.0", request.method());
    for route in routes {
        strict = strict.with("Route", route);
    }
    strict.with("Route", format!("<{}>", request.uri()))
}

#[test]
fn a_request_from_a_strict_router_reaches_its_server() {
    for is_known in [true, false] {
        let mut cluster = Cluster::new(config(&[ONE, TWO]));
        let mut call = cluster.establish("call");
        if !is_known {
            cluster.restart(config(&[ONE, TWO]));
        }
        let bye = call.caller.request("BYE");
        let received = cluster.exchange(&as_strict_router(&bye), 200);
        assert_eq!(received.to, call.server);
        assert_eq!(received.uri(), bye.uri());
        assert!(received.all("Route").is_empty());
        assert_eq!(cluster.total(), (0, 0, 0.0));
    }
}

#[test]
fn a_request_of_a_server_comes_through_a_strict_router_and_a_proxy() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let proxy = format!("<sip:{PROXY};lr>");
    let mut call = behind_proxy(&mut cluster, &proxy);
    let bye = call.callee.request("BYE");
    let received = cluster.exchange(&as_strict_router(&bye), 200);
    assert_eq!(received.to, PROXY.parse().unwrap());
    assert_eq!(received.uri(), format!("sip:alice@{ALICE}"));
    assert_eq!(received.all("Route"), [&proxy]);
}

/// RFC 3261 §16.4, §8.1.2: an outbound proxy is given as a route.
#[test]
fn a_preloaded_route_to_us_is_taken_off() {
    for route in [format!("<sip:{EDGE};lr>"), "<sip:192.0.2.10;lr>".to_owned()] {
        let mut cluster = Cluster::new(config(&[ONE]));
        let invite = request("INVITE", ALICE, "call").with("Route", &route);
        let received = cluster.pass(&invite);
        assert!(received.all("Route").is_empty(), "{route}");
        assert_eq!(received.uri(), invite.uri());
        let answered = cluster.pass(&received.respond(200));
        let mut caller = Dialog::of_caller(&invite, &answered);
        cluster.exchange(&caller.request("BYE"), 200);
        assert_eq!(cluster.total(), (0, 0, 0.0));
    }
}

fn bridge() -> Config {
    let mut config = config(&[SERVER6]);
    config.listeners.push(listener(INSIDE));
    config
}

/// RFC 5658: both listeners stand in the route set, each towards its side.
#[test]
fn a_call_crosses_from_ipv4_to_ipv6() {
    for is_known in [true, false] {
        let mut cluster = Cluster::new(bridge());
        let invite = request("INVITE", ALICE, "call");
        let received = cluster.pass(&invite);
        assert_eq!(
            (received.listener, received.to),
            (1, SERVER6.parse().unwrap())
        );
        assert!(received.get("Via").contains(INSIDE));
        let recorded = received.all("Record-Route");
        assert!(
            recorded[0].contains(INSIDE) && recorded[1].contains(EDGE),
            "{recorded:?}"
        );
        let answer = received.respond(200);
        let answered = cluster.pass_by(1, &answer);
        assert_eq!((answered.listener, answered.to), (0, invite.from));
        let mut caller = Dialog::of_caller(&invite, &answered);
        let mut callee = Dialog::of_callee(&received, &answer);
        if !is_known {
            cluster.restart(bridge());
        }
        let info = cluster.pass(&caller.request("INFO"));
        assert_eq!((info.listener, info.to), (1, received.to));
        assert!(info.all("Route").is_empty());
        let back = cluster.pass_by(1, &info.respond(200));
        assert_eq!((back.listener, back.to), (0, invite.from));
        let bye = cluster.pass_by(1, &callee.request("BYE"));
        assert_eq!((bye.listener, bye.to), (0, invite.from));
        assert!(bye.all("Route").is_empty());
        let back = cluster.pass(&bye.respond(200));
        assert_eq!((back.listener, back.to), (1, received.to));
        assert_eq!(cluster.total(), (0, 0, 0.0));
    }
}

/// At another edge the second route was not taken for ours. It stayed, and the request went to any server.
#[test]
fn a_call_that_crosses_goes_on_at_another_edge() {
    let mut cluster = Cluster::new(bridge());
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    let answered = cluster.pass_by(1, &received.respond(200));
    let mut caller = Dialog::of_caller(&invite, &answered);
    let mut config = bridge();
    config.listeners = ["192.0.2.110:5060", "[2001:db8::110]:5060"]
        .map(listener)
        .into();
    let mut other = Cluster::new(config);
    let bye = other.pass(&caller.request("BYE"));
    assert_eq!((bye.listener, bye.to), (1, received.to));
    assert!(bye.all("Route").is_empty());
}

/// RFC 3581 §4: answers leave by the socket that the request came to.
#[test]
fn a_refusal_leaves_by_the_listener_that_was_hit() {
    let mut cluster = Cluster::new(bridge());
    let caller = "[2001:db8::7]:5070";
    let invite = request("INVITE", caller, "call").set("Max-Forwards", 0);
    let refused = cluster.pass_by(1, &invite);
    assert_eq!((refused.listener, refused.to), (1, caller.parse().unwrap()));
    assert_eq!(refused.status(), 483);
}
