#include "controller/offline/files/assignment_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "common/base/enum_names.h"
#include "common/base/units.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "common/files/json_writer.h"

namespace espalier::offline {

using controller::Load;
using fabric::DirectedLink;
using fabric::Topology;

namespace {

constexpr EnumNames<AssignmentState> kStateNames({
    {AssignmentState::kRouted, "ROUTED"},
    {AssignmentState::kLocal, "LOCAL"},
    {AssignmentState::kUnroutable, "UNROUTABLE"},
});

constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();

// Parses a share such as "1" or "1/2"; none if it is not a part of a flow.
std::optional<Load> ParseShare(std::string_view text) {
  const auto read = [](std::string_view digits) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end || value < 1) return std::nullopt;
    return value;
  };
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto part = read(text.substr(0, slash));
  const auto whole =
      slash == text.size() ? std::optional(std::int64_t{1}) : read(text.substr(slash + 1));
  if (!part || !whole || *part > *whole || *whole > controller::kLoadUnit) return std::nullopt;
  return Load{*part, *whole};
}

class Reader {
 public:
  explicit Reader(std::string_view file_name) : file_(file_name) {}

  Result<PreviousAssignment> Read(const io::JsonValue& document) {
    io::JsonFields fields(document, file_);
    fields.RequiredString("algorithm");
    for (const char* key : {"flows", "routed", "local", "unroutable", "moved", "moved_bytes"}) {
      fields.Integer(key, 0, 0, kMaxInteger);
    }
    for (const char* key : {"max_link_load", "lower_bound", "proof"}) fields.String(key);
    fields.Array("tiers");
    fields.Object("job_min_share_gbps");
    fields.Decimal("microseconds");
    const auto& assignments = fields.RequiredArray("assignments");
    if (auto done = fields.Finish(); !done) return Propagate(done);
    PreviousAssignment plan;
    for (const io::JsonValue& assignment : assignments) {
      if (auto done = ReadFlow(assignment, plan); !done) return Propagate(done);
    }
    return plan;
  }

 private:
  Result<void> ReadFlow(const io::JsonValue& assignment, PreviousAssignment& plan) {
    io::JsonFields fields(assignment, file_);
    const std::string id = fields.RequiredString("flow");
    const std::string state = fields.RequiredString("state");
    const auto& paths = fields.Array("paths");
    if (!kStateNames.Find(state)) fields.AddError("state", "must be ROUTED, LOCAL or UNROUTABLE");
    if (plan.contains(id)) fields.AddError("flow", "the flow occurs twice in the file");
    if (auto done = fields.Finish(); !done) return done;
    std::vector<PreviousPath>& entry = plan[id];
    for (const io::JsonValue& path : paths) {
      auto read = ReadPath(path);
      if (!read) return Propagate(read);
      entry.push_back(std::move(*read));
    }
    return {};
  }

  Result<PreviousPath> ReadPath(const io::JsonValue& value) {
    io::JsonFields fields(value, file_);
    PreviousPath path;
    fields.Array("via");
    for (const io::JsonValue& link : fields.RequiredArray("links")) {
      if (link.kind != io::JsonValue::Kind::kString)
        fields.AddError("links", "must be ids of links");
      path.links.push_back(link.text);
    }
    const auto share = ParseShare(fields.RequiredString("share"));
    if (!share) fields.AddError("share", "must be a part of a flow (\"1\", \"1/2\")");
    if (auto done = fields.Finish(); !done) return Propagate(done);
    path.share = *share;
    return path;
  }

  std::string file_;
};

}  // namespace

std::string_view AssignmentStateName(AssignmentState state) { return kStateNames.NameOf(state); }

std::int64_t AssignmentResult::Count(AssignmentState state) const {
  return std::ranges::count(flows, state, &AssignedFlow::state);
}

std::vector<std::string> ViaOf(const AssignedPath& path, const Topology& topology) {
  std::vector<std::string> via;
  const DirectedLink first = DirectedLink::FromIndex(path.links.front());
  const DirectedLink last = DirectedLink::FromIndex(path.links.back());
  // The switch of a NIC's only uplink is no choice.
  const std::size_t begin = topology.HasSeveralUplinks(topology.From(first)) ? 0 : 1;
  const std::size_t after = topology.HasSeveralUplinks(topology.To(last)) ? 1 : 2;
  for (std::size_t i = begin; i + after < path.links.size(); ++i) {
    via.push_back(topology.node(topology.To(DirectedLink::FromIndex(path.links[i]))).id);
  }
  return via;
}

std::string ShareOf(const AssignedPath& path) {
  const std::int64_t common = std::gcd(path.share, controller::kLoadUnit);
  return Load{path.share / common, controller::kLoadUnit / common}.ToString();
}

std::string RateText(double rate_bps) { return FormatGbps(BitsPerSecond{std::llround(rate_bps)}); }

std::string FormatAssignment(const AssignmentResult& plan, const FlowSet& flows,
                             const Topology& topology) {
  io::JsonWriter json;
  json.BeginObject().Key("algorithm").String(plan.algorithm);
  json.Key("flows").Integer(static_cast<std::int64_t>(plan.flows.size()));
  json.Key("routed").Integer(plan.Count(AssignmentState::kRouted));
  json.Key("local").Integer(plan.Count(AssignmentState::kLocal));
  json.Key("unroutable").Integer(plan.Count(AssignmentState::kUnroutable));
  json.Key("max_link_load").String(plan.max_load.ToString());
  json.Key("lower_bound").String(plan.lower_bound.ToString());
  json.Key("proof").String(controller::ProofText(plan.proof));
  json.Key("tiers").BeginArray();
  for (const AssignmentResult::Tier& tier : plan.tiers) {
    json.BeginObject().Key("max_link_load").String(tier.max_load.ToString());
    json.Key("lower_bound").String(tier.lower_bound.ToString()).EndObject();
  }
  json.EndArray();
  json.Key("job_min_share_gbps").BeginObject();
  for (std::size_t job = 0; job < flows.jobs.size(); ++job) {
    json.Key(flows.jobs[job]).String(RateText(plan.job_rates_bps[job]));
  }
  json.EndObject();
  json.Key("moved").Integer(plan.moved_flows);
  json.Key("moved_bytes").Integer(plan.moved_bytes);
  json.Key("microseconds").Double(plan.microseconds);
  json.Key("assignments").BeginArray();
  for (std::size_t i = 0; i < plan.flows.size(); ++i) {
    const AssignedFlow& flow = plan.flows[i];
    json.BeginObject().Key("flow").String(flows.flows[i].id);
    json.Key("state").String(AssignmentStateName(flow.state));
    json.Key("paths").BeginArray();
    for (const AssignedPath& path : flow.paths) {
      json.BeginObject().Key("via").BeginArray();
      for (const std::string& node : ViaOf(path, topology)) json.String(node);
      json.EndArray().Key("links").BeginArray();
      for (const std::uint32_t link : path.links) {
        json.String(topology.link(DirectedLink::FromIndex(link).link).id);
      }
      json.EndArray().Key("share").String(ShareOf(path)).EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

Result<PreviousAssignment> ParsePreviousAssignment(std::string_view text,
                                                   std::string_view file_name) {
  const auto document = io::ParseJson(text, file_name);
  if (!document) return tl::unexpected<Error>(document.error());
  return Reader(file_name).Read(*document);
}

}  // namespace espalier::offline
