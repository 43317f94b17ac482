//! The section `[calls]`.

use super::*;

#[test]
fn what_is_kept_of_calls_can_be_wrong_in_many_ways() {
    check(
        &good(
            r#"[calls]
memory_mib = 0
one_in = "all"
hide = ["user"]
homer = { id = 0 }
traces = { endpoint = "https://collector/v1/traces" }
records = { file = "calls.csv", format = "xml", files = 0, redis = { store = "memory", stream = "a{b}", most = 1 } }
"#,
        ),
        &[
            "f:6:14: calls.memory_mib: 0 is out of range: write a value from 1 to 65536",
            "f:7:10: calls.one_in: expected an integer, found a string",
            "f:8:8: calls.hide: unknown part \"user\"; did you mean `users`?",
            "f:9:9: calls.homer: `address` is missing: write the collector's address, such as \
             \"10.0.0.9:9060\"",
            "f:9:16: calls.homer.id: 0 is out of range: write a value from 1 to 4294967295",
            "f:10:23: calls.traces.endpoint: \"https://collector/v1/traces\" is no URL of a collector; \
             write http://HOST:PORT/PATH, as spans go without TLS",
            "f:11:42: calls.records.format: unknown format \"xml\"; choose one of json, csv",
            "f:11:57: calls.records.files: 0 is out of range: write a value from 1 to 1000",
            "f:11:78: calls.records.redis.store: memory has no streams: write \"redis://HOST:PORT\"",
            "f:11:97: calls.records.redis.stream: write a key without braces, such as \"sipyard:calls\"",
            "f:11:105: unknown key `calls.records.redis.most`; choose one of store, stream, entries_max",
        ],
    );
    check(
        &good(
            r#"calls.records = { file = "f.csv", format = "csv", redis = { store = "redis://h" } }"#,
        ),
        &["f:5:17: calls.records: a stream takes JSON: write format = \"json\""],
    );
}
