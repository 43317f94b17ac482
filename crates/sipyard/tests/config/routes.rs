//! Routes: whom they are for, and what they do to requests.

use crate::{check, check_good, good};

/// A good file, but with these routes.
fn with_routes(routes: &str) -> String {
    good("").replace(r#"route = [ { to = "app" } ]"#, routes)
}

#[test]
fn routes_are_for_some_senders_and_change_headers() {
    check_good(
        &with_routes(
            r#"[registrar]
domains = ["example.com"]
store = "memory"
[[route]]
from = ["peers", "10.0.0.0/8", "2001:db8::1"]
listeners = ["127.0.0.1:5060"]
users = ["+49", "0"]
to = "app"
auth = true
remove = ["X-Internal", "s"]
add = ["X-Edge: one", "X-Time: 12:00"]
[[route]]
to = "app"
auth = false
"#,
        ),
        "f: ok (listens on udp 127.0.0.1:5060; pools: app (1 x tlwl); registrar: example.com \
         (memory); admin on http://127.0.0.1:8060)",
    );
}

#[test]
fn senders_listeners_and_users_are_known_things() {
    check(
        &with_routes(
            r#"[[route]]
from = ["peer", "10.0.0.1/8"]
to = "app"
[[route]]
listeners = ["127.0.0.1:5061"]
users = [""]
to = "app"
[[route]]
users = []
to = "app"
[[route]]
listeners = ["127.0.0.1"]
to = "app"
[[route]]
from = ["10.0.0.1/8"]
to = "app"
"#,
        ),
        &[
            "f:5:8: route.from: \"peer\" is no network: write one such as \"10.0.0.0/8\" or \
             \"2001:db8::/32\", or \"peers\"",
            "f:8:13: route.listeners: no [[listen]] has the address \"127.0.0.1:5061\"; did you \
             mean `127.0.0.1:5060`?",
            "f:9:9: route.users: the text is empty: write at least one character",
            "f:12:9: route.users: the list is empty, so the route matches nothing: remove the key \
             to match everything",
            "f:15:13: route.listeners: \"127.0.0.1\" has no port: write \"127.0.0.1:5060\" for \
             SIP's default port",
            "f:18:8: route.from: \"10.0.0.1/8\" has bits behind its prefix: write \"10.0.0.0/8\" \
             for the network, or \"10.0.0.1\" for the host, or \"peers\"",
        ],
    );
}

#[test]
fn who_must_prove_a_password_has_one() {
    check(
        &with_routes(r#"route = [ { to = "app", auth = true } ]"#),
        &[
            "f:4:32: route.auth: there is no registrar, so nobody has a password: add [registrar] \
             with domains and store",
        ],
    );
    check(
        &with_routes(r#"route = [ { to = "app", auth = "yes" } ]"#),
        &["f:4:32: route.auth: expected true or false, found a string"],
    );
    check(
        &with_routes(
            r#"route = [ { to = "app", auth = true } ]
registrar = { domains = ["example.com"], store = "memory", auth = false }"#,
        ),
        &[
            "f:4:32: route.auth: nobody can prove a password, because [registrar] has auth = \
             false: remove that key or this one",
        ],
    );
}

#[test]
fn headers_that_messages_find_their_way_by_stay() {
    let fixed = |key: &str, name: &str| {
        format!(
            "f:4:{}: route.{key}: a route can't change {name}, because requests and answers find \
             their way by it: remove it from the list",
            28 + key.len()
        )
    };
    for (name, full) in [
        ("Via", "Via"),
        ("v", "Via"),
        ("route", "Route"),
        ("Record-Route", "Record-Route"),
        ("i", "Call-ID"),
        ("CSEQ", "CSeq"),
        ("From", "From"),
        ("t", "To"),
        ("m", "Contact"),
        ("Content-Length", "Content-Length"),
        ("Max-Forwards", "Max-Forwards"),
        ("Max-Breadth", "Max-Breadth"),
    ] {
        for (key, item) in [("remove", name.to_owned()), ("add", format!("{name}: x"))] {
            let route = format!(r#"route = [ {{ to = "app", {key} = ["{item}"] }} ]"#);
            check(&with_routes(&route), &[&fixed(key, full)]);
        }
    }
    for (key, item, problem) in [
        (
            "remove",
            "X Internal",
            "\"X Internal\" is not the name of a header, such as \"X-Internal\"",
        ),
        (
            "add",
            "X-Edge",
            "\"X-Edge\" is not a header line, such as \"X-Edge: one\"",
        ),
        (
            "add",
            "X-Edge: one\\r\\nVia: two",
            "\"X-Edge: one\\r\\nVia: two\" is not a header line, such as \"X-Edge: one\"",
        ),
    ] {
        let route = format!(r#"route = [ {{ to = "app", {key} = ["{item}"] }} ]"#);
        let problem = format!("f:4:{}: route.{key}: {problem}", 28 + key.len());
        check(&with_routes(&route), &[&problem]);
    }
}

#[test]
fn state_is_settled_between_nodes_of_pools_only() {
    check_good(
        &with_routes("[[route]]\nto = \"app\"\nstate = \"dynamic\"\n"),
        "f: ok (listens on udp 127.0.0.1:5060; pools: app (1 x tlwl); admin on \
         http://127.0.0.1:8060)",
    );
    check(
        &with_routes(
            r#"[registrar]
domains = ["example.com"]
store = "memory"
[[route]]
methods = ["REGISTER"]
to = "registrar"
state = "dynamic"
[[route]]
to = "app"
state = "dynamik"
"#,
        ),
        &[
            "f:10:9: route.state: a route to the registrar always keeps state, because it waits for the store: remove \
             this key",
            "f:13:9: route.state: unknown state \"dynamik\"; did you mean `dynamic`?",
        ],
    );
}
