#include "controller/api/views/maintenance_view.h"

#include "common/files/json_writer.h"

namespace espalier::controller {

std::string MaintenanceView(const Controller& controller) {
  const State& state = controller.state();
  io::JsonWriter json;
  json.BeginObject().Key("windows").BeginArray();
  for (const auto& [name, intent] : state.intents.maintenance) {
    const auto* const window = std::get_if<MaintenanceWindow>(&intent.value);
    if (window == nullptr) continue;
    const bool is_held = state.held_windows.contains(name);
    json.BeginObject();
    json.Key("window").String(name);
    json.Key("kind").String(window->kind);
    json.Key("id").String(window->id);
    json.Key("state").String(window->has_begun ? "ACTIVE" : is_held ? "HELD" : "WAITING");
    json.Key("from").String(FormatWallTime(window->from));
    json.Key("until").String(intent.until ? FormatWallTime(*intent.until) : "");
    json.Key("forced").Bool(window->is_forced);
    json.Key("actor").String(intent.actor);
    json.Key("reason").String(intent.reason);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

}  // namespace espalier::controller
