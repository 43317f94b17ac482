//! Random messages in any order: whatever comes, the ledger is the sum of what is open, and in
//! the end nothing is.

use std::time::Duration;

use node::Config;
use proptest::prelude::*;

use crate::{
    harness::{ALICE, BOB, Cluster, ONE, Sent, THREE, TRANSACTION_MAX, TWO, config, ms, s},
    message::{Dialog, Msg, request},
};

const SERVERS: [&str; 3] = [ONE, TWO, THREE];

/// Numbers choose from what there is; `back` counts from the latest.
#[derive(Clone, Debug)]
enum Step {
    /// A caller or a server begins something, or does so again with the next CSeq.
    Begin {
        call: u8,
        method: &'static str,
        from: &'static str,
    },
    /// Whoever got a request answers it, and maybe another answered before.
    Respond {
        back: usize,
        status: u16,
        fork: u8,
    },
    /// One side of a dialog sends a request.
    InDialog {
        back: usize,
        is_caller: bool,
        method: &'static str,
    },
    /// A caller gives a request up, whatever has become of it.
    Cancel {
        back: usize,
    },
    /// A failure is acknowledged.
    Acknowledge {
        back: usize,
    },
    /// What came in comes in again.
    Repeat {
        back: usize,
    },
    Wait(Duration),
    Unreachable(&'static str),
    /// Only these servers are configured from here on.
    Reload([bool; 3]),
    /// The process dies, the calls don't.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let back = 0_usize..6;
    let initial = prop::sample::select(vec![
        "INVITE",
        "INVITE",
        "INVITE",
        "SUBSCRIBE",
        "REGISTER",
        "REFER",
        "NOTIFY",
    ]);
    let within = prop::sample::select(vec![
        "BYE",
        "BYE",
        "INVITE",
        "UPDATE",
        "INFO",
        "PRACK",
        "ACK",
        "REFER",
        "NOTIFY",
        "SUBSCRIBE",
    ]);
    let status = prop::sample::select(vec![
        100, 180, 180, 200, 200, 200, 302, 401, 408, 481, 487, 500, 503, 603,
    ]);
    let from = prop::sample::select(vec![ALICE, ALICE, BOB, ONE]);
    let wait = prop_oneof![
        4 => 0_u64..1_500,
        2 => 1_000_u64..40_000,
        1 => 100_000_u64..2_000_000,
    ];
    prop_oneof![
        5 => (0_u8..4, initial, from)
            .prop_map(|(call, method, from)| Step::Begin { call, method, from }),
        10 => (back.clone(), status, 0_u8..2)
            .prop_map(|(back, status, fork)| Step::Respond { back, status, fork }),
        6 => (back.clone(), any::<bool>(), within)
            .prop_map(|(back, is_caller, method)| Step::InDialog { back, is_caller, method }),
        1 => back.clone().prop_map(|back| Step::Cancel { back }),
        1 => back.clone().prop_map(|back| Step::Acknowledge { back }),
        2 => back.prop_map(|back| Step::Repeat { back }),
        4 => wait.prop_map(|wait| Step::Wait(ms(wait))),
        1 => prop::sample::select(SERVERS.to_vec()).prop_map(Step::Unreachable),
        1 => any::<[bool; 3]>().prop_map(Step::Reload),
        1 => Just(Step::Restart),
    ]
}

fn farm(servers: &[&str]) -> Config {
    let mut config = config(servers);
    config.limits.sessions = 12;
    config.limits.transactions = 12;
    config.limits.retained_requests = 2;
    config.timers.call_max = s(3600);
    config
}

/// What the parties around the node have sent and got.
struct Stage {
    cluster: Cluster,
    /// What came in.
    inputs: Vec<Msg>,
    /// Requests that went out.
    requests: Vec<Sent>,
    /// Failures that went out.
    failures: Vec<Sent>,
    /// Both sides of each dialog that was begun.
    dialogs: Vec<[Dialog; 2]>,
    begun: [u32; 4],
}

fn latest<T>(list: &[T], back: usize) -> Option<&T> {
    list.get(list.len().checked_sub(1 + back)?)
}

impl Stage {
    fn new(workers: usize) -> Self {
        Self {
            cluster: Cluster::with_workers(farm(&SERVERS), workers),
            inputs: Vec::new(),
            requests: Vec::new(),
            failures: Vec::new(),
            dialogs: Vec::new(),
            begun: [0; 4],
        }
    }

    fn play(&mut self, step: &Step) {
        match *step {
            Step::Begin { call, method, from } => self.begin(call, method, from),
            Step::Respond { back, status, fork } => self.respond(back, status, fork),
            Step::InDialog {
                back,
                is_caller,
                method,
            } => self.in_dialog(back, is_caller, method),
            Step::Cancel { back } => {
                if let Some(request) = latest(&self.inputs, back).filter(|m| m.is_request()) {
                    self.enter(request.cancel());
                }
            }
            Step::Acknowledge { back } => self.acknowledge(back),
            Step::Repeat { back } => {
                if let Some(message) = latest(&self.inputs, back).cloned() {
                    self.enter(message);
                }
            }
            Step::Wait(time) => {
                let sent = self.cluster.wait(time);
                self.keep(sent);
            }
            Step::Unreachable(server) => {
                let sent = self.cluster.unreachable(server);
                self.keep(sent);
            }
            Step::Reload(chosen) => self.reload(chosen),
            Step::Restart => self.cluster.restart(farm(&SERVERS)),
        }
    }

    fn begin(&mut self, call: u8, method: &str, from: &str) {
        let begun = &mut self.begun[usize::from(call)];
        *begun += 1;
        let mut message = request(method, from, &format!("call{call}"));
        if from == ONE {
            message.start = format!("{method} sip:bob@{BOB} SIP/2.0");
        }
        let branch = format!("call{call}-{begun}");
        let message = message.again(*begun, &branch);
        self.enter(message);
    }

    fn respond(&mut self, back: usize, status: u16, fork: u8) {
        let Some(received) = latest(&self.requests, back).filter(|r| r.method() != "ACK") else {
            return;
        };
        let received = received.clone();
        let mut response = received.respond_as(status, &format!("fork{fork}"));
        if status == 200 && fork == 1 {
            response = response.with("Session-Expires", 90).with("Expires", 60);
        } else if status == 503 && fork == 1 {
            response = response.with("Retry-After", 20);
        }
        let back = self.enter(response.clone());
        let is_begun = (101..300).contains(&status) && !received.get("Contact").is_empty();
        let request = self.inputs.iter().find(|message| {
            let is_initial = message.is_request() && !message.get("To").contains("tag=");
            is_initial
                && received.all("Via").len() > 1
                && received.all("Via")[1].contains(message.branch())
        });
        if let (true, Some(request), [back]) = (is_begun, request, &back[..])
            && back.status() == status
        {
            let caller = Dialog::of_caller(request, back);
            let callee = Dialog::of_callee(&received, &response);
            self.dialogs.push([caller, callee]);
        }
    }

    fn in_dialog(&mut self, back: usize, is_caller: bool, method: &str) {
        let Some(place) = self.dialogs.len().checked_sub(1 + back) else {
            return;
        };
        let side = &mut self.dialogs[place][usize::from(!is_caller)];
        let message = match method {
            "ACK" => side.ack(),
            "NOTIFY" => side
                .request(method)
                .with("Subscription-State", "terminated"),
            _ => side.request(method),
        };
        self.enter(message);
    }

    fn acknowledge(&mut self, back: usize) {
        let Some(failure) = latest(&self.failures, back) else {
            return;
        };
        let request = self
            .inputs
            .iter()
            .find(|message| message.is_request() && message.branch() == failure.branch());
        if let Some(request) = request {
            self.enter(request.ack_of(&failure.message));
        }
    }

    fn reload(&mut self, chosen: [bool; 3]) {
        let servers: Vec<_> = SERVERS
            .into_iter()
            .zip(chosen)
            .filter_map(|(server, is_chosen)| is_chosen.then_some(server))
            .collect();
        let now = self.cluster.now;
        self.cluster.shared.reload(farm(&servers), now).unwrap();
    }

    fn enter(&mut self, message: Msg) -> Vec<Sent> {
        let sent = self.cluster.send(&message);
        self.inputs.push(message);
        self.keep(sent.clone());
        sent
    }

    fn keep(&mut self, sent: Vec<Sent>) {
        for sent in sent {
            match sent.status() {
                0 => self.requests.push(sent),
                300.. => self.failures.push(sent),
                _ => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_comes_the_ledger_is_right_and_ends_at_zero(
        workers in prop::sample::select(vec![1_usize, 3]),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let mut stage = Stage::new(workers);
        for step in &steps {
            stage.play(step);
        }
        stage.cluster.wait(s(3600) + 4 * TRANSACTION_MAX);
        prop_assert_eq!(stage.cluster.total(), (0, 0, 0.0));
        prop_assert_eq!(stage.cluster.sizes(), (0, 0, 0));
    }
}
