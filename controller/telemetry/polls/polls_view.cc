#include "controller/telemetry/polls/polls_view.h"

#include <string>

namespace espalier::telemetry {

void WritePolls(io::JsonWriter& json, const PolledSwitches& switches, TimePoint now) {
  json.Key("polls").BeginArray();
  for (std::size_t i = 0; i < switches.polls().size(); ++i) {
    const Poll& poll = switches.polls()[i];
    const PolledSwitches::Source& source = switches.SourceOf(i);
    json.BeginObject().Key("node").String(switches.topology().node(poll.node).id);
    json.Key("reader").String(poll.reader->name);
    json.Key("target").String(Printable(poll.target.Name(), 200));
    json.Key("silent").Bool(source.is_silent);
    json.Key("age_seconds");
    if (source.answers > 0) {
      json.Double(SecondsOf(now - source.heard));
    } else {
      json.Null();
    }
    json.Key("answers").Integer(static_cast<std::int64_t>(source.answers));
    json.Key("failures").Integer(static_cast<std::int64_t>(source.failures));
    json.Key("problem").String(source.problem);
    json.Key("up").Integer(static_cast<std::int64_t>(source.up));
    json.Key("down").Integer(static_cast<std::int64_t>(source.down));
    json.Key("missing_ports").BeginArray();
    for (const std::string& port : switches.Missing(i)) json.String(port);
    json.EndArray().Key("unmatched_ports").BeginArray();
    for (const std::string& port : source.unmatched) json.String(port);
    json.EndArray().EndObject();
  }
  json.EndArray();
}

}  // namespace espalier::telemetry
