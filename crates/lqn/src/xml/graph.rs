//! `<task-activities>`: the activities of a task and what comes after what.

use roxmltree::Node;

use super::read::{Reader, elements};
use crate::graph::{After, Before, Precedence};

impl<'a> Reader<'a> {
    pub(super) fn graph(&mut self, node: Node<'a, 'a>, task: &str) {
        let line = self.line(node);
        self.builder.at(line).graph(task).line = Some(line);
        for child in elements(node) {
            match child.tag_name().name() {
                "activity" => self.graph_activity(child, task),
                "precedence" => self.precedence(child, task),
                "reply-entry" => self.replies(child, task),
                _ => {}
            }
        }
    }

    fn graph_activity(&mut self, node: Node<'a, 'a>, task: &str) {
        let Some(name) = self.name(node) else { return };
        let work = self.work(node, 0);
        let graph = self.builder.graph(task);
        graph.activities.insert(name.to_owned(), work);
        if let Some(entry) = node.attribute("bound-to-entry") {
            graph.starts.push((entry.to_owned(), name.to_owned()));
        }
    }

    fn precedence(&mut self, node: Node<'a, 'a>, task: &str) {
        let (mut before, mut after) = (None, None);
        for child in elements(node) {
            let kind = child.tag_name().name();
            let names = self.names(child);
            let first = || names.first().cloned();
            match kind {
                "pre" => before = first().map(Before::One),
                "pre-or" => before = Some(Before::Or(names)),
                "pre-and" => before = Some(Before::And(names, self.count(child, "quorum"))),
                "post" => after = first().map(After::One),
                "post-or" => after = Some(After::Or(self.shares(child, "prob"))),
                "post-and" => after = Some(After::And(names)),
                "post-loop" => {
                    let end = child.attribute("end").map(str::to_owned);
                    after = Some(After::Loop(self.shares(child, "count"), end));
                }
                other => self.say(child, format!("<{other}> in a precedence is not known")),
            }
        }
        match (before, after) {
            (Some(before), Some(after)) => {
                let precedences = &mut self.builder.graph(task).precedences;
                precedences.push(Precedence { before, after });
            }
            // An activity after which nothing comes needs no precedence.
            (Some(_), None) => {}
            (None, _) => self.say(node, "a precedence needs <pre> and <post>".to_owned()),
        }
    }

    fn replies(&mut self, node: Node<'a, 'a>, task: &str) {
        let Some(entry) = self.name(node) else { return };
        for activity in self.names(node) {
            let reply = (activity, entry.to_owned());
            self.builder.graph(task).replies.push(reply);
        }
    }

    fn names(&mut self, node: Node<'a, 'a>) -> Vec<String> {
        let children: Vec<_> = elements(node).collect();
        let names = children.into_iter().filter_map(|child| self.name(child));
        names.map(str::to_owned).collect()
    }

    fn shares(&mut self, node: Node<'a, 'a>, attribute: &str) -> Vec<(f64, String)> {
        let children: Vec<_> = elements(node).collect();
        let mut shares = Vec::new();
        for child in children {
            self.required(child, attribute);
            let share = self.number(child, attribute).unwrap_or(1.0);
            shares.extend(self.name(child).map(|name| (share, name.to_owned())));
        }
        shares
    }
}
