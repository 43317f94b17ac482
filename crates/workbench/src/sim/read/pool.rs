//! Reads the policies that place calls.

use std::time::Duration;

use balance::Policy;
use node::config::Pool;
use settings::{
    Item, Read, Section, Value, hint,
    pool::{answer_timeout, costs},
    value::{boolean, expected, name},
};

use super::{super::scenario::PolicySetup, values::time};

/// RFC 3261 §17.1.1.1.
const T1: Duration = Duration::from_millis(500);

/// Reads `policy`: a policy's name, a table with the keys of its pool, or a list of these.
pub(super) fn policies(root: &mut Section<'_>) -> Vec<PolicySetup> {
    let mut policies: Vec<PolicySetup> = Vec::new();
    for item in root.items("policy") {
        let (found, at) = match item {
            Item::Value(found) => match policy(found.value) {
                Ok(policy) => (Some(plain(policy)), found.at),
                Err(message) => {
                    root.problem_of("policy", found.at, &message);
                    continue;
                }
            },
            Item::Table(section) => {
                let at = section.at();
                (detailed(section), at)
            }
        };
        let Some(found) = found else {
            continue;
        };
        if policies.iter().any(|other| other.name == found.name) {
            let message = format!("two policies have the name \"{}\": rename one", found.name);
            root.problem_of("policy", at, &message);
        }
        policies.push(found);
    }
    if policies.is_empty() {
        policies.push(plain(Policy::Tlwl));
    }
    policies
}

fn plain(policy: Policy) -> PolicySetup {
    PolicySetup {
        name: policy.to_string(),
        pool: Pool {
            name: "app".to_owned(),
            policy,
            costs: vec![("BYE".to_owned(), 1.0), ("INVITE".to_owned(), 1.75)],
            learn_costs: false,
            servers: Vec::new(),
            probe: None,
            slow_start: Duration::ZERO,
            answer_timeout: 4 * T1,
            overload_control: false,
            // Experiments compare policies, which a limit would help.
            learn_room: false,
        },
    }
}

fn detailed(mut section: Section<'_>) -> Option<PolicySetup> {
    let advice = "write policy = \"tlwl\"";
    let policy = section.require("policy", advice, policy);
    let called = section.get("name", name);
    let setup = policy.map(|policy| {
        let plain = plain(policy.value);
        PolicySetup {
            name: called.map_or(plain.name, |name| name.value.to_owned()),
            pool: Pool {
                learn_costs: section.is_text("costs", "learn"),
                costs: costs(&mut section),
                answer_timeout: answer_timeout(&mut section, T1),
                slow_start: section.get_or("slow_start", Duration::ZERO, time),
                learn_room: section.get_or("learn_room", false, boolean),
                ..plain.pool
            },
        }
    });
    section.finish();
    setup
}

fn policy(value: &Value<'_>) -> Read<Policy> {
    let name = value
        .as_str()
        .ok_or_else(|| expected("a policy in quotes, such as \"tlwl\"", value))?;
    name.parse().map_err(|_| {
        let names: Vec<&str> = Policy::ALL.iter().map(|policy| policy.name()).collect();
        format!("unknown policy \"{name}\"; {}", hint(name, &names))
    })
}
