//! LQNS's `.lqn` text.

mod graph;
mod locking;
mod read;
mod tokens;
mod write;
mod write_forks;

#[cfg(test)]
mod tests {
    use crate::Model;

    fn problems(text: &str) -> Vec<String> {
        match Model::from_text(text) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
        }
    }

    const GOOD: &str = "G \"a # no comment\" 1e-6 100 1 0.9 -1 # a comment
P 2
 p Pc i
 p Ps s 0.01 m 2
-1
T 2
 t cT r ce -1 Pc z 5 m 5
 t sT n se xe -1 Ps 3 m 2 q 7
-1
E 3
 s ce 0 -1
 s se 1 .5 -1
 s xe 1 -1
 y ce se 1 -1
 z se xe 0 2 -1
 f se 0 1 -1
 c se 0.5 0.25 -1
 a xe 0.5
-1
";

    #[test]
    fn a_good_file_is_read_and_written() {
        let model = Model::from_text(GOOD).unwrap();
        assert_eq!(model.comment(), "a # no comment");
        assert_eq!(model.tasks()[1].queue_length, Some(7));
        assert_eq!(model.tasks()[1].priority, 3);
        assert_eq!(model.entries()[1].phases[1].calls[0].mean, 2.0);
        assert_eq!(Model::from_text(&model.to_text()).unwrap(), model);
    }

    /// What in the good file becomes what, and what is told then.
    const MISTAKES: [(&str, &str, &str); 17] = [
        (
            " p Ps s 0.01 m 2",
            " p Ps x",
            "line 4: processor scheduling x: use f (first come, first served), h (head of line), p (preemptive), s",
        ),
        (
            " p Ps s 0.01 m 2",
            " p Ps c 0.01",
            "line 4: processor scheduling c: groups with shares of a processor are not supported",
        ),
        (
            " p Ps s 0.01 m 2",
            " p Ps r",
            "line 4: processor scheduling r: service in random order is not supported: use first come, first served",
        ),
        (
            "T 2",
            "U 1\n g all 0.5 Ps\n-1\nT 2",
            "line 6: groups with shares of a processor are not supported: give each group a processor of its own",
        ),
        (
            " t sT n se",
            " t sT h se",
            "line 8: task scheduling h: a task serves in the order of arrival: give tasks priorities",
        ),
        (
            "Ps 3 m 2",
            "Ps -3 m 2",
            "line 8: -3: write a priority (0 or more), m, i, o, r, z, q or T after a task's processor",
        ),
        (
            " p Ps s 0.01 m 2",
            " p Ps s 0.01 m 0",
            "line 4: processor Ps has multiplicity 0: write at least 1",
        ),
        (
            "-1 Pc z 5",
            "-1 Px z 5",
            "line 7: task cT runs on processor Px, which is not in the model",
        ),
        (
            " s xe 1 -1",
            " s ye 1 -1",
            "line 13: no task has an entry ye",
        ),
        (
            " y ce se 1",
            " y ce ue 1",
            "line 14: entry ce calls ue, which no task serves",
        ),
        (
            " s xe 1 -1",
            " s xe one -1",
            "line 13: one: expected a number",
        ),
        (
            " s xe 1 -1",
            " s xe -2 -1",
            "line 8: entry xe, phase 1: service time -2: write at least 0",
        ),
        (
            " z se xe 0 2 -1",
            " y se ce 0 2 -1",
            "line 8: entry se, phase 2: a call to ce, of a reference task, which takes no requests",
        ),
        (
            " z se xe 0 2 -1",
            " y se xe 0 2 -1",
            "line 8: synchronous calls form a circle, so threads can wait for each other \
                 forever: sT -> sT",
        ),
        (
            " a xe 0.5\n",
            " F se xe 1.5 -1\n",
            "line 8: entry se forwards to xe with probability 1.5: write 0 to 1",
        ),
        (
            " a xe 0.5\n-1\n",
            " a xe 0.5\n",
            "line 18: the file ends within section E: end the section with -1",
        ),
        (
            " s xe 1 -1",
            " A xe act",
            "line 13: activities of task sT: act is no activity: write its work, as in `s act 0.5`",
        ),
    ];

    #[test]
    fn each_mistake_has_its_line() {
        for (good, bad, expected) in MISTAKES {
            let text = GOOD.replacen(good, bad, 1);
            assert_ne!(text, GOOD, "{good}");
            let found = problems(&text);
            assert!(
                found.iter().any(|problem| problem.starts_with(expected)),
                "{bad}: {found:#?}"
            );
        }
    }

    #[test]
    fn all_mistakes_come_at_once() {
        let text = GOOD
            .replace("-1 Pc z 5", "-1 Px z -5")
            .replace(" y ce se", " y ce ue");
        assert_eq!(problems(&text).len(), 3);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "hello",
            "G",
            "P 1\n p",
            "T 0\n t t n",
            "E 0\n s",
            "G \"open",
            "-1",
        ] {
            assert!(!problems(text).is_empty(), "{text}");
        }
    }
}
