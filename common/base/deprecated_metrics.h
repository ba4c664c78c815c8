#pragma once

#include <string_view>

namespace espalier {

// Metrics that have a new name since release 0.2. Metrics::Text repeats each of them under its old
// name, so that dashboards and alerts keep working for one release; the release after removes this
// table.
struct RenamedMetric {
  std::string_view name;
  std::string_view old_name;  // deprecated
};

inline constexpr RenamedMetric kRenamedMetrics[] = {
    // deprecated names on the right
    {"espalier_agent_local_reroutes_total", "espalier_agent_redraws_total"},
    {"espalier_agent_path_checks_deferred_total", "espalier_agent_checks_put_off_total"},
    {"espalier_agent_path_reports_dropped_total", "espalier_agent_findings_dropped_total"},
    {"espalier_controller_predicted_ports_quarantined_total",
     "espalier_controller_predicted_ports_given_up_total"},
    {"espalier_failure_plan_paths_total", "espalier_failure_plan_ways_total"},
    {"espalier_prediction_end_error_seconds", "espalier_foresight_end_error_seconds"},
    {"espalier_prediction_jobs", "espalier_foresight_jobs"},
    {"espalier_prediction_jobs_disabled", "espalier_foresight_jobs_off"},
    {"espalier_prediction_plan_hits_total", "espalier_foresight_plan_hits_total"},
    {"espalier_prediction_plan_misses_total", "espalier_foresight_plan_misses_total"},
    {"espalier_prediction_plan_seconds", "espalier_foresight_plan_seconds"},
    {"espalier_prediction_plan_stale_hits_total", "espalier_foresight_plan_fits_total"},
    {"espalier_prediction_plans_computed_total", "espalier_foresight_plans_made_total"},
    {"espalier_prediction_start_error_seconds", "espalier_foresight_start_error_seconds"},
    {"espalier_prediction_starts_expected_total", "espalier_foresight_starts_expected_total"},
    {"espalier_prediction_starts_unexpected_total", "espalier_foresight_starts_unexpected_total"},
};

}  // namespace espalier
