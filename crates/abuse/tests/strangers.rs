//! What strangers can reach, and what they can't, however they send.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use abuse::{BANS_MAX, Failure, Guard, Hearing, Login, NOTICES_MAX, Notice, Rules, Source};
use proptest::prelude::*;

const START: Duration = Duration::from_secs(1_000);
const FLOODER: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));
const PHONE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

fn rules() -> Rules {
    Rules {
        rate: 10,
        burst: 20,
        logins: 3,
        ban: s(600),
    }
}

fn guard(sources: usize) -> Guard {
    Guard::new(b"the key of tests", sources)
}

fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn forged(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + number).into()
}

fn login(from: IpAddr, user: &str) -> Login<'_> {
    Login {
        from,
        user,
        realm: "example.com",
        is_proven: true,
    }
}

fn unproven(from: IpAddr, user: &str) -> Login<'_> {
    Login {
        is_proven: false,
        ..login(from, user)
    }
}

/// A flood of one address is heard at the rate of its bucket, though a hundred forged addresses come
/// between each two of its messages and the table holds but few.
#[test]
fn forged_addresses_do_not_hide_a_flood() {
    let (guard, rules) = (guard(256), rules());
    let mut heard = 0;
    for tick in 0..5_000_u32 {
        let now = START + ms(u64::from(tick) * 2);
        for number in 0..100 {
            guard.charge(now, &rules, forged(tick * 100 + number));
        }
        if guard.hear(now, &rules, FLOODER) == Hearing::Heard {
            heard += 1;
            guard.charge(now, &rules, FLOODER);
        }
    }
    assert!((100..=122).contains(&heard), "{heard} in 10 s");
}

#[test]
fn an_ipv6_network_is_one_source() {
    let (guard, rules) = (guard(256), rules());
    let of = |net: u16, host: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, 0, host).into();
    for host in 0..30 {
        guard.charge(START, &rules, of(1, host));
    }
    assert_eq!(guard.hear(START, &rules, of(1, 99)), Hearing::Limited);
    assert_eq!(guard.hear(START, &rules, of(2, 99)), Hearing::Heard);
}

#[test]
fn failed_logins_ban_their_source_for_a_time() {
    let (guard, rules) = (guard(256), rules());
    let failed = |now, user| guard.login_failed(now, &rules, &login(FLOODER, user));
    assert_eq!(failed(START, "alice"), Failure::Counted);
    assert_eq!(failed(START, "bob"), Failure::Counted);
    assert_eq!(failed(START, "carol"), Failure::Banned);
    assert_eq!(guard.hear(START, &rules, FLOODER), Hearing::Banned);
    assert_eq!(guard.hear(START, &rules, PHONE), Hearing::Heard);
    let bans = guard.bans(START);
    assert_eq!((bans.len(), &*bans[0].last_user), (1, "carol"));
    let end = START + s(600);
    assert_eq!(guard.hear(end - ms(1), &rules, FLOODER), Hearing::Banned);
    assert_eq!(guard.hear(end, &rules, FLOODER), Hearing::Heard);
    assert_eq!(guard.bans(end), []);
    let (notices, missed) = guard.take_notices();
    assert_eq!((notices.len(), missed), (4, 0));
    assert!(matches!(&notices[3], Notice::Banned(ban) if ban.source == FLOODER.into()));
}

#[test]
fn slow_failures_are_forgiven() {
    let (guard, rules) = (guard(256), rules());
    for number in 0..100 {
        let now = START + s(20) * number;
        let failed = guard.login_failed(now, &rules, &login(FLOODER, "alice"));
        assert_eq!(failed, Failure::Counted);
    }
}

#[test]
fn a_lifted_ban_is_gone_with_its_failures() {
    let (guard, rules) = (guard(256), rules());
    let failed = || guard.login_failed(START, &rules, &login(FLOODER, "alice"));
    assert_eq!([failed(), failed(), failed()][2], Failure::Banned);
    assert!(guard.unban(START, FLOODER.into()));
    assert!(!guard.unban(START, FLOODER.into()), "there is none");
    assert_eq!(guard.hear(START, &rules, FLOODER), Hearing::Heard);
    assert_eq!(failed(), Failure::Counted);
}

/// The office where one phone has a wrong password, behind one address with those that are in order.
#[test]
fn a_source_with_a_login_is_not_banned() {
    let (guard, rules) = (guard(256), rules());
    guard.logged_in(START, &login(PHONE, "bob"));
    for _ in 0..100 {
        let failed = guard.login_failed(START, &rules, &login(PHONE, "carol"));
        assert_eq!(failed, Failure::Counted);
    }
    let (notices, _) = guard.take_notices();
    let is_held = |notice: &Notice| matches!(notice, Notice::LoginFailed { is_held_against, .. } if *is_held_against);
    assert!(!notices.iter().any(is_held));
    let later = START + s(7_200);
    for _ in 0..3 {
        guard.login_failed(later, &rules, &login(PHONE, "carol"));
    }
    assert_eq!(guard.hear(later, &rules, PHONE), Hearing::Banned);
}

#[test]
fn who_hears_us_is_not_silenced_but_may_be_banned() {
    let (guard, rules) = (guard(256), rules());
    guard.hears_us(START, PHONE);
    for _ in 0..100 {
        guard.charge(START, &rules, PHONE);
    }
    assert_eq!(guard.hear(START, &rules, PHONE), Hearing::Heard);
    for _ in 0..3 {
        guard.login_failed(START, &rules, &login(PHONE, "alice"));
    }
    assert_eq!(guard.hear(START, &rules, PHONE), Hearing::Banned);
}

/// Guesses from many addresses are as many as from one; the user's own phone may go on.
#[test]
fn a_user_is_not_guessed_from_many_addresses() {
    let (guard, rules) = (guard(1_024), rules());
    guard.logged_in(START, &login(PHONE, "alice"));
    let mut looked_at = 0;
    for number in 0..6_000 {
        let (now, from) = (START + ms(10) * number, forged(number));
        for login in [login(from, "alice"), unproven(from, "alice")] {
            if guard.may_log_in(now, &rules, &login) {
                looked_at += 1;
                guard.login_failed(now, &rules, &login);
            }
        }
        assert!(guard.may_log_in(now, &rules, &login(PHONE, "alice")));
        assert!(guard.may_log_in(now, &rules, &login(from, "bob")));
    }
    assert!((3..=6).contains(&looked_at), "{looked_at} in a minute");
}

#[test]
fn bans_have_a_bound_and_do_not_go_for_others() {
    let (guard, rules) = (guard(65_536), rules());
    let ban = |number| {
        let failed = || guard.login_failed(START, &rules, &login(forged(number), "alice"));
        [failed(), failed(), failed()][2]
    };
    let outcomes: Vec<_> = (0..2 * BANS_MAX as u32).map(ban).collect();
    let banned = outcomes.iter().filter(|out| **out == Failure::Banned);
    assert_eq!(banned.count(), BANS_MAX);
    assert_eq!(guard.bans(START).len(), BANS_MAX);
    assert_eq!(guard.hear(START, &rules, forged(0)), Hearing::Banned);
    assert_eq!(*outcomes.last().unwrap(), Failure::BansFull);
    let (notices, missed) = guard.take_notices();
    assert_eq!(notices.len(), NOTICES_MAX);
    assert_eq!(missed as usize, 7 * BANS_MAX - NOTICES_MAX);
}

/// Something that a stranger sends in the name of any address.
#[derive(Clone, Debug)]
enum Sent {
    Rubbish(IpAddr),
    Guess(IpAddr),
    Wait(u64),
}

fn sent() -> impl Strategy<Value = Sent> {
    let address = || prop_oneof![Just(PHONE), Just(FLOODER), (0..40_u32).prop_map(forged)];
    prop_oneof![
        5 => address().prop_map(Sent::Rubbish),
        3 => address().prop_map(Sent::Guess),
        1 => (0..300_u64).prop_map(Sent::Wait),
    ]
}

proptest! {
    /// Whatever is sent in anybody's name: nobody is banned who has shown nothing, no ban is lost, who
    /// has logged in is heard, and so is whom nobody has named.
    #[test]
    fn forgers_harm_nobody(script in prop::collection::vec(sent(), 1..400)) {
        let (guard, rules) = (guard(16), rules());
        let (banned, quiet) = (IpAddr::from([192, 0, 2, 66]), IpAddr::from([192, 0, 2, 7]));
        for _ in 0..3 {
            guard.login_failed(START, &rules, &login(banned, "alice"));
        }
        guard.logged_in(START, &login(PHONE, "bob"));
        let mut now = START;
        for sent in script {
            match sent {
                Sent::Rubbish(from) => guard.charge(now, &rules, from),
                Sent::Guess(from) => {
                    guard.login_failed(now, &rules, &unproven(from, "carol"));
                }
                Sent::Wait(time) => now += ms(time),
            }
            prop_assert_eq!(guard.hear(now, &rules, banned), Hearing::Banned);
            prop_assert_eq!(guard.hear(now, &rules, PHONE), Hearing::Heard);
            prop_assert_eq!(guard.hear(now, &rules, quiet), Hearing::Heard);
            prop_assert_ne!(guard.hear(now, &rules, FLOODER), Hearing::Banned);
        }
        let bans: Vec<Source> = guard.bans(now).iter().map(|ban| ban.source).collect();
        prop_assert_eq!(bans, [banned.into()]);
    }

    /// Of one source no more is heard than its bucket allows, and not much less.
    #[test]
    fn a_source_is_heard_at_its_rate(pauses in prop::collection::vec(0..200_u64, 1..400)) {
        let (guard, rules) = (guard(16), rules());
        let (mut now, mut heard) = (START, 0_u64);
        for pause in &pauses {
            now += ms(*pause);
            if guard.hear(now, &rules, FLOODER) == Hearing::Heard {
                guard.charge(now, &rules, FLOODER);
                heard += 1;
            }
        }
        let allowed = 21 + (now - START).as_millis() as u64 / 100;
        prop_assert!(heard <= allowed, "{heard} > {allowed}");
        prop_assert!(heard >= allowed.min(pauses.len() as u64) * 4 / 5, "{heard}, {allowed}");
    }
}
