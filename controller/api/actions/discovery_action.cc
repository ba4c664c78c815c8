#include "controller/api/actions/discovery_action.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/base/address/ip_prefix.h"
#include "common/files/json_writer.h"
#include "controller/discovery/discovery_run.h"

namespace espalier::controller {
namespace {

using discovery::DiscoveredFabric;
using discovery::DiscoveredLink;
using discovery::DiscoveryRun;
using io::JsonWriter;

std::string Parameter(const io::HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

Result<std::vector<IpPrefix>> ParseNetworks(const std::string& text) {
  constexpr std::size_t kMost = 64;
  std::vector<IpPrefix> networks;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto prefix = IpPrefix::Parse(text.substr(at, end - at));
    if (!prefix) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("network: {}", prefix.error().message));
    }
    if (networks.size() == kMost) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("network: more than {} prefixes", kMost));
    }
    networks.push_back(*prefix);
    at = end + 1;
  }
  return networks;
}

std::string_view PhaseName(DiscoveryRun::Phase phase) {
  switch (phase) {
    case DiscoveryRun::Phase::kNone:
      return "NONE";
    case DiscoveryRun::Phase::kRunning:
      return "RUNNING";
    case DiscoveryRun::Phase::kComplete:
      return "COMPLETE";
  }
  return "NONE";
}

std::string Text(const IpAddress& address) { return address.IsNone() ? "" : address.ToString(); }

void WriteTexts(JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
  json.Key(key).BeginArray();
  for (const std::string& text : texts) json.String(text);
  json.EndArray();
}

void WriteSwitches(JsonWriter& json, const DiscoveredFabric& fabric) {
  json.Key("switches").BeginArray();
  for (const discovery::DiscoveredSwitch& each : fabric.switches) {
    json.BeginObject();
    json.Key("id").String(each.name);
    json.Key("role").String(
        each.role == fabric::SwitchRole::kNone ? "" : fabric::SwitchRoleName(each.role));
    json.Key("tier").Integer(each.tier);
    json.Key("silent").Bool(each.is_silent);
    json.Key("addresses").BeginArray();
    for (const IpAddress& address : each.addresses) json.String(address.ToString());
    json.EndArray().EndObject();
  }
  json.EndArray();
}

void WriteLinks(JsonWriter& json, const DiscoveredFabric& fabric) {
  json.Key("links").BeginArray();
  for (const DiscoveredLink& link : fabric.links) {
    json.BeginObject();
    json.Key("a").String(fabric.switches[link.a.at].name);
    json.Key("b").String(fabric.switches[link.b.at].name);
    json.Key("a_address").String(Text(link.a.address));
    json.Key("b_address").String(Text(link.b.address));
    json.EndObject();
  }
  json.EndArray();
}

void WriteNics(JsonWriter& json, const discovery::Found& found) {
  const DiscoveredFabric& fabric = found.fabric;
  json.Key("nics").BeginArray();
  for (std::size_t i = 0; i < fabric.nics.size(); ++i) {
    const discovery::Endpoint& nic = found.nics[i];
    const discovery::AttachedNic& attached = fabric.nics[i];
    json.BeginObject();
    json.Key("host").String(nic.host);
    json.Key("device").String(nic.device);
    json.Key("address").String(nic.address.ToString());
    json.Key("switch").String(attached.at ? fabric.switches[*attached.at].name : "");
    json.Key("switch_address").String(Text(attached.switch_address));
    json.EndObject();
  }
  json.EndArray();
}

// What stays open, with the agents that have not probed all that they were asked to.
std::vector<std::string> MissingFacts(const DiscoveryRun& run) {
  std::vector<std::string> missing = run.found().fabric.missing;
  for (const auto& [host, reason] : run.failures()) {
    missing.push_back(fmt::format("{} has not probed all that it was asked to: {}", host, reason));
  }
  return missing;
}

std::int64_t Count(std::size_t number) { return static_cast<std::int64_t>(number); }

}  // namespace

Result<std::string> StartDiscovery(Controller& controller, const io::HttpRequest& request) {
  const std::string fresh = Parameter(request, "fresh");
  if (!fresh.empty() && fresh != "true" && fresh != "false") {
    return Fail(ErrorCode::kInvalidArgument, "fresh: invalid value (give true or false)");
  }
  const auto networks = ParseNetworks(Parameter(request, "network"));
  if (!networks) return tl::unexpected<Error>(networks.error());
  DiscoveryRun::Request asked{.is_fresh = fresh == "true"};
  asked.covers = [networks = *networks](const IpAddress& address) {
    return networks.empty() || std::ranges::any_of(networks, [&](const IpPrefix& network) {
             return network.Contains(address);
           });
  };
  const Result<void> started = controller.discovery_run().Start(asked);
  if (!started) return tl::unexpected<Error>(started.error());
  return DiscoveryView(controller);
}

std::string DiscoveryView(Controller& controller) {
  const DiscoveryRun& run = controller.discovery_run();
  const discovery::Found& found = run.found();
  const DiscoveredFabric& fabric = found.fabric;
  JsonWriter json;
  json.BeginObject();
  json.Key("state").String(PhaseName(run.phase()));
  json.Key("rounds").Integer(static_cast<std::int64_t>(found.rounds));
  json.Key("probes").Integer(static_cast<std::int64_t>(found.probes));
  json.Key("answers").Integer(static_cast<std::int64_t>(found.answers));
  json.Key("confidence").Double(fabric.confidence);
  WriteSwitches(json, fabric);
  WriteLinks(json, fabric);
  WriteNics(json, found);
  WriteTexts(json, "missing", MissingFacts(run));
  WriteTexts(json, "contradictions", fabric.contradictions);
  WriteTexts(json, "drift", run.drift());
  json.EndObject();
  return json.Text();
}

std::string DiscoveryFindings(Controller& controller) {
  const DiscoveryRun& run = controller.discovery_run();
  const discovery::Found& found = run.found();
  const DiscoveredFabric& fabric = found.fabric;
  const auto silent = std::ranges::count_if(
      fabric.switches, [](const discovery::DiscoveredSwitch& each) { return each.is_silent; });
  JsonWriter json;
  json.BeginObject();
  json.Key("state").String(PhaseName(run.phase()));
  json.Key("probes").Integer(Count(found.probes));
  json.Key("answers").Integer(Count(found.answers));
  json.Key("confidence").Double(fabric.confidence);
  json.Key("switches").Integer(Count(fabric.switches.size()));
  json.Key("silent_switches").Integer(silent);
  json.Key("links").Integer(Count(fabric.links.size()));
  json.Key("nics").Integer(Count(found.nics.size()));
  WriteTexts(json, "differences", run.differences());
  WriteTexts(json, "drift", run.drift());
  WriteTexts(json, "contradictions", fabric.contradictions);
  WriteTexts(json, "missing", MissingFacts(run));
  json.EndObject();
  return json.Text();
}

}  // namespace espalier::controller
