//! LQNS's `.lqnx` XML.

mod graph;
mod locking;
mod read;
mod write;
mod write_forks;

#[cfg(test)]
mod tests {
    use crate::Model;

    const GOOD: &str = r#"<?xml version="1.0"?>
<lqn-model name="m">
  <solver-params comment="two &amp; two"/>
  <processor name="Pc" scheduling="inf">
    <task name="cT" scheduling="ref" multiplicity="5" think-time="5">
      <entry name="ce" type="PH1PH2">
        <entry-phase-activities>
          <activity name="a" phase="1" host-demand-mean="0" call-order="DETERMINISTIC">
            <synch-call dest="se" calls-mean="1"/>
            <asynch-call dest="xe" calls-mean="2"/>
          </activity>
        </entry-phase-activities>
      </entry>
    </task>
  </processor>
  <processor name="Ps" scheduling="ps" quantum="0.1" speed-factor="2">
    <task name="sT" scheduling="fcfs" queue-length="3">
      <entry name="se" type="PH1PH2">
        <forwarding dest="xe" prob="0.5"/>
        <entry-phase-activities>
          <activity name="b" phase="1" host-demand-mean="1"/>
          <activity name="c" phase="2" host-demand-mean="1" host-demand-cvsq="0.5" think-time="1"/>
        </entry-phase-activities>
      </entry>
    </task>
    <task name="xT" scheduling="inf">
      <entry name="xe" type="PH1PH2" open-arrival-rate="0.1">
        <entry-phase-activities>
          <activity name="d" phase="1" host-demand-mean="1"/>
        </entry-phase-activities>
      </entry>
    </task>
  </processor>
</lqn-model>
"#;

    #[test]
    fn a_good_file_is_read_and_written() {
        let model = Model::from_xml(GOOD).unwrap();
        assert_eq!(model.comment(), "two & two");
        assert_eq!(model.tasks()[0].think_time(), 5.0);
        assert_eq!(model.entries()[1].phases[1].cvsq, 0.5);
        assert_eq!(Model::from_xml(&model.to_xml()).unwrap(), model);
        assert_eq!(Model::from_text(&model.to_text()).unwrap(), model);
    }

    #[test]
    fn each_mistake_has_its_line() {
        let cases = [
            (
                r#"dest="se" calls-mean="1""#,
                r#"dest="ue" calls-mean="1""#,
                "line 9: entry ce calls ue, which no task serves",
            ),
            (
                r#"prob="0.5""#,
                r#"prob="half""#,
                "line 19: prob=\"half\": expected a number",
            ),
            (
                r#"scheduling="ps""#,
                r#"scheduling="lifo""#,
                "line 16: scheduling=\"lifo\": use fcfs, hol, pp, ps or inf",
            ),
            (
                r#"scheduling="ps""#,
                r#"scheduling="cfs""#,
                "line 16: scheduling=\"cfs\": groups with shares of a processor are not supported: give each group",
            ),
            (
                r#"scheduling="fcfs" queue"#,
                r#"scheduling="poll" queue"#,
                "line 17: scheduling=\"poll\": polling of entries is not supported",
            ),
            (
                r#"name="b" phase="1""#,
                r#"name="b" phase="4""#,
                "line 21: phase=\"4\": write 1 to 3",
            ),
            (
                r#"<task name="sT""#,
                r#"<task nome="sT""#,
                "line 17: <task> has no name",
            ),
            ("</lqn-model>", "</lqn>", "line 34: this is not XML"),
        ];
        for (good, bad, expected) in cases {
            let text = GOOD.replacen(good, bad, 1);
            let problems = Model::from_xml(&text).unwrap_err();
            let found: Vec<_> = problems.iter().map(ToString::to_string).collect();
            assert!(
                found.iter().any(|problem| problem.starts_with(expected)),
                "{bad}: {found:#?}"
            );
        }
    }
}
