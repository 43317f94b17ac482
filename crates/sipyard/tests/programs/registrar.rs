//! Phones register with passwords and call each other; their bindings outlive the node.

use std::{
    fs,
    io::Write,
    net::{SocketAddr, UdpSocket},
    process::Stdio,
    time::{Duration, Instant},
};

use testbed::Redis;

use crate::{
    common::{Edge, PATIENCE, Settings, sipyard},
    edge::{Counts, wait_until_idle, within_counts},
    phones::{Baresip, free_udp_of_four_digits},
    process::{command, within},
    restart::crash_and_start,
    sipp::{Caller, Outcome, Server, scenario},
};

/// A node whose users are those of example.com, with `registrar` in its section and `pools` that
/// take what is for others.
pub(crate) fn configure(settings: &Settings, registrar: &str, pools: &str) {
    let Settings { sip, admin, .. } = settings;
    settings.write_whole(&format!(
        r#"node = {{ name = "registrar", secret = "file:secret", workers = 2 }}
listen = [ {{ transport = "udp", address = "{sip}" }} ]
admin = {{ address = "{admin}", socket = "admin.sock" }}
[registrar]
domains = ["example.com", "127.0.0.1"]
{registrar}
[[route]]
hosts = ["example.com", "127.0.0.1"]
to = "registrar"
{pools}
"#
    ));
}

/// Runs `sipyard user` on a node's configuration with this on its standard input; what it says.
fn user(settings: &Settings, arguments: &[&str], input: &str) -> String {
    let mut child = sipyard()
        .arg("user")
        .args(arguments)
        .arg("--config")
        .arg(settings.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "user {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Users of example.com whose password is "secret".
pub(crate) fn add_users(settings: &Settings, names: impl IntoIterator<Item = String>) {
    let lines = names
        .into_iter()
        .map(|name| format!("{name},example.com,secret\n"));
    let table = "username,domain,password\n".to_owned() + &lines.collect::<String>();
    user(settings, &["import", "-"], &table);
}

fn start(registrar: &str) -> Edge {
    let settings = Settings::new();
    configure(&settings, registrar, "");
    settings.start()
}

/// A node in whose file Alice and Bob are.
fn start_for_alice_and_bob() -> Edge {
    let settings = Settings::new();
    configure(&settings, "store = \"file:location.db\"", "");
    add_users(&settings, ["alice", "bob"].map(str::to_owned));
    settings.start()
}

/// The registrar of example.com, with passwords, and the way to it.
pub(crate) const REGISTRAR: &str = "registrar = { domains = [\"example.com\"], store = \"file:location.db\" }\n[[route]]\n\
                                    hosts = [\"example.com\"]\nto = \"registrar\"";

/// A phone's account of this user, registered through `node` and renewed after so many seconds.
pub(crate) fn account(user: &str, node: SocketAddr, seconds: u32) -> String {
    format!(
        "<sip:{user}@example.com>;auth_user={user};auth_pass=secret;\
         outbound=\"sip:{node};lr\";regint={seconds};answermode=auto"
    )
}

/// A phone of this user, once it has registered.
fn phone(user: &str, node: SocketAddr) -> Baresip {
    let phone = Baresip::with_account(|_| account(user, node, 600));
    within(PATIENCE, "the phone's registration", || {
        phone.times("200 OK") > 0
    });
    phone
}

/// Alice calls Bob; either hangs up.
pub(crate) fn call(alice: &Baresip, bob: &Baresip) {
    let (calls, ends) = (bob.times("Call established"), "session closed");
    for (time, hanging_up, other) in [(1, alice, bob), (2, bob, alice)] {
        let ended = other.times(ends);
        alice.press("dial", "sip:bob@example.com");
        within(PATIENCE, "the call", || {
            bob.times("Call established") == calls + time
        });
        hanging_up.press("hangup", "");
        within(PATIENCE, "the end of the call", || {
            other.times(ends) == ended + 1
        });
    }
}

#[test]
fn phones_that_know_their_passwords_call_each_other() {
    let node = start_for_alice_and_bob();
    let (alice, bob) = (phone("alice", node.sip()), phone("bob", node.sip()));
    call(&alice, &bob);
    wait_until_idle(&node, PATIENCE);
    let counts = Counts::of(&node);
    assert_eq!((counts.event("bound"), counts.replies("401")), (2, 2));
    assert_eq!(counts.event("wrong_credentials"), 0);
}

#[test]
fn a_wrong_password_registers_nobody() {
    let node = start_for_alice_and_bob();
    let phone = Baresip::with_account(|_| {
        let node = node.sip();
        format!(
            "<sip:bob@example.com>;auth_user=bob;auth_pass=guessed;outbound=\"sip:{node};lr\";regint=600"
        )
    });
    within_counts(&node, PATIENCE, "the refusal", |counts| {
        counts.event("wrong_credentials") > 0
    });
    assert_eq!(phone.times("200 OK"), 0);
    assert_eq!(Counts::of(&node).event("bound"), 0);
}

/// A phone says nothing between the node's death and the call to it.
#[test]
fn a_node_that_was_killed_knows_who_registered() {
    let node = start_for_alice_and_bob();
    let (alice, bob) = (phone("alice", node.sip()), phone("bob", node.sip()));
    let node = crash_and_start(node);
    call(&alice, &bob);
    wait_until_idle(&node, PATIENCE);
    assert_eq!(Counts::of(&node).event("bound"), 0);
}

/// SIPp's phones of user1, user2 ... register with the password "secret".
fn register(node: &Edge, phones: u64) -> Outcome {
    of_users(node, "register", phones)
}

/// So many users of SIPp's, one for each run of a scenario.
fn of_users(node: &Edge, name: &str, users: u64) -> Outcome {
    let line =
        |number| format!("user{number};[authentication username=user{number} password=secret]\n");
    let lines: String = (1..=users).map(line).collect();
    let path = node.folder().join("users.csv");
    fs::write(&path, format!("SEQUENTIAL\n{lines}")).unwrap();
    let (path, users) = (path.to_str().unwrap(), users.to_string());
    let load = ["-inf", path, "-r", "150", "-m", &users];
    Caller::start(node.sip(), &scenario(name), &load).outcome(PATIENCE)
}

/// RFC 3261 §22.3, RFC 3325: calls to a pool are of users alone, and its server is told who they are.
#[test]
fn sipp_calls_with_passwords() {
    for state in ["stateless", "stateful"] {
        let server = Server::start(&scenario("asserting_server"));
        let settings = Settings::new();
        let pools = format!(
            "[[route]]\nto = \"app\"\nstate = \"{state}\"\nauth = true\n\
             remove = [\"X-Edge\"]\nadd = [\"X-Edge: one\"]\n\
             [pool.app]\nprobe = false\nservers = [ {{ address = \"{}\" }} ]",
            server.address
        );
        configure(&settings, "store = \"file:location.db\"", &pools);
        add_users(&settings, (1..=300).map(|number| format!("user{number}")));
        let node = settings.start();
        of_users(&node, "proven_caller", 300).expect_all(300);
        wait_until_idle(&node, PATIENCE);
        within(PATIENCE, "all calls at the server", || {
            server.invites() == 300
        });
        let counts = Counts::of(&node);
        assert!(counts.replies("407") >= 300);
        assert_eq!(counts.event("wrong_credentials"), 0);
    }
}

#[test]
fn sipp_registers_with_passwords() {
    let settings = Settings::new();
    configure(&settings, "store = \"file:location.db\"", "");
    add_users(&settings, (1..=300).map(|number| format!("user{number}")));
    let node = settings.start();
    register(&node, 300).expect_all(300);
    let counts = Counts::of(&node);
    assert_eq!((counts.event("bound"), counts.replies("200")), (300, 300));
}

#[test]
fn sipp_registers_without_passwords() {
    let node = start("store = \"memory\"\nauth = false");
    let load = ["-r", "300", "-m", "600"];
    let mut phones = Caller::start(node.sip(), &scenario("register_openly"), &load);
    phones.outcome(PATIENCE).expect_all(600);
    assert_eq!(Counts::of(&node).event("bound"), 600);
}

#[test]
fn sipsak_tests_the_user_location() {
    let mut settings = Settings::new();
    settings.sip = free_udp_of_four_digits();
    configure(&settings, "store = \"file:location.db\"", "");
    user(&settings, &["add", "bob@127.0.0.1"], "secret\n");
    let node = settings.start();
    let uri = format!("sip:bob@{}", node.sip());
    let output = command("sipsak", "sipsak")
        .args([
            "-U", "-i", "-x", "60", "-u", "bob", "-a", "secret", "-s", &uri,
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(Counts::of(&node).event("wrong_credentials"), 0);
    assert!(Counts::of(&node).event("bound") > 0);
}

/// A node has its file open alone, and memory is its own: it is asked for them.
#[test]
fn users_come_and_go_while_the_node_runs() {
    for store in ["memory", "file:location.db"] {
        let node = start(&format!("store = \"{store}\""));
        let run = |arguments: &[&str], input| user(&node.settings, arguments, input);
        let said = run(&["add", "user1@example.com"], "wrong\n");
        assert_eq!(said, "user1@example.com is added\n");
        assert_eq!(register(&node, 1).failed, 1);
        run(&["add", "--replace", "user1@example.com"], "secret\n");
        register(&node, 1).expect_all(1);

        let names = (1..=3_000).map(|number| format!("user{number},example.com,secret\n"));
        let table = "username,domain,password\n".to_owned() + &names.collect::<String>();
        let said = run(&["import", "-"], &table);
        assert_eq!(
            said,
            format!("{}: 2999 added, 1 replaced\n", address(&node, store))
        );
        assert_eq!(run(&["list"], "").lines().count(), 3_001);
        run(&["remove", "user1@example.com"], "");
        assert_eq!(run(&["list"], "").lines().count(), 3_000);
        assert_eq!(register(&node, 1).failed, 1);
    }
}

/// A store's address as commands show it.
fn address(node: &Edge, store: &str) -> String {
    let folder = node.folder().display();
    store.replace("file:", &format!("file:{folder}/"))
}

/// One of them announces itself there too, which is nobody's registration.
#[test]
fn nodes_with_one_redis_find_each_others_users() {
    let redis = Redis::start(&[]).unwrap();
    let store = format!("store = \"{}\"", redis.url());
    let announced = format!("{store}\n[cluster]\n{store}\nannounce = \"core\"");
    let (one, two) = (start(&announced), start(&store));
    add_users(&one.settings, ["alice", "bob"].map(str::to_owned));
    let (alice, bob) = (phone("alice", one.sip()), phone("bob", two.sip()));
    call(&alice, &bob);
    wait_until_idle(&one, PATIENCE);
    assert_eq!(Counts::of(&one).event("bound"), 1);
    assert_eq!(Counts::of(&two).event("bound"), 1);

    let mut check = sipyard();
    let config = one.settings.path();
    check.args(["store", "check", "--config"]).arg(config);
    let output = check.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = "ok (2 addresses-of-record with 2 bindings, 2 subscribers)";
    assert!(said.contains(expected), "{output:?}");
}

/// Sends a request of this method for a domain; the answer and how long it took.
fn ask(node: SocketAddr, method: &str, domain: &str) -> (String, Duration) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let here = socket.local_addr().unwrap();
    let request = format!(
        "{method} sip:{domain} SIP/2.0\r\nVia: SIP/2.0/UDP {here};branch=z9hG4bK{here}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:bob@{domain}>;tag=1\r\nTo: <sip:bob@{domain}>\r\n\
         Call-ID: {here}\r\nCSeq: 1 {method}\r\nContact: <sip:bob@{here}>\r\nContent-Length: 0\r\n\r\n"
    );
    let began = Instant::now();
    socket.send_to(request.as_bytes(), node).unwrap();
    let mut buffer = [0; 2_000];
    let length = socket.recv(&mut buffer).unwrap();
    let answer = String::from_utf8_lossy(&buffer[..length]).into_owned();
    (answer, began.elapsed())
}

/// Whoever needs the store is told to come again; whoever doesn't feels nothing.
#[test]
fn a_store_that_is_down_costs_only_those_who_need_it() {
    let mut redis = Redis::start(&[]).unwrap();
    let store = format!("store = \"{}\"", redis.url());
    let server = Server::start(&scenario("server"));
    let settings = Settings::new();
    let pools = format!(
        "[[route]]\nto = \"app\"\n[pool.app]\nprobe = false\nservers = [ {{ address = \"{}\" }} ]",
        server.address
    );
    configure(&settings, &(store + "\nauth = false"), &pools);
    let node = settings.start();
    within(PATIENCE, "a registration", || {
        ask(node.sip(), "REGISTER", "example.com")
            .0
            .starts_with("SIP/2.0 200")
    });

    redis.kill();
    let (answer, _) = ask(node.sip(), "REGISTER", "example.com");
    assert!(answer.starts_with("SIP/2.0 503"), "{answer}");
    assert!(answer.contains("\r\nRetry-After: "), "{answer}");
    node.wait_for_log("requests that need the store get 503");
    let (answer, took) = ask(node.sip(), "OPTIONS", "elsewhere.example");
    assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
    assert!(took < Duration::from_millis(500), "{took:?}");
    assert!(Counts::of(&node).event("store_failed") > 0);
}
