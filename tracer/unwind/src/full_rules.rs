//! Rules that do not fit a row's eight bytes, by their numbers.
//!
//! Leaves out what they mean (`tracer_ebpf::rows`).

use std::collections::HashMap;
use tracer_ebpf::rows::{FullRule, Rule};

/// Rules in full, each once.
#[derive(Debug, Default)]
pub struct FullRules {
    rules: Vec<FullRule>,
    places: HashMap<FullRule, u16>,
}

impl FullRules {
    /// Of those that have their places already.
    pub(super) fn of(rules: Vec<FullRule>) -> Self {
        let places = rules.iter().zip(0..).map(|(&full, place)| (full, place)).collect();
        Self { rules, places }
    }

    /// Leads to a rule by its place here; where there is no place for another one, its code cannot be unwound.
    pub fn number(&mut self, full: FullRule) -> Rule {
        if let Some(&place) = self.places.get(&full) {
            return Rule::full(place);
        }
        let Ok(place) = u16::try_from(self.rules.len()) else { return Rule::UNSUPPORTED };
        self.rules.push(full);
        self.places.insert(full, place);
        Rule::full(place)
    }

    /// The rule at a place.
    pub fn get(&self, place: u32) -> Option<FullRule> {
        self.rules.get(place as usize).copied()
    }

    /// The rules, in the order of their places.
    pub fn into_rules(self) -> Vec<FullRule> {
        self.rules
    }
}
