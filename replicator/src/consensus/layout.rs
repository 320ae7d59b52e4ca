//! Which layouts of voters are safe. It must not know how one is changed.

use std::collections::BTreeMap;

use crate::member::Member;

/// What speaks against these voters, in words; `None` if nothing does.
pub fn objection(voters: &[Member]) -> Option<String> {
    if voters.is_empty() {
        return Some("a cluster needs at least one voter".into());
    }
    if voters.len().is_multiple_of(2) {
        return Some(format!(
            "{} voters survive the loss of no more members than {} do; add or remove one",
            voters.len(),
            voters.len() - 1
        ));
    }
    if voters.len() < 3 {
        return None;
    }
    let quorum = voters.len() / 2 + 1;
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    for voter in voters.iter().filter(|voter| !voter.zone.is_empty()) {
        *zones.entry(&voter.zone).or_default() += 1;
    }
    let (zone, count) = zones.into_iter().find(|(_, count)| *count >= quorum)?;
    Some(format!(
        "zone {zone} would hold {count} of {} voters, a quorum: if it fails, so does the cluster",
        voters.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::MemberId;

    fn voters(zones: &[&str]) -> Vec<Member> {
        let member = |(place, zone): (usize, &&str)| Member {
            id: MemberId(place as u64 + 1),
            zone: (*zone).to_owned(),
            ..Member::default()
        };
        zones.iter().enumerate().map(member).collect()
    }

    #[test]
    fn odd_and_spread_is_safe() {
        let cases: [(&[&str], Option<&str>); 8] = [
            (&[], Some("at least one")),
            (&["a"], None),
            (&["a", "b"], Some("2 voters survive")),
            (&["a", "b", "c"], None),
            (&["", "", ""], None),
            (&["a", "a", "b"], Some("zone a would hold 2 of 3")),
            (&["a", "a", "b", "b", "c"], None),
            (&["a", "a", "b", "c"], Some("4 voters")),
        ];
        for (zones, expected) in cases {
            let objection = objection(&voters(zones));
            match expected {
                None => assert_eq!(objection, None, "{zones:?}"),
                Some(part) => assert!(objection.is_some_and(|text| text.contains(part)), "{zones:?}"),
            }
        }
    }
}
