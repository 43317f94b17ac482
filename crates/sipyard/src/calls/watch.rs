//! Takes the workers' taps and gives them empty ones.

use std::{mem, sync::Arc, time::Duration};

use node::{Node, Outbox, tap::Tap};
use tokio::{
    sync::oneshot,
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::journal::TAP_BYTES;
use crate::serve::Control;

/// How often a worker gets an empty tap.
const TICK: Duration = Duration::from_millis(100);
/// The same if there are call records: a crash costs those of the calls that ended since.
const RECORDS_TICK: Duration = Duration::from_millis(20);
/// The same while there is much to record.
const FAST_TICK: Duration = Duration::from_millis(40);
/// So many bytes in a tick are much.
const MUCH: usize = 1 << 20;
/// How long a worker may take to change its tap.
const PATIENCE: Duration = Duration::from_secs(1);

/// Gives the workers taps before the first call comes.
pub(crate) async fn begin(control: &Control) {
    if control.calls().is_on() {
        let (taps, until) = change_taps(control, true, &mut Vec::new()).await;
        take(control, taps, until).await;
    }
}

/// Changes the workers' taps and reads them. It never returns.
pub(crate) async fn run(control: Arc<Control>) {
    let mut spare: Vec<Tap> = Vec::new();
    let mut is_tapped = control.calls().is_on();
    loop {
        let is_on = control.calls().is_on();
        if !is_on && !is_tapped {
            sleep(TICK).await;
            continue;
        }
        is_tapped = is_on;
        let (taps, until) = change_taps(&control, is_on, &mut spare).await;
        let (bytes, emptied) = take(&control, taps, until).await;
        spare = emptied;
        let tick = if bytes > MUCH { FAST_TICK } else { TICK };
        let has_records = control.calls().records().is_some();
        sleep(if has_records { RECORDS_TICK } else { tick }).await;
    }
}

/// Takes what the workers have seen last, as the node ends.
pub(crate) async fn end(control: &Control) {
    if control.calls().is_on() {
        let (taps, _) = change_taps(control, false, &mut Vec::new()).await;
        take(control, taps, Duration::MAX).await;
    }
}

/// Takes taps, of which all have what happened until then; how many bytes they had, and emptied ones.
async fn take(control: &Control, taps: Vec<Tap>, until: Duration) -> (usize, Vec<Tap>) {
    let recording = Arc::clone(control.calls());
    let (snapshot, now) = (control.shared().snapshot(), control.now());
    let taken = spawn_blocking(move || {
        let bytes: usize = taps.iter().map(Tap::len).sum();
        (bytes, recording.take(taps, until, &snapshot, now))
    });
    taken.await.expect("a recorder does not panic")
}

/// The workers' taps with what they have seen, and a time: what passed by then is in these taps or in earlier ones. A
/// worker that is too busy keeps its own.
async fn change_taps(control: &Control, is_on: bool, spare: &mut Vec<Tap>) -> (Vec<Tap>, Duration) {
    let mut asked = Vec::new();
    let one_in = control.calls().one_in(control.now());
    for worker in 0..control.shared().workers().len() {
        let mut next = is_on.then(|| spare.pop().unwrap_or_else(|| Tap::new(TAP_BYTES)));
        if let Some(tap) = &mut next {
            tap.keep_one_in(one_in);
        }
        let (sender, receiver) = oneshot::channel();
        let command = Box::new(move |_: &mut Node, now: Duration, out: &mut Outbox| {
            let full = mem::replace(&mut out.tap, next);
            // Whoever asked has lost patience: what was recorded stays for the next time.
            if let Err((kept, _)) = sender.send((full, now)) {
                out.tap = kept;
            }
        });
        let is_asked = control.workers().command(worker, command).is_ok();
        asked.push(is_asked.then_some(receiver));
    }
    let mut taps = Vec::new();
    let mut until = Duration::MAX;
    for receiver in asked {
        let answer = match receiver {
            Some(receiver) => timeout(PATIENCE, receiver).await.ok().and_then(Result::ok),
            None => None,
        };
        let Some((tap, now)) = answer else {
            until = Duration::ZERO;
            continue;
        };
        taps.extend(tap);
        // At this moment more may pass.
        until = until.min(now.saturating_sub(Duration::from_nanos(1)));
    }
    (taps, until)
}
