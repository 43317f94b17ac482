//! The calls of the API: one table routes them, describes them as OpenAPI, and makes the page of the reference.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use axum::{
    Json, Router,
    extract::DefaultBodyLimit,
    response::{IntoResponse, Response},
    routing::{MethodRouter, delete, get, post},
};
use serde_json::{Value, json};

use super::{
    bans, calls, configuration, drain, drain_node, explain_call, explain_message, guard::Access,
    live, readyz, records, reload, set_levels, show_metrics, show_status, undrain, undrain_node,
    users, weight,
};
use crate::{
    serve::Control,
    store::{ASK_BYTES_MAX, PATH},
    token::Role,
};

/// The largest message that `explain` takes: a longer one fits no datagram.
const BODY_BYTES_MAX: usize = 65_535;

/// Who may make a call on TCP. On the Unix socket whoever opens it may make all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Whoever watches over the node.
    Anybody,
    /// On a loopback address whoever asks, else tokens that read. What changes nothing and tells no secret.
    Readers,
    /// Tokens that read. What tells who calls whom: no other user of this machine may know that.
    Witnesses,
    /// Tokens that operate. What changes the node, or shows and changes its users.
    Operators,
}

impl Who {
    pub(super) const ALL: [Self; 4] = [
        Self::Anybody,
        Self::Readers,
        Self::Witnesses,
        Self::Operators,
    ];

    pub(super) fn access(self) -> Option<Access> {
        match self {
            Self::Anybody => None,
            Self::Readers => Some(Access::OpenOnLoopback(Role::Read)),
            Self::Witnesses => Some(Access::Token(Role::Read)),
            Self::Operators => Some(Access::Token(Role::Operate)),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Anybody => "anybody",
            Self::Readers => "on a loopback address anybody, else a token that reads",
            Self::Witnesses => "a token that reads",
            Self::Operators => "a token that operates",
        }
    }
}

/// A call of the API.
struct Operation {
    method: &'static str,
    path: &'static str,
    who: Who,
    /// What it does, in a sentence.
    what: &'static str,
    /// Parameters of the path, as its braces say, and of the query: name and meaning.
    parameters: &'static [(&'static str, &'static str)],
    /// What the request carries.
    body: Option<&'static str>,
    /// The media type of the answer.
    media: &'static str,
    route: fn() -> MethodRouter<Arc<Control>>,
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

const SERVER: (&str, &str) = ("address", "The server's address, such as 10.0.0.11:5060");
const USER: (&str, &str) = ("user", "A user of the registrar, such as alice@example.com");

impl Operation {
    const fn new(
        method: &'static str,
        path: &'static str,
        who: Who,
        what: &'static str,
        route: fn() -> MethodRouter<Arc<Control>>,
    ) -> Self {
        Self {
            method,
            path,
            who,
            what,
            parameters: &[],
            body: None,
            media: JSON,
            route,
        }
    }

    const fn with(self, parameters: &'static [(&'static str, &'static str)]) -> Self {
        Self { parameters, ..self }
    }

    const fn takes(self, body: &'static str) -> Self {
        Self {
            body: Some(body),
            ..self
        }
    }

    const fn answers(self, media: &'static str) -> Self {
        Self { media, ..self }
    }
}

static OPERATIONS: [Operation; 25] = {
    use Operation as O;
    use Who::{Anybody, Operators, Readers, Witnesses};
    [
        O::new("get", "/healthz", Anybody, "Answers ok while the process runs.", || {
            get(|| async { "ok\n" })
        })
        .answers(TEXT),
        O::new(
            "get",
            "/readyz",
            Anybody,
            "200 if the node takes calls, else 503 and why.",
            || get(readyz),
        )
        .answers(TEXT),
        O::new("get", "/metrics", Readers, "All figures, for Prometheus.", || {
            get(show_metrics)
        })
        .answers("application/openmetrics-text"),
        O::new("get", "/api/v1/openapi.json", Readers, "This description.", || get(show_openapi)),
        O::new("get", "/api/v1/status", Readers, "Servers, calls and counters.", || {
            get(show_status)
        }),
        O::new("get", "/api/v1/bans", Readers, "Banned sources.", || get(bans::list)),
        O::new(
            "get",
            "/api/v1/live",
            Readers,
            "Server-sent events: state has the whole, patch what has changed, log lines of the log.",
            || get(live::stream),
        )
        .answers("text/event-stream"),
        O::new(
            "get",
            "/api/v1/history",
            Readers,
            "The last hour or day of the node, or the last hour of a server.",
            || get(live::history),
        )
        .with(&[
            ("span", "hour or day; default: hour"),
            ("pool", "The server's pool"),
            ("server", "The server's address"),
        ]),
        O::new(
            "get",
            "/api/v1/explain",
            Readers,
            "Why a call is where it is: what the policy saw.",
            || get(explain_call),
        )
        .with(&[("call_id", "The Call-ID")]),
        O::new(
            "post",
            "/api/v1/explain",
            Readers,
            "What the node would do with a message. It does nothing.",
            || post(explain_message),
        )
        .with(&[
            ("from", "Where it comes from; default: as its Via says"),
            ("listener", "The listener that it comes to; default: the first"),
        ])
        .takes("The message"),
        O::new("get", "/api/v1/calls", Witnesses, "The latest calls that match.", || {
            get(calls::list)
        })
        .with(&[
            ("search", "Words: parts of Call-IDs, users, numbers, addresses, statuses"),
            ("state", "States, separated by commas, such as refused,lost"),
            ("since", "Seconds since the UNIX epoch"),
            ("until", "Seconds since the UNIX epoch"),
            ("order", "trouble or newest; default: trouble"),
            ("limit", "The most calls, up to 1000; default: 100"),
        ]),
        O::new("get", "/api/v1/call", Witnesses, "One call, message by message.", || {
            get(calls::show)
        })
        .with(&[
            ("call_id", "The Call-ID"),
            ("format", "json, text or pcapng; default: json"),
        ]),
        O::new(
            "post",
            "/api/v1/servers/{address}/drain",
            Operators,
            "The server gets no new calls.",
            || post(drain),
        )
        .with(&[SERVER]),
        O::new(
            "post",
            "/api/v1/servers/{address}/undrain",
            Operators,
            "The server gets new calls again.",
            || post(undrain),
        )
        .with(&[SERVER]),
        O::new(
            "post",
            "/api/v1/servers/{address}/weight",
            Operators,
            "The server has another capacity until the next reload.",
            || post(weight),
        )
        .with(&[SERVER, ("value", "The capacity")]),
        O::new("delete", "/api/v1/bans", Operators, "Lifts all bans.", || delete(bans::lift_all)),
        O::new("delete", "/api/v1/bans/{source}", Operators, "Lifts a ban.", || {
            delete(bans::lift)
        })
        .with(&[("source", "The banned address")]),
        O::new(
            "post",
            "/api/v1/log",
            Operators,
            "Changes what is logged, until the node ends.",
            || post(set_levels),
        )
        .with(&[("levels", "As --log takes them, such as debug")]),
        O::new("post", "/api/v1/drain", Operators, "The node takes no new calls.", || {
            post(drain_node)
        }),
        O::new("post", "/api/v1/undrain", Operators, "The node takes calls again.", || {
            post(undrain_node)
        }),
        O::new(
            "post",
            "/api/v1/reload",
            Operators,
            "Takes up the configuration file, whole or not at all.",
            || post(reload),
        ),
        O::new(
            "get",
            "/api/v1/configuration",
            Operators,
            "The configuration in force, and what a reload would change.",
            || get(configuration::show),
        ),
        O::new(
            "get",
            "/api/v1/users/{user}",
            Operators,
            "A user's bindings.",
            || get(users::show),
        )
        .with(&[USER]),
        O::new(
            "delete",
            "/api/v1/users/{user}/bindings",
            Operators,
            "Removes a binding of a user.",
            || delete(users::remove),
        )
        .with(&[USER, ("contact", "The contact, as it was registered")]),
        O::new(
            "post",
            PATH,
            Operators,
            "Reads and changes users and bindings, for sipyard user and sipyard store.",
            || post(records::records).layer(DefaultBodyLimit::max(ASK_BYTES_MAX)),
        )
        .takes("What is asked, in the words of this program's own version"),
    ]
};

/// The calls that these may make.
pub(super) fn routes(who: Who) -> Router<Arc<Control>> {
    let operations = OPERATIONS.iter().filter(|operation| operation.who == who);
    let routes = operations.fold(Router::new(), |router, operation| {
        router.route(operation.path, (operation.route)())
    });
    routes.layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
}

async fn show_openapi() -> Response {
    Json(openapi()).into_response()
}

/// The API as OpenAPI 3.1 describes it.
fn openapi() -> Value {
    let mut paths: BTreeMap<&str, BTreeMap<&str, Value>> = BTreeMap::new();
    for operation in &OPERATIONS {
        let path = paths.entry(operation.path).or_default();
        path.insert(operation.method, described(operation));
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Sipyard's admin API", "version": env!("CARGO_PKG_VERSION") },
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
        "paths": paths,
    })
}

fn described(operation: &Operation) -> Value {
    let parameters = operation.parameters.iter().map(|(name, meaning)| {
        let is_of_path = operation.path.contains(&format!("{{{name}}}"));
        let place = if is_of_path { "path" } else { "query" };
        json!({
            "name": name, "in": place, "required": is_of_path, "description": meaning,
            "schema": { "type": "string" },
        })
    });
    let mut described = json!({
        "summary": operation.what,
        "description": format!("Who may: {}.", operation.who.words()),
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": {
            "200": { "description": "It is so.", "content": { operation.media: {} } },
            "default": { "description": "It is not, and why.", "content": { JSON: {} } },
        },
    });
    if let Some(body) = operation.body {
        described["requestBody"] = json!({ "description": body, "content": { TEXT: {} } });
    }
    if operation.who != Who::Anybody {
        described["security"] = json!([{ "token": [] }]);
    }
    described
}

/// A page of the reference.
pub(crate) fn page() -> String {
    let mut page = "# API\n\nThe admin address and the Unix socket answer these. `sipyard ctl` and the dashboard use \
                    nothing else. A token goes into `Authorization: Bearer TOKEN`; on the Unix socket none is needed. \
                    `/api/v1/openapi.json` is the same as OpenAPI.\n"
        .to_owned();
    for operation in &OPERATIONS {
        let method = operation.method.to_uppercase();
        let Operation {
            path, who, what, ..
        } = operation;
        let words = who.words();
        write!(page, "\n## {method} {path}\n\n{what} Who may: {words}.\n")
            .expect("a text takes all");
        if let Some(body) = operation.body {
            writeln!(page, "The request carries: {body}.").expect("a text takes all");
        }
        if !operation.parameters.is_empty() {
            page += "\n| parameter | meaning |\n|---|---|\n";
        }
        for (name, meaning) in operation.parameters {
            writeln!(page, "| `{name}` | {meaning} |").expect("a text takes all");
        }
    }
    page
}
