#include "controller/api/views/prediction_view.h"

#include "common/files/json_writer.h"

namespace espalier::controller {

std::string PredictionsView(const Controller& controller) {
  io::JsonWriter json;
  json.BeginObject().Key("predict").BeginArray();
  for (const StartPredictor::JobView& job : controller.predictor().Jobs()) {
    json.BeginObject();
    json.Key("job").String(job.job);
    json.Key("on").Bool(job.is_on);
    json.Key("bursts").Integer(static_cast<std::int64_t>(job.bursts));
    json.Key("bursts_ready").Integer(static_cast<std::int64_t>(job.bursts_ready));
    json.Key("predicted_starts").Integer(static_cast<std::int64_t>(job.predicted_starts));
    json.Key("start_error_p50").Double(job.start_error_p50);
    json.Key("start_error_p90").Double(job.start_error_p90);
    json.Key("predicted_ends").Integer(static_cast<std::int64_t>(job.predicted_ends));
    json.Key("end_error_p50").Double(job.end_error_p50);
    json.Key("end_error_p90").Double(job.end_error_p90);
    json.Key("sets").Integer(static_cast<std::int64_t>(job.sets));
    json.Key("flows").Integer(static_cast<std::int64_t>(job.members));
    json.Key("period_seconds").Double(job.period ? SecondsOf(*job.period) : 0);
    json.Key("next_known").Bool(job.next_start.has_value());
    json.Key("next_in_seconds")
        .Double(job.next_start ? SecondsOf(*job.next_start - controller.Now()) : 0);
    json.Key("uncertainty_seconds").Double(SecondsOf(job.uncertainty));
    json.Key("confidence").Double(job.confidence);
    json.Key("next_flows").Integer(static_cast<std::int64_t>(job.next_flows));
    json.Key("planned").Bool(job.is_planned);
    json.EndObject();
  }
  json.EndArray();
  const FailurePlans& plans = controller.failure_plans();
  json.Key("failure_plans").BeginObject();
  json.Key("loaded").Integer(static_cast<std::int64_t>(plans.loaded()));
  json.Key("fresh").Integer(static_cast<std::int64_t>(plans.fresh()));
  json.Key("entries").Integer(static_cast<std::int64_t>(plans.entries()));
  json.EndObject().EndObject();
  return json.Text();
}

}  // namespace espalier::controller
