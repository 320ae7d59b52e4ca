//! The token bucket over time.

use std::time::Duration;

use gateway::{Throttle, ThrottleLimits};

#[test]
fn the_long_run_is_the_rate_and_the_pause_is_the_burst() {
    for (rate, burst) in [(1, 1), (10, 100), (1_000, 10), (3_000, 3_000)] {
        let mut throttle = Throttle::new(ThrottleLimits { rate, burst }, Duration::ZERO);
        let mut passed = 0_u64;
        let seconds = 20;
        for millisecond in 0..seconds * 1_000 {
            throttle.refill(Duration::from_millis(millisecond));
            // Asks for more than it can get, every millisecond.
            for _ in 0..8 {
                passed += u64::from(throttle.take(false));
            }
        }
        let most = u64::from(burst) + u64::from(rate) * seconds;
        assert!(passed <= most, "{rate}/s and {burst}: {passed} of {most}");
        assert!(passed + 1 + u64::from(rate) / 100 >= most, "{rate}/s and {burst}: {passed} of {most}");
    }
}

#[test]
fn time_that_goes_back_or_far_ahead_earns_no_more_than_a_burst() {
    let mut throttle = Throttle::new(ThrottleLimits { rate: 5, burst: 3 }, Duration::from_secs(10));
    for now in [0, 10, u64::MAX] {
        throttle.refill(Duration::from_secs(now));
    }
    assert!(throttle.is_full());
    let passed = (0..10).filter(|_| throttle.take(false)).count();
    assert_eq!(passed, 3);
    assert!(!throttle.is_enough());
}
