//! The section `[calls]`: what is kept of the latest calls, to be looked at.

use ::store::Address;
use recorder::{Collector, Settings};
use settings::{
    Read, Section, Value,
    value::{boolean, integer, list, text, word},
};

use super::address::address;
use crate::calls::{Format, Kept, RecordFile, StreamSettings, TraceExport};

/// A part of messages that may be hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    Users,
    Bodies,
}

const HIDDEN: [(&str, Hidden); 2] = [("users", Hidden::Users), ("bodies", Hidden::Bodies)];
const FORMATS: [(&str, Format); 2] = [("json", Format::Json), ("csv", Format::Csv)];

/// What is kept without `[calls]`: about 8,600 calls of 12 messages.
pub(crate) const DEFAULT: Settings = Settings {
    bytes_max: 64 << 20,
    calls_max: 100_000,
    one_in: 1,
    masks_users: false,
    masks_bodies: false,
    collector: None,
};

/// Reads `[calls]`.
pub(crate) fn calls(mut section: Section<'_>) -> Kept {
    let records = section.get_or("record", true, boolean);
    let memory_mib = section.get_or("memory_mib", DEFAULT.bytes_max >> 20, integer(1..=65_536));
    let calls_max = section.get_or("keep", DEFAULT.calls_max, integer(1..=10_000_000));
    let one_in = section.get_or("one_in", 1, integer(1..=1_000_000));
    let hide = section.get_or("hide", Vec::new(), list(word("part", &HIDDEN)));
    let collector = section.given_table("homer").and_then(homer);
    let hides_users = hide.contains(&Hidden::Users);
    let file = section.given_table("records");
    let file = file.and_then(|file| record_file(file, hides_users));
    let traces = section.given_table("traces").and_then(traces);
    section.finish();
    let latest = records.then_some(Settings {
        bytes_max: memory_mib << 20,
        calls_max,
        one_in: one_in as u32,
        masks_users: hides_users,
        masks_bodies: hide.contains(&Hidden::Bodies),
        collector,
    });
    Kept {
        latest,
        records: file,
        traces,
    }
}

/// Reads `records`; none if it has a mistake.
fn record_file(mut section: Section<'_>, hides_users: bool) -> Option<RecordFile> {
    let folder = section.folder().to_path_buf();
    let path = section.require("file", "write file = \"FILE\"", |value| {
        Ok(folder.join(text(value)?))
    });
    let format = section.get_or("format", Format::Json, word("format", &FORMATS));
    let mib_max = section.get_or("mib_max", 64, integer(1..=65_536));
    let files = section.get_or("files", 10, integer(1..=1_000));
    let open_max = section.get_or("open_max", 200_000, integer(1..=10_000_000));
    let journal = section.get_or("journal", true, boolean);
    let stream = section.given_table("redis").and_then(stream);
    if stream.is_some() && format == Format::Csv {
        section.problem("a stream takes JSON: write format = \"json\"");
    }
    section.finish();
    Some(RecordFile {
        path: path?.value,
        format,
        bytes_max: (mib_max as u64) << 20,
        files,
        open_max,
        journal,
        stream,
        hides_users,
    })
}

/// Reads `redis` of `records`; none if it has a mistake.
fn stream(mut section: Section<'_>) -> Option<StreamSettings> {
    let advice = "write the server, such as \"redis://10.0.0.5:6379\"";
    let address = section.require("store", advice, |value| match text(value)?.parse()? {
        Address::Redis(address) => Ok(address),
        other => Err(format!(
            "{other} has no streams: write \"redis://HOST:PORT\""
        )),
    });
    let key = section.get_or("stream", "sipyard:calls".to_owned(), key);
    let entries_max = section.get_or("entries_max", 1_000_000, integer(1..=1_000_000_000));
    section.finish();
    Some(StreamSettings {
        address: address?.value,
        stream: key,
        entries_max: entries_max as u64,
    })
}

/// The key of a stream. In a cluster, what stands between braces says where it lies.
fn key(value: &Value<'_>) -> Read<String> {
    match text(value)? {
        key if key.is_empty() || key.contains(['{', '}']) => {
            Err("write a key without braces, such as \"sipyard:calls\"".to_owned())
        }
        key => Ok(key.to_owned()),
    }
}

/// Reads `traces`; none if it has a mistake.
fn traces(mut section: Section<'_>) -> Option<TraceExport> {
    let advice = "write the collector's URL, such as \"http://127.0.0.1:4318/v1/traces\"";
    let url = section.require("endpoint", advice, endpoint);
    let one_in = section.get_or("one_in", 1, integer(1..=1_000_000));
    let open_max = section.get_or("open_max", 200_000, integer(1..=10_000_000));
    section.finish();
    Some(TraceExport {
        endpoint: url?.value,
        one_in: one_in as u32,
        open_max,
    })
}

fn endpoint(value: &Value<'_>) -> Read<String> {
    let url = text(value)?;
    match url.strip_prefix("http://") {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') => Ok(url.to_owned()),
        _ => Err(format!(
            "\"{url}\" is no URL of a collector; write http://HOST:PORT/PATH, as spans go without TLS"
        )),
    }
}

/// Reads `homer`; none if it has a mistake.
fn homer(mut section: Section<'_>) -> Option<Collector> {
    let advice = "write the collector's address, such as \"10.0.0.9:9060\"";
    let address = section.require("address", advice, address);
    let id = section.get_or("id", 1, integer(1..=u32::MAX as usize));
    let password = section.get("password", |value| text(value).map(str::to_owned));
    section.finish();
    Some(Collector {
        address: address?.value,
        id: id as u32,
        password: password.map(|it| it.value),
    })
}
