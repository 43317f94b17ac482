//! The places of requests, and what a request holds at each.

use std::{cmp::Reverse, collections::HashMap};

use foldhash::fast::FixedState;

use crate::model::{EntryId, Model, ProcessorId, TaskId};

/// A place's number in [`Places`].
pub(super) type PlaceId = u32;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) spot: Spot,
    pub(super) stage: Stage,
}

/// A point in the execution of an entry, and who waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spot {
    pub(super) entry: EntryId,
    pub(super) phase: u8,
    /// Calls made, in a fixed order.
    pub(super) calls_made: u32,
    /// Where the caller continues.
    pub(super) caller: Option<u32>,
}

/// What happens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// A customer thinks, or a phase pauses.
    Rests,
    /// It waits for a thread.
    AwaitsThread,
    /// It waits for the processor.
    AwaitsProcessor,
    /// It waits for the processor that a more urgent one took from it; so many exponential stages are behind it.
    Interrupted(u8),
    /// It is on the processor; so many exponential stages are behind it.
    Runs(u8),
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wait {
    None,
    Thread(TaskId),
    Processor {
        processor: ProcessorId,
        priority: Reverse<u32>,
        has_begun: Reverse<bool>,
    },
}

/// All places seen.
#[derive(Default)]
pub(super) struct Places {
    places: Vec<Place>,
    /// What a request at each place waits for.
    waits: Vec<Wait>,
    /// Entries whose threads a request at each place holds.
    held: Vec<Vec<EntryId>>,
    ids: HashMap<Place, PlaceId, FixedState>,
    callers: Vec<Spot>,
    caller_ids: HashMap<Spot, u32, FixedState>,
}

impl Places {
    pub(super) fn id(&mut self, model: &Model, place: Place) -> PlaceId {
        if let Some(&id) = self.ids.get(&place) {
            return id;
        }
        let id = self.places.len() as PlaceId;
        self.held.push(self.held_at(model, place));
        self.waits.push(wait_at(model, place));
        self.places.push(place);
        self.ids.insert(place, id);
        id
    }

    pub(super) fn get(&self, id: PlaceId) -> Place {
        self.places[id as usize]
    }

    pub(super) fn wait(&self, id: PlaceId) -> Wait {
        self.waits[id as usize]
    }

    pub(super) fn caller_id(&mut self, spot: Spot) -> u32 {
        *self.caller_ids.entry(spot).or_insert_with(|| {
            self.callers.push(spot);
            (self.callers.len() - 1) as u32
        })
    }

    pub(super) fn caller(&self, id: u32) -> Spot {
        self.callers[id as usize]
    }

    /// Whoever nobody waits for, of those that wait for what goes on here.
    pub(super) fn root(&self, mut spot: Spot) -> Spot {
        while let Some(caller) = spot.caller {
            spot = self.caller(caller);
        }
        spot
    }

    /// Entries whose threads a request at this place holds.
    pub(super) fn held(&self, id: PlaceId) -> &[EntryId] {
        &self.held[id as usize]
    }

    fn held_at(&self, model: &Model, Place { spot, stage }: Place) -> Vec<EntryId> {
        let mut held = Vec::new();
        let thinks = model[model[spot.entry].task].is_reference() && is_thinking(spot, stage);
        if stage != Stage::AwaitsThread && !thinks {
            held.push(spot.entry);
        }
        let mut caller = spot.caller;
        while let Some(id) = caller {
            let spot = self.caller(id);
            held.push(spot.entry);
            caller = spot.caller;
        }
        held
    }

    /// The outermost task of fewer threads than `customers` that a request at this place holds.
    pub(super) fn limit(&self, model: &Model, id: PlaceId, customers: u32) -> Option<TaskId> {
        let tasks = self.held(id).iter().rev().map(|&entry| model[entry].task);
        let mut limiting = tasks.filter(|&task| {
            let threads = model[task].multiplicity.finite();
            !model[task].is_reference() && threads.is_some_and(|threads| threads < customers)
        });
        limiting.next()
    }
}

fn wait_at(model: &Model, Place { spot, stage }: Place) -> Wait {
    let task = model[spot.entry].task;
    match stage {
        Stage::Rests | Stage::Runs(_) => Wait::None,
        Stage::AwaitsThread => Wait::Thread(task),
        Stage::AwaitsProcessor | Stage::Interrupted(_) => Wait::Processor {
            processor: model[task].processor,
            priority: Reverse(model.priority(task)),
            has_begun: Reverse(stage != Stage::AwaitsProcessor),
        },
    }
}

/// A reference task thinks before it runs its entry; `calls_made` tells it from a phase's pause.
pub(super) const THINKS: u32 = u32::MAX;

pub(super) fn is_thinking(spot: Spot, stage: Stage) -> bool {
    stage == Stage::Rests && spot.calls_made == THINKS
}
