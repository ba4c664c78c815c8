#include "controller/api/views/steering_view.h"

#include <algorithm>
#include <set>
#include <string>

#include "common/files/json_writer.h"
#include "controller/intents/intent_text.h"
#include "controller/intents/steering.h"

namespace espalier::controller {
std::string SteeringView(const Controller& controller) {
  const State& state = controller.state();
  const SteeringRules rules = state.Steering();
  const std::set<std::string> hosts = HostsWithNics(state.topology, state.paths);
  // A job without a name stands for jobs that nothing is set for.
  const auto steered = std::ranges::count_if(
      hosts, [&](std::string_view host) { return rules.IsSteered(host, ""); });
  const std::vector<FlowSlot> slots = state.flows.All();
  const auto unsteered = std::ranges::count_if(
      slots, [&](FlowSlot slot) { return state.flows.At(slot).status == FlowStatus::kUnsteered; });
  const std::string summary = rules.Describe();
  io::JsonWriter json;
  json.BeginObject();
  json.Key("summary").String(summary.empty() ? "steering is on" : summary);
  json.Key("mode").String(rules.observes() ? "OBSERVE" : "STEER");
  json.Key("on").Bool(!rules.IsSwitchedOff());
  json.Key("percent").Integer(rules.percent());
  json.Key("hosts").Integer(static_cast<std::int64_t>(hosts.size()));
  json.Key("hosts_steered").Integer(steered);
  json.Key("flows").Integer(static_cast<std::int64_t>(state.flows.size()));
  json.Key("flows_unsteered").Integer(unsteered);
  json.Key("forests").Integer(static_cast<std::int64_t>(state.intents.jobs.size()));
  json.Key("settings").BeginArray();
  for (const auto& [key, intent] : state.intents.steering) {
    json.BeginObject();
    json.Key("scope").String(key);
    json.Key("value").String(FormatIntentValue(intent.value));
    json.Key("actor").String(intent.actor);
    json.Key("since").String(FormatWallTime(intent.since));
    json.Key("until").String(intent.until ? FormatWallTime(*intent.until) : "");
    json.Key("reason").String(intent.reason);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

}  // namespace espalier::controller
