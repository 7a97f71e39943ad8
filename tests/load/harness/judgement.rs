//! Judgement of a run: events that none of its faults explains.

use super::results::PhaseResult;

/// Lists lost jobs, calls that were repeated before the first fault, and refusals although the gateway can reach PostgreSQL.
pub(crate) fn problems(results: &[PhaseResult]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut had_fault = false;
    for result in results {
        let PhaseResult { phase, lost, repeated, refused, .. } = result;
        had_fault |= phase.is_fault();
        let name = phase.name();
        if *lost > 0 {
            problems.push(format!("{name}: {lost} jobs were lost"));
        }
        if *repeated > 0 && !had_fault {
            problems.push(format!("{name}: {repeated} calls were repeated before the first fault"));
        }
        if *refused > 0 && !phase.may_refuse() {
            problems.push(format!("{name}: {refused} jobs were refused although PostgreSQL was available"));
        }
    }
    problems
}

// The benchmark has no tests, so that an import here would be unused in it.
#[cfg(test)]
mod tests {
    #[test]
    fn faults_explain_repeated_calls_and_refusals_but_no_lost_job() {
        use super::super::Kind::{self, Clean, KillWorker, PgBackendKill, Recovery, Saturated};
        let result = |phase: Kind, lost: u64, repeated: u64, refused: u64| super::PhaseResult {
            phase,
            lost,
            repeated,
            refused,
            ..super::PhaseResult::default()
        };
        let problems = |results: &[super::PhaseResult]| super::problems(results).len();
        assert_eq!(problems(&[result(Clean, 0, 0, 0), result(KillWorker, 0, 1, 0)]), 0);
        assert_eq!(problems(&[result(PgBackendKill, 0, 1, 1), result(Saturated, 0, 1, 0)]), 0);
        assert_eq!(problems(&[result(Clean, 0, 1, 0), result(KillWorker, 0, 0, 0)]), 1);
        assert_eq!(problems(&[result(KillWorker, 0, 0, 1), result(Recovery, 0, 0, 1)]), 2);
        assert_eq!(problems(&[result(PgBackendKill, 1, 0, 0), result(Kind::Warmup, 1, 0, 0)]), 2);
    }
}
