//! Where the policies put arrivals.

use std::sync::Arc;
use std::time::Duration;

use balance::{Arrival, Cost, Elsewhere, Ineligible, Judge, Policy, Pool, Server, ServerId};
use proptest::prelude::*;

const NOW: Duration = Duration::from_secs(100);
const SLOW_START: Duration = Duration::from_secs(10);

fn pool(policy: Policy, capacities: &[f64]) -> Pool {
    let servers = (0..)
        .zip(capacities)
        .map(|(i, capacity)| Server::new(ServerId(i), &format!("10.0.0.{i}:5060"), *capacity));
    Pool::new(policy, servers.map(Arc::new).collect(), SLOW_START)
}

fn call<'a>(key: &'a [u8], avoid: &'a [ServerId]) -> Arrival<'a> {
    Arrival {
        key,
        cost: Cost::INVITE,
        call: true,
        avoid,
    }
}

/// Places a call under a key and says where.
fn place(pool: &Pool, key: u64, rng: &mut fastrand::Rng) -> Option<usize> {
    place_avoiding(pool, key, &[], rng)
}

fn place_avoiding(
    pool: &Pool,
    key: u64,
    avoid: &[ServerId],
    rng: &mut fastrand::Rng,
) -> Option<usize> {
    let key = format!("{key}-4711@198.51.100.7");
    let server = pool.place(NOW, &call(key.as_bytes(), avoid), rng)?;
    Some(usize::from(server.id().0))
}

fn end(server: &Server) {
    server.close_transaction(Cost::INVITE);
    server.close_call();
}

/// Three calls in a row are refused.
fn ask_to_be_left_alone(server: &Server) {
    for call in 1..=3 {
        server.back_off(NOW, call, SLOW_START);
    }
}

/// How many of `calls` each server gets when up to `open` of them are open at a time.
fn spread(pool: &Pool, calls: u64, open: usize) -> Vec<u64> {
    let mut rng = fastrand::Rng::with_seed(11);
    let mut running = Vec::new();
    for key in 0..calls {
        running.push(place(pool, key, &mut rng).expect("all are eligible"));
        if running.len() == open {
            let ended = running.swap_remove(rng.usize(..open));
            end(&pool.servers()[ended]);
        }
    }
    pool.servers()
        .iter()
        .map(|server| server.placed())
        .collect()
}

fn assert_shares(found: &[u64], shares: &[f64], tolerance: f64, what: &str) {
    let calls: u64 = found.iter().sum();
    for (found_one, share) in found.iter().zip(shares) {
        let expected = calls as f64 * share / shares.iter().sum::<f64>();
        let off = (*found_one as f64 / expected - 1.0).abs();
        assert!(off < tolerance, "{what}: {found:?}");
    }
}

#[test]
fn equal_servers_get_equal_shares_idle_and_busy() {
    for policy in [
        Policy::Tlwl,
        Policy::Tjsq,
        Policy::Cjsq,
        Policy::RoundRobin,
        Policy::P2c,
        Policy::PeakEwma,
        Policy::Prequal,
        Policy::Jiq,
    ] {
        for open in [1, 2, 40, 4_000] {
            let found = spread(&pool(policy, &[1.0; 4]), 100_000, open);
            assert_shares(&found, &[1.0; 4], 0.02, &format!("{policy} {open}"));
        }
    }
    for policy in [
        Policy::Rwma,
        Policy::Rwma200,
        Policy::FnvHash,
        Policy::UserHash,
        Policy::BoundedHash,
        Policy::Maglev,
        Policy::Oracle,
    ] {
        let found = spread(&pool(policy, &[1.0; 4]), 100_000, 1);
        assert_shares(&found, &[1.0; 4], 0.02, policy.name());
    }
}

#[test]
fn shares_follow_capacity() {
    for policy in [Policy::Tlwl, Policy::Tjsq, Policy::Cjsq, Policy::RoundRobin] {
        for open in [1, 4_000] {
            let found = spread(&pool(policy, &[2.0, 1.0, 1.0]), 100_000, open);
            assert_shares(&found, &[2.0, 1.0, 1.0], 0.03, &format!("{policy} {open}"));
        }
    }
    for policy in [
        Policy::P2c,
        Policy::UserHash,
        Policy::BoundedHash,
        Policy::Maglev,
        Policy::Jiq,
    ] {
        let found = spread(&pool(policy, &[2.0, 1.0, 1.0]), 100_000, 1);
        assert_shares(&found, &[2.0, 1.0, 1.0], 0.03, policy.name());
    }
}

#[test]
fn a_slow_start_takes_a_small_share_of_idle_time() {
    for policy in [Policy::Tlwl, Policy::P2c, Policy::RoundRobin] {
        let pool = pool(policy, &[1.0; 4]);
        pool.servers()[2].add(NOW);
        assert_shares(
            &spread(&pool, 100_000, 1),
            &[1.0, 1.0, 0.1, 1.0],
            0.05,
            policy.name(),
        );
    }
}

#[test]
fn the_least_wins() {
    /// Opens transactions and calls on three servers; who is then placed on.
    fn check(policy: Policy, capacities: [f64; 3], open: [(f64, u64); 3], expected: usize) {
        for seed in 0..20 {
            let pool = pool(policy, &capacities);
            for (server, (work, calls)) in pool.servers().iter().zip(open) {
                server.open_transaction(Cost::new(work).unwrap());
                (0..calls).for_each(|_| server.open_call());
            }
            let mut rng = fastrand::Rng::with_seed(seed);
            assert_eq!(place(&pool, 1, &mut rng), Some(expected), "{policy}");
            assert_eq!(pool.servers()[expected].work(), open[expected].0 + 1.75);
            assert_eq!(pool.servers()[expected].calls(), open[expected].1 + 1);
        }
    }
    check(Policy::Tlwl, [1.0; 3], [(2.0, 0), (1.75, 9), (3.0, 0)], 1);
    check(
        Policy::Tlwl,
        [1.0, 1.0, 4.0],
        [(2.0, 0), (1.75, 0), (4.0, 0)],
        2,
    );
    check(Policy::Cjsq, [1.0; 3], [(2.0, 3), (1.75, 9), (3.0, 2)], 2);
    check(
        Policy::Cjsq,
        [2.0, 1.0, 1.0],
        [(2.0, 3), (1.75, 9), (3.0, 2)],
        0,
    );

    let pool = pool(Policy::Tjsq, &[1.0; 3]);
    let mut rng = fastrand::Rng::with_seed(1);
    pool.servers()[0].open_transaction(Cost::MAX);
    pool.servers()[1].open_transaction(Cost::ONE);
    pool.servers()[1].open_transaction(Cost::ONE);
    pool.servers()[2].open_transaction(Cost::ONE);
    pool.servers()[2].open_transaction(Cost::ONE);
    assert_eq!(place(&pool, 1, &mut rng), Some(0));
}

#[test]
fn response_times_decide_and_the_unmeasured_come_first() {
    for (policy, kind) in [(Policy::Rwma, 0), (Policy::Rwma200, 1)] {
        let pool = pool(policy, &[1.0; 3]);
        let mut rng = fastrand::Rng::with_seed(1);
        let measure = |server: usize, millis| {
            let sample = Duration::from_millis(millis);
            let server = &pool.servers()[server];
            [Server::first_response, Server::final_response][kind](server, NOW, sample);
        };
        measure(0, 5);
        measure(1, 4);
        assert_eq!(place(&pool, 1, &mut rng), Some(2), "{policy}");
        measure(2, 6);
        assert_eq!(place(&pool, 1, &mut rng), Some(1), "{policy}");
        measure(1, 60);
        assert_eq!(place(&pool, 1, &mut rng), Some(0), "{policy}");
    }
}

#[test]
fn a_peak_counts_until_it_is_forgotten_and_so_does_what_is_open() {
    let pool = pool(Policy::PeakEwma, &[1.0; 2]);
    let place_at = |now| {
        let mut rng = fastrand::Rng::with_seed(1);
        let server = pool.place(now, &call(b"", &[]), &mut rng).unwrap();
        end(server);
        usize::from(server.id().0)
    };
    let [slow, fast] = [&pool.servers()[0], &pool.servers()[1]];
    slow.first_response(NOW, Duration::from_millis(2));
    slow.first_response(NOW, Duration::from_millis(900));
    fast.first_response(NOW, Duration::from_millis(100));
    assert_eq!(place_at(NOW), 1);
    // 900 ms against ten times 100 ms.
    (0..9).for_each(|_| fast.open_transaction(Cost::ONE));
    assert_eq!(place_at(NOW), 0);
    slow.open_transaction(Cost::ONE);
    assert_eq!(place_at(NOW), 1);
    let forgotten = NOW + Duration::from_secs(10);
    fast.first_response(forgotten, Duration::from_millis(1));
    assert_eq!(place_at(forgotten), 0);
}

#[test]
fn prequal_takes_the_fastest_that_is_not_hot() {
    let pool = pool(Policy::Prequal, &[1.0; 8]);
    let mut rng = fastrand::Rng::with_seed(1);
    for (i, server) in (1..).zip(pool.servers()) {
        (0..i).for_each(|_| server.open_transaction(Cost::ONE));
        server.first_response(NOW, Duration::from_millis(100 - i));
    }
    let scores = pool.scores(NOW, b"");
    assert_eq!(scores[7].1, Ok(1e6 + 8.0));
    assert_eq!(scores[5].1, Ok(0.094));
    // The last is the fastest, but above the seventh of the eight counts.
    assert_eq!(place(&pool, 1, &mut rng), Some(6));
}

#[test]
fn prequal_bounds_by_a_sample_of_many() {
    let pool = pool(Policy::Prequal, &[1.0; 100]);
    for server in &pool.servers()[90..] {
        (0..50).for_each(|_| server.open_transaction(Cost::ONE));
    }
    let mut rng = fastrand::Rng::with_seed(1);
    (0..1_000).for_each(|key| assert!(place(&pool, key, &mut rng).unwrap() < 90));
}

#[test]
fn the_idle_are_joined_and_when_there_are_none_any() {
    let pool = pool(Policy::Jiq, &[1.0; 3]);
    let mut rng = fastrand::Rng::with_seed(1);
    pool.servers()[0].open_transaction(Cost::ONE);
    (0..9).for_each(|_| pool.servers()[0].open_transaction(Cost::ONE));
    let mut first_two = [place(&pool, 1, &mut rng), place(&pool, 1, &mut rng)];
    first_two.sort_unstable();
    assert_eq!(first_two, [Some(1), Some(2)]);
    let found = spread(&pool, 30_000, 30_000);
    assert_shares(&found, &[1.0; 3], 0.05, "all are busy");
}

#[test]
fn the_oracle_sees_what_servers_have_left_to_do() {
    let pool = pool(Policy::Oracle, &[1.0; 3]);
    for (server, ms) in pool.servers().iter().zip([30, 10, 20]) {
        server.set_backlog(Duration::from_millis(ms));
    }
    let mut rng = fastrand::Rng::with_seed(1);
    (0..9).for_each(|_| assert_eq!(place(&pool, 1, &mut rng), Some(1)));
    pool.servers()[1].set_backlog(Duration::from_millis(25));
    assert_eq!(place(&pool, 1, &mut rng), Some(2));
}

#[test]
fn what_is_open_elsewhere_counts() {
    /// The first server has three of everything here, the second `elsewhere` elsewhere.
    fn check(policy: Policy, elsewhere: Elsewhere, expected: usize) {
        let pool = pool(policy, &[1.0; 2]);
        let [first, second] = [&pool.servers()[0], &pool.servers()[1]];
        (0..3).for_each(|_| first.open_call());
        (0..3).for_each(|_| first.open_transaction(Cost::ONE));
        second.set_elsewhere(elsewhere);
        assert_eq!(second.elsewhere(), elsewhere);
        let mut rng = fastrand::Rng::with_seed(1);
        assert_eq!(place(&pool, 1, &mut rng), Some(expected), "{policy}");
    }
    let elsewhere = |calls, transactions, work_thousandths| Elsewhere {
        calls,
        transactions,
        work_thousandths,
    };
    check(Policy::Cjsq, elsewhere(2, 99, 99_000), 1);
    check(Policy::Cjsq, elsewhere(4, 0, 0), 0);
    check(Policy::Tjsq, elsewhere(99, 8, 99_000), 1);
    check(Policy::Tjsq, elsewhere(0, 13, 0), 0);
    check(Policy::Tlwl, elsewhere(99, 99, 11_000), 1);
    check(Policy::Tlwl, elsewhere(0, 1, 13_000), 0);
    check(Policy::P2c, elsewhere(0, 1, 13_000), 0);
}

#[test]
fn among_equals_the_preferred_come_first() {
    let pool = pool(Policy::Tlwl, &[1.0; 4]);
    for (server, preference) in pool.servers().iter().zip([0.0, 0.5, 1.0, 0.0]) {
        server.set_preference(preference);
    }
    assert_shares(&spread(&pool, 30_000, 1)[1..3], &[1.0, 2.0], 0.03, "idle");
    let mut rng = fastrand::Rng::with_seed(1);
    let mut places: Vec<_> = (0..4).map(|_| place(&pool, 1, &mut rng).unwrap()).collect();
    places[..2].sort_unstable();
    places[2..].sort_unstable();
    assert_eq!(places, [1, 2, 0, 3]);
}

#[test]
fn hashing_is_modulo_the_servers_and_goes_on_to_the_next() {
    for policy in [Policy::Hash, Policy::FnvHash] {
        let pool = pool(policy, &[1.0; 4]);
        let mut rng = fastrand::Rng::with_seed(1);
        let homes: Vec<_> = (0..100)
            .map(|key| place(&pool, key, &mut rng).unwrap())
            .collect();
        pool.servers()[1].drain();
        pool.servers()[2].unreachable(NOW, Judge::Probes);
        for (key, home) in (0..).zip(homes) {
            let expected = if (1..=2).contains(&home) { 3 } else { home };
            assert_eq!(place(&pool, key, &mut rng), Some(expected), "{policy}");
        }
    }
}

#[test]
fn turns_are_taken_in_order() {
    fn check(capacities: &[f64], drained: Option<usize>, expected: &[usize]) {
        let pool = pool(Policy::RoundRobin, capacities);
        if let Some(drained) = drained {
            pool.servers()[drained].drain();
        }
        let mut rng = fastrand::Rng::with_seed(1);
        let found: Vec<_> = expected
            .iter()
            .map(|_| place(&pool, 1, &mut rng).unwrap())
            .collect();
        assert_eq!(found, expected, "{capacities:?}");
    }
    check(&[1.0; 3], None, &[0, 1, 2, 0, 1, 2, 0]);
    check(&[1.0; 3], Some(1), &[0, 2, 0, 2]);
    check(
        &[5.0, 1.0, 1.0],
        None,
        &[0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 1, 2, 0, 0],
    );
    check(&[2.0, 1.0], None, &[0, 1, 0, 0, 1, 0]);
}

#[test]
fn missed_turns_are_lost() {
    let pool = pool(Policy::RoundRobin, &[1.0; 3]);
    let mut rng = fastrand::Rng::with_seed(1);
    ask_to_be_left_alone(&pool.servers()[1]);
    (0..100).for_each(|_| assert_ne!(place(&pool, 1, &mut rng), Some(1)));
    let later = NOW + SLOW_START;
    for _ in 0..30 {
        pool.place(later, &call(b"", &[]), &mut rng);
    }
    // Its share, and at most the turn that is due on its return.
    assert!((10..=11).contains(&pool.servers()[1].placed()));
}

#[test]
fn p2c_takes_the_better_of_the_drawn() {
    let pool = pool(Policy::P2c, &[1.0; 4]);
    let mut rng = fastrand::Rng::with_seed(1);
    for (i, server) in (1..).zip(pool.servers()) {
        server.open_transaction(Cost::new(f64::from(i) * 100.0).unwrap());
    }
    let mut found = [0_u64; 4];
    for key in 0..60_000 {
        let server = place(&pool, key, &mut rng).unwrap();
        end(&pool.servers()[server]);
        found[server] += 1;
    }
    // Of the six pairs the first is in three, the second wins two, the third one, the last none.
    assert_shares(&found[..3], &[3.0, 2.0, 1.0], 0.03, "p2c");
    assert_eq!(found[3], 0);
}

#[test]
fn only_the_eligible_are_placed_on_and_the_tried_are_avoided() {
    for policy in Policy::ALL {
        let pool = pool(policy, &[1.0, 2.0, 3.0, 4.0]);
        let mut rng = fastrand::Rng::with_seed(1);
        pool.servers()[0].drain();
        pool.servers()[3].remove();
        for key in 0..100 {
            let avoid = [ServerId(1)];
            let found = place_avoiding(&pool, key, &avoid, &mut rng);
            assert_eq!(found, Some(2), "{policy}");
            end(&pool.servers()[2]);
        }
        let all = [ServerId(1), ServerId(2)];
        assert_eq!(place_avoiding(&pool, 1, &all, &mut rng), None, "{policy}");
        pool.servers()[1].unreachable(NOW, Judge::Probes);
        pool.servers()[2].drain();
        let now_and_then =
            || (0..4).filter_map(|key| place(&pool, key, &mut fastrand::Rng::with_seed(1)));
        assert_eq!(now_and_then().collect::<Vec<_>>(), [1], "{policy}");
        let empty = Pool::new(policy, Vec::new(), SLOW_START);
        assert_eq!(place(&empty, 1, &mut rng), None, "{policy}");
        assert_eq!(empty.scores(NOW, b"key"), [], "{policy}");
    }
}

#[test]
fn above_the_bound_is_better_than_nowhere() {
    let pool = pool(Policy::UserHash, &[1.0; 2]);
    (0..10).for_each(|_| pool.servers()[0].open_call());
    assert_eq!(
        pool.scores(NOW, b"key")[0].1,
        Err(Ineligible::AboveBound),
        "all calls are on one of two"
    );
    for key in 0..20 {
        let mut rng = fastrand::Rng::with_seed(key);
        let avoid = [ServerId(1)];
        assert_eq!(place_avoiding(&pool, key, &avoid, &mut rng), Some(0));
    }
}

#[test]
fn a_transaction_outside_a_call_counts_no_call() {
    for policy in Policy::ALL {
        let pool = pool(policy, &[1.0]);
        let arrival = Arrival {
            call: false,
            ..call(b"key", &[])
        };
        let server = pool
            .place(NOW, &arrival, &mut fastrand::Rng::with_seed(1))
            .unwrap();
        let counts = (server.calls(), server.transactions(), server.placed());
        assert_eq!((counts, server.work()), ((0, 1, 1), 1.75), "{policy}");
    }
}

#[test]
fn scores_explain_the_choice() {
    for policy in Policy::ALL {
        let pool = pool(policy, &[1.0, 2.0, 1.0, 1.0]);
        let mut rng = fastrand::Rng::with_seed(5);
        for key in 0..50 {
            place(&pool, key, &mut rng);
        }
        pool.servers()[3].drain();
        let scores = pool.scores(NOW, b"0-4711@198.51.100.7");
        assert_eq!(
            scores[3],
            (ServerId(3), Err(Ineligible::Draining)),
            "{policy}"
        );
        let chosen = place(&pool, 0, &mut rng).unwrap();
        let chosen = scores[chosen].1.unwrap();
        let lower = scores
            .iter()
            .filter(|(_, score)| score.is_ok_and(|score| score < chosen));
        // Of two drawn out of three, the better is never the worst of all.
        let draws = [Policy::P2c, Policy::PeakEwma, Policy::PeakEwma200];
        let allowed = usize::from(draws.contains(&policy));
        assert!(lower.count() <= allowed, "{policy}: {scores:?}");
    }
}

proptest! {
    /// Where each of 3,000 users goes, with and without one of the servers: those who were not on
    /// it stay, and it had no more than its share.
    #[test]
    fn only_the_keys_of_a_leaver_move(
        capacities in prop::collection::vec(0.5..4.0_f64, 2..9),
        leaver: prop::sample::Index,
        policy in prop::sample::select(vec![Policy::UserHash, Policy::BoundedHash, Policy::Maglev]),
    ) {
        let pool = pool(policy, &capacities);
        let leaver = leaver.index(capacities.len());
        let mut rng = fastrand::Rng::with_seed(1);
        let mut home = |key| {
            let server = place(&pool, key, &mut rng).unwrap();
            end(&pool.servers()[server]);
            server
        };
        let before: Vec<_> = (0..3_000).map(&mut home).collect();
        pool.servers()[leaver].drain();
        let mut moved = 0;
        for (key, before) in (0..).zip(before) {
            let after = home(key);
            prop_assert!(after != leaver);
            if before != after {
                prop_assert_eq!(before, leaver);
                moved += 1;
            }
        }
        let share = capacities[leaver] / capacities.iter().sum::<f64>();
        prop_assert!(f64::from(moved) < 3_000.0 * share * 1.2 + 60.0, "{} of {}", moved, share);
    }

    /// Where each of 3,000 users goes, before and after servers leave: to another server of the same cluster as
    /// long as there is one; then to another cluster, and nobody else moves.
    #[test]
    fn users_stay_in_their_cluster(
        sizes in prop::collection::vec(1..4_usize, 2..6),
        left in prop::sample::Index::arbitrary(),
        policy in prop::sample::select(vec![Policy::UserHash, Policy::BoundedHash]),
    ) {
        let cluster_of: Vec<usize> = (0..sizes.len())
            .flat_map(|cluster| vec![cluster; sizes[cluster]])
            .collect();
        let names: Vec<_> = cluster_of.iter().map(|cluster| format!("core-{cluster}")).collect();
        let pool = pool(policy, &vec![1.0; names.len()])
            .with_clusters(names.iter().map(String::as_str));
        let mut rng = fastrand::Rng::with_seed(1);
        let mut homes = || -> Vec<usize> {
            let home = |key| {
                let server = place(&pool, key, &mut rng).unwrap();
                end(&pool.servers()[server]);
                cluster_of[server]
            };
            (0..3_000).map(home).collect()
        };
        let before = homes();
        let fair = 3_000.0 / sizes.len() as f64;
        for cluster in 0..sizes.len() {
            let users = before.iter().filter(|home| **home == cluster).count() as f64;
            prop_assert!((users - fair).abs() < 5.0 * fair.sqrt(), "{} of {}", users, fair);
        }
        let left = left.index(sizes.len());
        let members: Vec<_> = (0..names.len()).filter(|it| cluster_of[*it] == left).collect();
        let (last, others) = members.split_last().unwrap();
        others.iter().for_each(|other| pool.servers()[*other].drain());
        ask_to_be_left_alone(&pool.servers()[*last]);
        prop_assert!((0..3_000).all(|key| {
            place(&pool, key, &mut fastrand::Rng::with_seed(1)).is_none() == (before[key as usize] == left)
        }), "who waits for a cluster goes to no other");
        pool.servers()[*last].drain();
        for (before, after) in before.into_iter().zip(homes()) {
            prop_assert!(after != left);
            prop_assert!(before == after || before == left);
        }
    }

    /// However skewed the users, no server exceeds the bound that held when it was placed on.
    #[test]
    fn bounded_hashing_is_bounded(
        capacities in prop::collection::vec(0.5..4.0_f64, 2..9),
        users in 1..5_u64,
        policy in prop::sample::select(vec![Policy::UserHash, Policy::BoundedHash]),
    ) {
        let pool = pool(policy, &capacities);
        let mut rng = fastrand::Rng::with_seed(1);
        let total: f64 = capacities.iter().sum();
        for calls in 0..2_000_u64 {
            let user = rng.u64(..users);
            let server = place(&pool, user, &mut rng).unwrap();
            let bound = 1.25 * calls as f64 * capacities[server] / total + 2.0;
            prop_assert!(pool.servers()[server].calls() as f64 <= bound);
        }
    }
}
