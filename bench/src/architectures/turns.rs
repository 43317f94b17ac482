//! Lets a program have all cores of the machine at times, although the load needs one of them.
//!
//! The program runs in the scheduling class `SCHED_IDLE`, so it has a core only while nobody else wants it. The load
//! and a thread on the other core want theirs, except in the program's turns. In a turn threads of the program really
//! run at the same time, and wait for each other's locks as they would on a machine of their own.

use std::{
    hint,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::thread::{CpuSet, sched_setaffinity};
use socket::Clock;

use crate::subject::CORE;

/// Who keeps the program's core busy while it is the load's turn.
pub(super) struct Turns {
    clock: Clock,
    /// When the program's turn ends, in nanoseconds; in the past while it is the load's.
    ends: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    holder: Option<JoinHandle<()>>,
}

impl Turns {
    pub(super) fn new() -> Self {
        let clock = Clock::start();
        let (ends, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (seen, told) = (Arc::clone(&ends), Arc::clone(&is_over));
        let holder = thread::spawn(move || hold(clock, &seen, &told));
        Self {
            clock,
            ends,
            is_over,
            holder: Some(holder),
        }
    }

    /// Lets the program have the cores; for how long it had them.
    pub(super) fn give(&self, time: Duration) -> Duration {
        let began = self.clock.now();
        let ends = began + time;
        self.ends.store(ends.as_nanos() as u64, Ordering::Release);
        thread::sleep(time);
        self.clock.now() - began
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(holder) = self.holder.take() {
            holder.join().expect("it has nothing to panic about");
        }
    }
}

fn hold(clock: Clock, ends: &AtomicU64, is_over: &AtomicBool) {
    let mut core = CpuSet::new();
    core.set(CORE);
    sched_setaffinity(None, &core).expect("a machine has its first core");
    while !is_over.load(Ordering::Relaxed) {
        let left = Duration::from_nanos(ends.load(Ordering::Acquire)).saturating_sub(clock.now());
        match left.is_zero() {
            true => hint::spin_loop(),
            false => thread::sleep(left),
        }
    }
}
