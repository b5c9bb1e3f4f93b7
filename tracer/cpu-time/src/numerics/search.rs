//! A binary search that begins where the last one ended.
//!
//! What is looked for one after the other mostly lies near: then steps grow with how far it lies, not with
//! how much there is (Bentley, Yao: An almost optimal algorithm for unbounded searching, 1976).

/// `partition_point` of a list, looked for from `near` on.
pub fn partition_near<T>(list: &[T], near: usize, is_before: impl Fn(&T) -> bool) -> usize {
    let near = near.min(list.len());
    let mut reach = 1;
    let (from, until) = if list.get(near).is_some_and(&is_before) {
        while list.get(near + reach).is_some_and(&is_before) {
            reach *= 2;
        }
        (near + reach / 2, list.len().min(near + reach))
    } else {
        while near.checked_sub(reach).and_then(|at| list.get(at)).is_some_and(|one| !is_before(one)) {
            reach *= 2;
        }
        (near.saturating_sub(reach), near - reach / 2)
    };
    from + list.get(from..until).unwrap_or_default().partition_point(is_before)
}

#[cfg(test)]
mod tests {
    use super::partition_near;

    /// Wherever it begins, it finds what a search of all finds.
    #[test]
    fn as_partition_point() {
        for length in [0_u32, 1, 2, 3, 8, 33] {
            let list: Vec<u32> = (0..length).map(|i| i / 2 * 3).collect();
            for wanted in 0..60 {
                let expected = list.partition_point(|one| *one < wanted);
                for near in 0..=list.len() + 2 {
                    assert_eq!(partition_near(&list, near, |one| *one < wanted), expected);
                }
            }
        }
    }
}
