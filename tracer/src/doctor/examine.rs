//! All that is looked at, in the order in which it is shown.
//!
//! Leaves out the looking: one file for each area.

use super::finding::{DoctorPlan, Finding};
use super::{file_readers, interpreters, kernel, power};

/// Looks at everything.
pub fn examine(plan: &DoctorPlan) -> Vec<Finding> {
    let mut findings = kernel::examine(plan);
    findings.push(file_readers::examine());
    findings.extend(power::examine(plan));
    findings.extend(interpreters::examine(plan));
    findings
}
