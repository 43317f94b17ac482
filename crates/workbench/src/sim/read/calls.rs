//! Reads how calls are spaced.

use load::{Bursts, Stream};
use settings::{
    Item, Section,
    value::{name, number, word},
};

use super::values::time;

const STREAMS: [(&str, Stream); 2] = [("poisson", Stream::Poisson), ("even", Stream::Even)];

/// Reads `arrivals`: a word, a table of bursts, or a list of these.
pub(super) fn streams(root: &mut Section<'_>) -> Vec<(String, Stream)> {
    let mut streams = Vec::new();
    for item in root.items("arrivals") {
        match item {
            Item::Value(found) => match word("word", &STREAMS)(found.value) {
                Ok(stream) => {
                    streams.push((found.value.as_str().unwrap_or_default().to_owned(), stream))
                }
                Err(message) => root.problem_of("arrivals", found.at, &message),
            },
            Item::Table(section) => streams.extend(bursty(section)),
        }
    }
    if streams.is_empty() {
        streams.push(("poisson".to_owned(), Stream::Poisson));
    }
    streams
}

fn bursty(mut section: Section<'_>) -> Option<(String, Stream)> {
    let called = section.get_or("name", "bursty", name).to_owned();
    let ratio = section.require(
        "ratio",
        "write how many times the rate of calm times a burst has",
        number(1.0..=1e6),
    );
    let calm = section.require(
        "calm",
        "write the mean length of a calm time, such as \"9s\"",
        time,
    );
    let burst = section.require(
        "burst",
        "write the mean length of a burst, such as \"1s\"",
        time,
    );
    section.finish();
    let bursts = Bursts {
        ratio: ratio?.value,
        calm: calm?.value,
        burst: burst?.value,
    };
    Some((called, Stream::Bursty(bursts)))
}
