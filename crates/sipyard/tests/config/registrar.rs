//! The section `[registrar]`.

use super::*;

#[test]
fn a_registrar_is_summed_up() {
    check_good(
        r#"
        node.secret = "an operator's own text of more than 32 bytes"
        listen = [ { transport = "udp", address = "127.0.0.1:5060" } ]
        route = [ { to = "registrar" } ]
        [registrar]
        domains = ["Example.com", "example.org"]
        store = "memory"
        expires = { min = "10s", default = "30s", max = "1h" }
        contacts = 5
        when_full = "replace-oldest"
        auth = ["md5"]
        service_route = ["sip:edge.example.com;lr"]
        "#,
        "f: ok (listens on udp 127.0.0.1:5060; registrar: example.com, example.org (memory); \
         admin on http://127.0.0.1:8060)",
    );
    let open = good("registrar = { domains = [\"a.test\"], store = \"memory\", auth = false }");
    check_good(
        &open,
        "f: ok (listens on udp 127.0.0.1:5060; pools: app (1 x tlwl); registrar: a.test (memory); \
         admin on http://127.0.0.1:8060)",
    );
}

#[test]
fn a_registrar_can_be_wrong_in_many_ways() {
    check(
        &good("registrar = {}"),
        &[
            "f:5:13: registrar: `domains` is missing: write domains = [\"example.com\"], the domains \
             whose users register",
            "f:5:13: registrar: `store` is missing: write store = \"file:PATH\", \
             \"redis://HOST:PORT\" or \"memory\"",
        ],
    );
    check(
        &good("").replace(
            r#"route = [ { to = "app" } ]"#,
            r#"route = [ { to = "registrar", state = "stateless" } ]
pool.registrar.servers = [ { address = "10.0.0.1:5060" } ]
[registrar]
domains = []
store = "memory"
expires = { min = "2h", default = "30s", max = "10s" }
contacts = 0
when_full = "replace"
auth = ["SHA-256", "sha1"]
service_route = ["sip:edge.example.com", "edge"]
realm = "example.com"
"#,
        ),
        &[
            "f:4:39: route.state: a route to the registrar always keeps state, because it waits \
             for the store: remove this key",
            "f:5:6: pool.registrar: this name stands for the built-in registrar: choose another",
            "f:7:11: registrar.domains: the list is empty, so nobody could register: write at \
             least one domain",
            "f:9:19: registrar.expires.min: 2h is out of range: write a value from 1s to 1h",
            "f:9:35: registrar.expires.default: 30s is out of range: write a value from 1m to 2h",
            "f:9:48: registrar.expires.max: 10s is out of range: write a value from 1m to 720h",
            "f:10:12: registrar.contacts: 0 is out of range: write a value from 1 to 100",
            "f:11:13: registrar.when_full: unknown word \"replace\"; choose one of refuse, replace-oldest",
            "f:12:8: registrar.auth: unknown hash \"sha1\"; choose one of SHA-256, MD5",
            "f:13:17: registrar.service_route: sip:edge.example.com has no lr: write \
             \"sip:edge.example.com;lr\"",
            "f:14:1: unknown key `registrar.realm`; choose one of domains, store, expires, \
             contacts, when_full, auth, service_route, keep_alive, remove_dead",
        ],
    );
}
