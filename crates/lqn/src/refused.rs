//! What LQNS models and this crate does not, and what to write instead.

pub(crate) const GROUPS: &str = "groups with shares of a processor are not supported: give each \
    group a processor of its own, with its share as the speed";

pub(crate) const RANDOM: &str = "service in random order is not supported: use first come, first \
    served, whose mean waits are nearly the same";

pub(crate) const SHARING_BY_PRIORITY: &str = "sharing within priorities is not supported: use \
    preemptive priorities, or sharing without them";

pub(crate) const ENTRY_PRIORITIES: &str = "a task serves in the order of arrival: give tasks \
    priorities at their processor instead";

pub(crate) const POLLING: &str = "polling of entries is not supported: a task serves in the order \
    of arrival";

pub(crate) const BURSTS: &str = "think times are exponential: use an ordinary reference task";
