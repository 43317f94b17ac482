//! Writes call records to a file, from the thread that records.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use node::Snapshot;
use recorder::{Record, RecordCounts, Records};

use super::{
    follow::End,
    journal::{Journal, Left},
    stream::{Sender, StreamSettings},
};

/// Who may read records: they tell who called whom.
const MODE: u32 = 0o640;

const COLUMNS: [&str; 17] = [
    "id", "node", "call_id", "outcome", "status", "from", "to", "source", "begun", "rang",
    "answered", "ended", "talked_s", "ended_by", "pool", "server", "tried",
];

/// How a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// An object of JSON on each line.
    Json,
    /// A line of values, after one of names.
    Csv,
}

/// Where call records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordFile {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    /// A file that would be longer becomes `path.1`, and that one `path.2`.
    pub(crate) bytes_max: u64,
    /// The most files, the one that is written included.
    pub(crate) files: usize,
    /// The most attempts that are followed at a time.
    pub(crate) open_max: usize,
    /// What is not told yet outlives the process.
    pub(crate) journal: bool,
    /// Where records go besides the file.
    pub(crate) stream: Option<StreamSettings>,
    pub(crate) hides_users: bool,
}

/// The records of the calls that pass, and their file.
#[derive(Debug)]
pub(super) struct Keeper {
    settings: RecordFile,
    node: String,
    mask_key: [u8; 16],
    records: Records,
    journal: Option<Arc<Journal>>,
    sender: Option<Sender>,
    /// None until something is written, and after a failure.
    file: Option<(File, u64)>,
    is_failing: bool,
    lost: u64,
}

impl Keeper {
    pub(super) fn new(settings: RecordFile, node: String, mask_key: [u8; 16]) -> Self {
        let mask = settings.hides_users.then_some(mask_key);
        Self {
            records: Records::new(node.clone(), settings.open_max, mask),
            sender: sender(&settings, &node),
            settings,
            node,
            mask_key,
            journal: None,
            file: None,
            is_failing: false,
            lost: 0,
        }
    }

    /// Opens its file anew for the next record: somebody may have moved it.
    pub(super) fn set(&mut self, settings: RecordFile) {
        let before = std::mem::replace(&mut self.settings, settings);
        self.file = None;
        let mask = self.settings.hides_users.then_some(self.mask_key);
        self.records.set(self.settings.open_max, mask);
        if before != self.settings {
            self.sender = sender(&self.settings, &self.node);
            self.send_what_is_there();
        }
    }

    /// What is in the files is whole.
    fn send_what_is_there(&self) {
        if let Some(sender) = &self.sender {
            sender.tell(End::default());
        }
    }

    /// Records sent to a stream, and attempts that failed; none: there is no stream.
    pub(super) fn sent(&self) -> Option<(u64, u64)> {
        self.sender.as_ref().map(Sender::counts)
    }

    /// What was told, and how many records could not be written.
    pub(super) fn counts(&self) -> (RecordCounts, u64) {
        (self.records.counts(), self.lost)
    }

    /// Tells how far it is from now on.
    pub(super) fn set_journal(&mut self, journal: Arc<Journal>) {
        self.journal = Some(journal);
    }

    /// Whether it is to have a journal and has none.
    pub(super) fn lacks_journal(&self) -> bool {
        self.settings.journal && self.journal.is_none()
    }

    /// Nothing more is to be told.
    pub(super) fn end(&mut self) {
        self.take(Duration::MAX, |_, _| {});
    }

    /// Messages that the journal had no room for; none: there is no journal.
    pub(super) fn unjournaled(&self) -> Option<u64> {
        self.journal.as_ref().map(|journal| journal.lost())
    }

    /// Follows what passed up to `until` by what `follow` gives, and writes the records that come of it.
    pub(super) fn take(
        &mut self,
        until: Duration,
        follow: impl FnOnce(&mut Records, &mut Vec<Record>),
    ) {
        let mut told = Vec::new();
        follow(&mut self.records, &mut told);
        let journal = self.journal.clone();
        self.tell(&told, |file, added| match &journal {
            Some(journal) => journal.begin(until, file, added),
            None => Ok(()),
        });
        if let Some(Err(error)) = journal.map(|journal| journal.end(until)) {
            tracing::error!("the journal of call records can't be written: {error}");
            self.journal = None;
        }
        if let Some(sender) = self.sender.as_ref().filter(|_| until == Duration::MAX) {
            sender.finish();
        }
    }

    /// Tells the records of calls that ended when a process did that could not tell them.
    pub(super) fn recover(&mut self, snapshot: &Snapshot) {
        for left in Left::find(&self.settings.path) {
            let mut told = Vec::new();
            let mut tell = |record| told.push(record);
            let Left {
                passed,
                since,
                zero,
                ..
            } = &left;
            self.records
                .replay(passed, *since, snapshot, *zero, &mut tell);
            let count = told.len();
            if !self.tell(&told, |file, added| left.begin(file, added)) {
                continue;
            }
            match left.remove() {
                Ok(()) => {
                    tracing::info!("{count} call records were left of a process that was killed")
                }
                Err(error) => tracing::error!("a journal of call records stays: {error}"),
            }
        }
        self.send_what_is_there();
    }

    /// Writes records, if it can. `begin` learns what they are written to, and how long they are.
    fn tell(&mut self, told: &[Record], begin: impl FnOnce(&File, u64) -> io::Result<()>) -> bool {
        if told.is_empty() {
            return true;
        }
        let lines = lines(self.settings.format, told);
        let written = self.write(&lines, begin);
        match &written {
            Ok(()) if self.is_failing => {
                tracing::info!("call records are written again, {} were lost", self.lost);
                self.is_failing = false;
            }
            Ok(()) => {}
            Err(error) => {
                self.lost += told.len() as u64;
                self.file = None;
                if !self.is_failing {
                    let path = self.settings.path.display();
                    tracing::error!("call records can't be written to {path}: {error}");
                    self.is_failing = true;
                }
            }
        }
        written.is_ok()
    }

    fn write(
        &mut self,
        lines: &[u8],
        begin: impl FnOnce(&File, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let added = lines.len() as u64;
        let (mut file, mut length) = match self.file.take() {
            Some(open) => open,
            None => open(&self.settings.path)?,
        };
        if length > 0 && length + added > self.settings.bytes_max {
            rotate(&self.settings.path, self.settings.files)?;
            (file, length) = open(&self.settings.path)?;
        }
        if length == 0 && self.settings.format == Format::Csv {
            let head = format!("{}\n", COLUMNS.join(","));
            file.write_all(head.as_bytes())?;
            length += head.len() as u64;
        }
        begin(&file, added)?;
        if let Err(error) = file.write_all(lines) {
            // A part of it would be read as whole.
            file.set_len(length)?;
            return Err(error);
        }
        if let Some(sender) = &self.sender {
            let metadata = file.metadata()?;
            sender.tell(End {
                inode: metadata.ino(),
                length: metadata.len(),
            });
        }
        self.file = Some((file, length + added));
        Ok(())
    }
}

fn sender(settings: &RecordFile, node: &str) -> Option<Sender> {
    let stream = settings.stream.as_ref()?;
    let path = settings.path.clone();
    Some(Sender::new(stream, path, settings.files, node))
}

/// A file to append to, and its length. A line that was cut off when a disk was full gets its end.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    let options = options.read(true).append(true).create(true).mode(MODE);
    let mut file = options.open(path)?;
    let mut length = file.metadata()?.len();
    if length > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != [b'\n'] {
            file.write_all(b"\n")?;
            length += 1;
        }
    }
    Ok((file, length))
}

/// Moves each file to the next number; the last is overwritten.
fn rotate(path: &Path, files: usize) -> io::Result<()> {
    if files == 1 {
        return fs::remove_file(path);
    }
    for number in (0..files - 1).rev() {
        match fs::rename(numbered(path, number), numbered(path, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The name of an older file; 0: of the one that is written.
pub(super) fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if number > 0 {
        name.push(format!(".{number}"));
    }
    name.into()
}

fn lines(format: Format, told: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    match format {
        Format::Json => {
            for record in told {
                serde_json::to_writer(&mut out, record).expect("a record has a form in JSON");
                out.push(b'\n');
            }
        }
        Format::Csv => {
            let mut writer = csv::WriterBuilder::new()
                .has_headers(false)
                .from_writer(&mut out);
            for record in told {
                writer
                    .write_record(columns(record))
                    .expect("a Vec takes all");
            }
            writer.flush().expect("a Vec takes all");
            drop(writer);
        }
    }
    out
}

/// Its values in the order of [`COLUMNS`]. A cell that a spreadsheet would take for a formula gets an apostrophe.
fn columns(record: &Record) -> Vec<String> {
    let value = serde_json::to_value(record).expect("a record has a form in JSON");
    let cell = |name: &str| match &value[name] {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(_) => {
            let tried = record.tried.iter().map(|tried| match tried.status {
                Some(status) => format!("{}={status}", tried.server),
                None => tried.server.to_string(),
            });
            tried.collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    };
    COLUMNS.map(|name| harmless(cell(name))).into()
}

fn harmless(cell: String) -> String {
    match cell.as_bytes().first() {
        Some(b'=' | b'+' | b'-' | b'@' | b'\t' | b'\r') => format!("'{cell}"),
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use recorder::{Outcome, Tried};

    use super::*;

    fn settings(path: PathBuf, format: Format) -> RecordFile {
        RecordFile {
            path,
            format,
            bytes_max: 1_000,
            files: 3,
            open_max: 10,
            journal: false,
            stream: None,
            hides_users: false,
        }
    }

    fn record(number: usize) -> Record {
        Record {
            id: format!("{number:016x}"),
            node: "edge".to_owned(),
            call_id: "a, \"quoted\"\ncall".into(),
            outcome: Outcome::Refused,
            status: Some(486),
            from: "=cmd@example.com".into(),
            to: "+4420@example.com".into(),
            source: None,
            begun: Some("2026-01-01T00:00:01Z".to_owned()),
            rang: None,
            answered: None,
            ended: None,
            talked_s: None,
            ended_by: None,
            pool: Some("app".to_owned()),
            server: Some("10.0.0.1:5060".parse().unwrap()),
            tried: vec![Tried {
                server: "10.0.0.1:5060".parse().unwrap(),
                status: Some(486),
            }],
        }
    }

    fn keep(keeper: &mut Keeper, numbers: std::ops::Range<usize>) {
        for number in numbers {
            keeper.take(Duration::ZERO, |_, told| told.push(record(number)));
        }
    }

    #[test]
    fn files_have_a_bound_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        let mut keeper = Keeper::new(settings(path.clone(), Format::Json), "edge".into(), [0; 16]);
        keep(&mut keeper, 0..30);
        let numbered = |number: &str| fs::read_to_string(format!("{}{number}", path.display()));
        let texts = ["", ".1", ".2"].map(|number| numbered(number).unwrap());
        assert!(
            texts
                .iter()
                .all(|text| text.len() <= 1_000 && text.ends_with('\n'))
        );
        assert!(numbered(".3").is_err());
        assert!(texts[0].contains("000000000000001d"), "{}", texts[0]);
        assert_eq!(keeper.counts().1, 0);
    }

    #[test]
    fn each_file_of_csv_begins_with_names_and_holds_no_formula() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.csv");
        let mut keeper = Keeper::new(settings(path.clone(), Format::Csv), "edge".into(), [0; 16]);
        keep(&mut keeper, 0..10);
        let mut reader = csv::Reader::from_path(&path).unwrap();
        assert_eq!(
            reader.headers().unwrap().iter().collect::<Vec<_>>(),
            COLUMNS
        );
        let row = reader.records().next().unwrap().unwrap();
        assert_eq!(&row[2], "a, \"quoted\"\ncall");
        assert_eq!(
            (&row[5], &row[6]),
            ("'=cmd@example.com", "'+4420@example.com")
        );
        assert_eq!(
            (&row[8], &row[16]),
            ("2026-01-01T00:00:01Z", "10.0.0.1:5060=486")
        );
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_a_cut_line_gets_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("late").join("calls.jsonl");
        let mut keeper = Keeper::new(settings(path.clone(), Format::Json), "edge".into(), [0; 16]);
        keep(&mut keeper, 0..2);
        assert_eq!(keeper.counts().1, 2);
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(&path, "{\"cut").unwrap();
        keep(&mut keeper, 2..3);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert_eq!(keeper.counts().1, 2);
    }
}
