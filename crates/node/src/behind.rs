//! What a node does with new requests that had to wait, as it was behind.

use std::time::Duration;

use custody::Figures;
use sip::Message;
use transaction::Flow;

use crate::{
    admission::{self, Class, Guest, Leaves, lane::Lane, sieve::Sieve},
    context::Context,
    control,
    io::{Datagram, Origin, Outbox, Work},
    node::{Desks, Node, answer},
    stats::{Dropped, Event},
};

/// Requests that are served in a row while the node is behind. The driver knows how long that takes, and when to look
/// what has come.
const SERVED_AT_ONCE: u32 = 4;

impl Node {
    /// Learns how long the next datagrams have waited until the driver gives them to the node, at most; they come from
    /// a lane, or from the listener's own socket.
    pub fn handle_delay(&mut self, now: Duration, lane: Option<Lane>, delay: Duration) {
        self.desks.lobby.note_delay(now, lane, delay);
        if lane.is_none() {
            self.desks.proxy.work.note_delay(delay);
        }
    }

    /// Whether new requests are to wait in lanes, apart from all others.
    pub fn wants_lanes(&mut self, now: Duration) -> bool {
        self.desks.lobby.wants_lanes(now)
    }

    /// Whether the driver is to read from a lane. What it does not read costs nothing. While neighbours that do not obey wait
    /// there, those who do go first.
    pub fn has_room(&self, now: Duration, lane: Lane) -> bool {
        let lobby = &self.desks.lobby;
        lobby.has_room(lane) && !(self.shared.unruly().are_some() && lobby.yields(now, lane))
    }

    /// Whether what comes next from a lane has waited there too long, and the node can't even refuse it: the driver
    /// tells [`Self::handle_too_late`].
    pub fn is_too_late(&self, now: Duration) -> bool {
        self.desks.lobby.is_too_late(now)
    }

    /// Learns of something from a lane that is too late.
    pub fn handle_too_late(&mut self, now: Duration, lane: Lane, bytes: &[u8]) {
        self.count_out(lane, 1);
        if lane != Lane::OfCalls {
            self.desks.lobby.note_too_late(now, bytes);
        }
    }

    /// Learns that nothing waits in a lane.
    pub fn handle_empty(&mut self, now: Duration, lane: Lane) {
        self.desks.lobby.note_empty(now, lane);
    }

    /// Learns that so much found no room in a lane.
    pub fn handle_missed(&mut self, now: Duration, lane: Lane, number: u32) {
        self.count_out(lane, number);
        // A flood of what belongs to no call is no reason to refuse calls.
        if lane != Lane::OfCalls {
            self.desks.lobby.note_missed(now, lane, number);
        }
    }

    fn count_out(&self, lane: Lane, number: u32) {
        let stats = &self.shared.workers()[self.desks.worker];
        stats.drop_many(Dropped::Overload, number.into());
        stats.count(Class::out_of(lane), number as usize);
    }

    /// Learns how long the next [`crate::Input::Handover`] has waited since it came to the other worker, at most. It is no
    /// new request, so the lobby need not know.
    pub fn handle_handover_delay(&mut self, delay: Duration) {
        self.desks.proxy.work.note_delay(delay);
    }

    /// Learns how long what was read from a connection has waited there, at most.
    pub fn handle_stream_delay(&mut self, now: Duration, delay: Duration) {
        self.desks.lobby.note_stream_delay(now, delay);
        self.desks.proxy.work.note_delay(delay);
    }

    /// Learns whether something waits to be sent on this worker's connection to a peer. A server that does not read what
    /// it has gets nothing new.
    pub fn handle_backlog(&mut self, flow: Flow, is_backed_up: bool) {
        for member in self.snapshot.members_of(flow) {
            self.desks
                .proxy
                .work
                .note_backlog(member.server.id(), is_backed_up);
        }
    }

    /// Learns what the worker has done since it was told last.
    pub fn handle_work(&mut self, now: Duration, work: Work) {
        let used = self.utilisation.note(now, work.busy, work.ran);
        let standstill = self.utilisation.standstill();
        self.desks.lobby.note_standstill(standstill);
        let part = |time: Duration, of: Duration| match of.is_zero() {
            true => 0.0,
            false => time.div_duration_f64(of).min(1.0),
        };
        let for_strangers = used.mul_f64(part(work.for_strangers, work.busy));
        let used = used.mul_f64(1.0 - part(work.while_idle, work.ran));
        self.desks.proxy.dynamic.note_busy(used);
        self.desks.lobby.note_busy(used, for_strangers.min(used));
    }

    /// The part of the time that the worker can have which it used lately.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.utilisation.get()
    }

    /// Learns that so many requests were stopped by a lane's filter.
    pub fn handle_filtered(&mut self, lane: Lane, number: u32) {
        if let Some(event) = Class::filtered_in(lane) {
            self.shared.workers()[self.desks.worker].count(event, number as usize);
        }
        self.desks.lobby.note_filtered(lane, number);
    }

    /// Learns that so many datagrams of any kind were dropped before the driver read them.
    pub fn handle_unread(&mut self, now: Duration, number: u32) {
        self.desks.lobby.note_unread(now, number);
    }

    /// Leaves this share of the open requests of routes with dynamic state to nodes behind that take any, whatever
    /// the node finds. None: as it finds. For comparisons.
    pub fn fix_share_left_open(&mut self, share: Option<f64>) {
        self.desks.proxy.dynamic.fix(share);
    }

    /// Asks the store whatever comes, and not only what it answers in time. For comparisons.
    pub fn leave_store_unlimited(&mut self) {
        self.desks.registrar.leave_store_unlimited();
    }

    /// How busy the worker is, what it holds, and what it could hold.
    pub fn custody(&self) -> Figures {
        self.desks.proxy.dynamic.figures()
    }

    /// Whether the node is behind: the driver then reads all that has come.
    pub fn is_behind(&self, now: Duration) -> bool {
        self.desks.lobby.is_open(now)
    }

    /// Whether the datagrams of known hosts that were read last had waited too long, so that strangers' connections are to
    /// wait. Only a node with lanes knows.
    #[must_use]
    pub fn are_known_behind(&self) -> bool {
        self.desks.lobby.are_known_behind()
    }

    /// Whether requests that have waited for too long may be refused.
    #[must_use]
    pub fn may_refuse(&self) -> bool {
        self.desks.lobby.may_refuse()
    }

    /// Whether new requests wait for [`Self::handle_waiting`].
    pub fn has_waiting(&self) -> bool {
        !self.desks.lobby.is_empty()
    }

    /// Whether the sockets stop what the sieve stops, of unknown sources. Otherwise the node does.
    pub fn set_filtered(&mut self, is_filtered: bool) {
        self.desks.lobby.set_filtered(is_filtered);
    }

    /// The system does not let the sockets stop anything.
    pub fn note_filter_refused(&self) {
        self.shared.workers()[self.desks.worker].count(Event::FilterRefused, 1);
    }

    /// Whether new requests come in lanes from now on. Their sockets do not know yet what to let in.
    pub fn set_lanes(&mut self, now: Duration, has_lanes: bool) {
        self.desks.lobby.set_lanes(now, has_lanes);
    }

    /// What the sockets are to let in from now on, if that has changed.
    pub fn take_sieve(&mut self) -> Option<Sieve> {
        self.desks.lobby.take_sieve()
    }

    /// Serves some of the requests that wait, and returns how many.
    pub fn handle_waiting(&mut self, now: Duration, out: &mut Outbox) -> u32 {
        if out.tap.is_some() {
            return self.tapped(now, None, out, |node, out| node.do_waiting(now, out));
        }
        self.do_waiting(now, out)
    }

    fn do_waiting(&mut self, now: Duration, out: &mut Outbox) -> u32 {
        let sent = out.transmits.len();
        let (desks, cx) = self.parts(now);
        let served = desks.serve_waiting(cx, out);
        cx.stats.count(Event::Sent, out.transmits.len() - sent);
        served
    }
}

impl Desks {
    /// Serves some of the requests that wait for the node to catch up.
    pub(crate) fn serve_waiting(&mut self, cx: Context<'_>, out: &mut Outbox) -> u32 {
        for served in 0..SERVED_AT_ONCE {
            let Some(guest) = self.lobby.next(cx.now) else {
                return served;
            };
            self.serve_guest(cx, &guest, out);
            self.lobby.release(guest);
        }
        SERVED_AT_ONCE
    }

    fn serve_guest(&mut self, cx: Context<'_>, guest: &Guest, out: &mut Outbox) {
        let headers_max = cx.snapshot.config().limits.headers;
        let datagram = guest.datagram();
        if let Ok(message) = Message::parse(datagram.bytes, headers_max) {
            self.begin(cx, datagram, &message, guest.origin, out);
        }
    }

    /// Sends away those who have waited too long.
    fn clear_lobby(&mut self, cx: Context<'_>, out: &mut Outbox) {
        while let Some(leaves) = self.lobby.next_late(cx.now) {
            let (Leaves::Refused(guest) | Leaves::Dropped(guest)) = &leaves;
            cx.stats.count(guest.class().out(), 1);
            let guest = match leaves {
                Leaves::Refused(guest) => {
                    self.send_guest_away(cx, &guest, out);
                    guest
                }
                Leaves::Dropped(guest) => {
                    cx.stats.drop_one(Dropped::Overload);
                    guest
                }
            };
            self.lobby.release(guest);
        }
    }

    fn send_guest_away(&mut self, cx: Context<'_>, guest: &Guest, out: &mut Outbox) {
        let headers_max = cx.snapshot.config().limits.headers;
        let datagram = guest.datagram();
        if let Ok(message) = Message::parse(datagram.bytes, headers_max) {
            self.send_away(cx, datagram, &message, guest.origin, out);
        }
    }

    /// Refuses a request, unless it repeats one that was served.
    pub(crate) fn send_away(
        &mut self,
        cx: Context<'_>,
        datagram: Datagram<'_>,
        message: &Message<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) {
        if self.knows(cx, message) {
            return self.begin(cx, datagram, message, origin, out);
        }
        control::note_refused(cx, datagram.flow, message);
        let refusal = admission::refuse_late(cx, message, self.lobby.pause_s());
        answer(cx, &datagram, message, &refusal, out);
    }

    /// Whether a call of this Call-ID is known.
    fn knows(&self, cx: Context<'_>, message: &Message<'_>) -> bool {
        let call_id = message.call_id().unwrap_or_default();
        let key = cx.snapshot.keys().session(call_id);
        self.proxy.work.calls.find(key).is_some()
    }

    /// Does what is due in the lobby.
    pub(crate) fn keep_lobby(&mut self, cx: Context<'_>, out: &mut Outbox) {
        self.clear_lobby(cx, out);
        if self.lobby.is_due(cx.now) {
            let behind = self.proxy.work.take_behind();
            let neighbours = cx.shared.neighbours();
            if !neighbours.may_find_room(cx.now, behind.freely_at) {
                self.lobby.note_in_vain(cx.now, behind.in_vain);
            }
        }
        if self.lobby.on_timers(cx.now) {
            cx.shared.unruly().on_timers(cx.now);
            let neighbours = cx.shared.neighbours();
            let capacity = self
                .lobby
                .capacity_per_s(cx.now, neighbours.are_restricted());
            if self.lobby.tells(capacity) {
                neighbours.set_capacity(self.worker, capacity);
            }
        }
    }
}
