//! Who holds a request of a route with dynamic state: this node, one before it or one behind it.

use std::time::Duration;

use custody::{Custody, Decision, Figures, Room};
use sip::Method;

use crate::{
    config::Mode,
    context::Context,
    stats::Event,
    wire::{
        mark::{self, Mark},
        reply,
        request::{Request, Sender},
        response::Response,
    },
    work::{Course, Holder, OpenRequest},
};

/// 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a worker knows of the nodes before and behind it.
#[derive(Debug, Default)]
pub(crate) struct Dynamic {
    /// None: no request of such a route has come.
    custody: Option<Box<Custody>>,
    fixed: Option<f64>,
}

/// Which sender has a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) holder: Holder,
    /// What the next node is told; none: the route's state is not dynamic.
    pub(super) mark: Option<Mark>,
}

impl Verdict {
    pub(super) const STATELESS: Self = Self {
        holder: Holder::Stateless,
        mark: None,
    };
}

impl Dynamic {
    /// Decides on a new request. `has_room`: the node can hold one more.
    pub(super) fn decide(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: &Course,
        has_room: bool,
    ) -> Verdict {
        match mode_of(cx, request, course) {
            Mode::Stateless => return Verdict::STATELESS,
            Mode::Stateful => {
                return Verdict {
                    holder: Holder::Stateful,
                    mark: None,
                };
            }
            Mode::Dynamic => {}
        }
        let mark = Mark::of_request(cx.snapshot, request);
        let keys = cx.snapshot.keys();
        let before = reply::return_flow(Some(&request.via), request.datagram.flow);
        let behind = keys.neighbour(course.next_hop.remote);
        let custody = self.open(cx.now);
        let decision = custody.decide(
            cx.now,
            &custody::Request {
                from: mark.map(|_| keys.neighbour(before.remote)),
                to: Some(behind),
                is_held: mark.is_some_and(|mark| mark != Mark::Open),
                is_unchecked: request.is_unchecked(),
                draw: draw(request),
            },
        );
        let takes = || custody.takes(cx.now, behind, request.is_unchecked());
        let is_left = decision == Decision::Hold && !has_room && takes();
        if is_left {
            custody.could_not_hold();
        }
        let (holder, mark) = match decision {
            Decision::Hold if !is_left => (Holder::Stateful, Mark::Here),
            Decision::Hold | Decision::LeaveOpen => (Holder::Stateless, Mark::Open),
            Decision::IsHeld => (Holder::Stateless, Mark::Before),
        };
        Verdict {
            holder,
            mark: Some(mark),
        }
    }

    /// Whether a node behind still takes what was to be left to it.
    pub(super) fn takes(&self, cx: Context<'_>, request: &Request<'_>, course: &Course) -> bool {
        let behind = cx.snapshot.keys().neighbour(course.next_hop.remote);
        let custody = self.custody.as_ref();
        custody.is_some_and(|custody| custody.takes(cx.now, behind, request.is_unchecked()))
    }

    /// Whether it may be left to a node behind to check who sent a request, as whoever holds it does.
    pub(crate) fn may_leave_unchecked(&self, cx: Context<'_>, request: &Request<'_>) -> bool {
        let Some(custody) = &self.custody else {
            return false;
        };
        let route = cx.snapshot.route(&request.traits());
        route.is_ok_and(|route| route.state == Mode::Dynamic)
            && custody.may_leave_unchecked(cx.now, draw_of_call(request))
    }

    /// The same for a request whose course is known. What is not left is checked here before anything is noted of it.
    pub(super) fn leaves_unchecked(
        &self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: &Course,
        has_room: bool,
    ) -> bool {
        let Some(custody) = &self.custody else {
            return false;
        };
        let behind = cx.snapshot.keys().neighbour(course.next_hop.remote);
        mode_of(cx, request, course) == Mode::Dynamic
            && (custody.leaves_unchecked(cx.now, behind, draw(request))
                || !has_room && custody.takes(cx.now, behind, true))
    }

    /// The node that a response comes from may tell of its room in it.
    pub(super) fn hear(&mut self, cx: Context<'_>, response: &Response<'_>) {
        let keys = cx.snapshot.keys();
        if let Some(room) = mark::room_told(keys, response) {
            let room = Room {
                per_s: room.per_s / cx.shared.workers().len() as f64,
                ..room
            };
            let behind = keys.neighbour(response.flow.remote);
            self.open(cx.now).hear(cx.now, behind, room);
        }
    }

    /// What to tell the node before, to which a response goes.
    pub(super) fn room(&self, cx: Context<'_>, response: &Response<'_>) -> Option<Room> {
        let custody = self.custody.as_ref()?;
        let before = response.return_flow()?.remote;
        let before = cx.snapshot.keys().neighbour(before);
        let room = custody.room(before, cx.snapshot.knows_users())?;
        Some(Room {
            per_s: room.per_s * cx.shared.workers().len() as f64,
            ..room
        })
    }

    pub(crate) fn note_busy(&mut self, busy: Duration) {
        if let Some(custody) = &mut self.custody {
            custody.note_busy(busy);
        }
    }

    pub(crate) fn on_timers(&mut self, now: Duration, is_behind: bool) {
        if let Some(custody) = &mut self.custody {
            if is_behind {
                custody.note_behind();
            }
            custody.on_timers(now);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.custody.as_ref()?.deadline()
    }

    pub(crate) fn figures(&self) -> Figures {
        let custody = self.custody.as_ref();
        custody.map_or_else(Figures::default, |custody| custody.figures())
    }

    /// What it holds per second, and what it could; no numbers: nothing, or nothing is known yet.
    pub(crate) fn rates(&self) -> [f64; 2] {
        let custody = self.custody.as_ref().map(|custody| custody.figures());
        custody.map_or([f64::NAN; 2], |it| [it.held_per_s, it.room_per_s.max(0.0)])
    }

    pub(crate) fn fix(&mut self, share: Option<f64>) {
        self.fixed = share;
        if let Some(custody) = &mut self.custody {
            custody.fix(share);
        }
    }

    fn open(&mut self, now: Duration) -> &mut Custody {
        let fixed = self.fixed;
        self.custody.get_or_insert_with(|| {
            let mut custody = Box::new(Custody::new(now));
            custody.fix(fixed);
            custody
        })
    }
}

/// A number below which a share of the requests is; another one than that which withholds: RFC 7339 §5.10.
/// Credentials are good once at a node, so the same node gets all of a call.
fn draw(request: &Request<'_>) -> u64 {
    match request.sender {
        Sender::Unasked => request.id.wrapping_mul(SPREAD),
        Sender::Known | Sender::Proven | Sender::Unchecked => draw_of_call(request),
    }
}

fn draw_of_call(request: &Request<'_>) -> u64 {
    request.key.bits().wrapping_mul(SPREAD)
}

/// What the next node is told of a request that this one neither holds nor counts: what it is told itself. A
/// retransmission of what was left open may be the first copy that gets to a node behind.
pub(super) fn mark_of_uncounted(
    cx: Context<'_>,
    request: &Request<'_>,
    course: &Course,
) -> Option<Mark> {
    let is_held = || {
        let mark = Mark::of_request(cx.snapshot, request);
        mark.is_some_and(|mark| mark != Mark::Open)
    };
    is_dynamic(cx, request, course).then(|| if is_held() { Mark::Before } else { Mark::Open })
}

/// A node before this one may have restarted since the first copy of an open request came, and says something else of
/// this one. If it holds now what it left open then, nobody behind has to. Returns whether it is the other way round,
/// so that nobody holds the request.
pub(super) fn renew(cx: Context<'_>, request: &Request<'_>, open: &mut OpenRequest) -> bool {
    let told = match open.mark {
        None | Some(Mark::Here) => return false,
        Some(Mark::Before | Mark::Open) => Mark::of_request(cx.snapshot, request),
    };
    match (open.mark, told) {
        (Some(Mark::Open), Some(Mark::Here | Mark::Before)) => {
            open.mark = Some(Mark::Before);
            false
        }
        (Some(Mark::Before), Some(Mark::Open)) => open.attempt == 0 && !open.is_cancelled,
        _ => false,
    }
}

fn is_dynamic(cx: Context<'_>, request: &Request<'_>, course: &Course) -> bool {
    !matches!(request.method, Method::Ack | Method::Cancel)
        && mode_of(cx, request, course) == Mode::Dynamic
}

fn mode_of(cx: Context<'_>, request: &Request<'_>, course: &Course) -> Mode {
    let (traits, begins) = (request.traits(), request.is_initial());
    cx.snapshot.mode_of(&traits, begins, course.server)
}

/// Counts who holds a new request.
pub(super) fn count(cx: Context<'_>, request: &Request<'_>, verdict: Verdict) {
    if request.is_unchecked() {
        cx.stats.count(Event::LeftUnchecked, 1);
    }
    let event = match (verdict.holder, verdict.mark) {
        (Holder::Stateful, _) => Event::Held,
        (Holder::Stateless, Some(Mark::Open)) => Event::LeftOpen,
        (Holder::Stateless, Some(Mark::Here | Mark::Before)) => Event::HeldBefore,
        (Holder::Stateless, None) => return,
    };
    cx.stats.count(event, 1);
}
