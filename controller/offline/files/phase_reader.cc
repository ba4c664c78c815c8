#include "controller/offline/files/phase_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "controller/offline/files/limits.h"

namespace espalier::offline {

using fabric::NodeId;

// What may stand under "kind" of an exchange.
struct ExchangeKind {
  std::string_view name;
  std::string_view with_article;
  Exchange (*make)(const std::vector<NodeId>& nics, std::int64_t bytes);
};

namespace {

constexpr std::int64_t kMaxSeconds = 8'000'000;
constexpr std::size_t kNanosecondDigits = 9;

// Converts seconds such as "2.5" to nanoseconds; none unless it is a decimal of at most nine
// places.
std::optional<std::int64_t> ParseSeconds(std::string_view text) {
  const std::size_t dot = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, dot);
  std::string decimals(text.substr(std::min(dot + 1, text.size())));
  if (decimals.size() > kNanosecondDigits) return std::nullopt;
  decimals.resize(kNanosecondDigits, '0');
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  const auto is_read = [](std::string_view digits, auto& value) {
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
  };
  if (!is_read(whole, seconds) || !is_read(decimals, nanoseconds)) return std::nullopt;
  if (seconds < 0 || whole.starts_with('-') || seconds > kMaxSeconds) return std::nullopt;
  return seconds * 1'000'000'000 + nanoseconds;
}

constexpr ExchangeKind kRing{"ring", "a ring", MakeRing};
constexpr ExchangeKind kKinds[] = {
    kRing,
    {"chain", "a chain", MakeChain},
    {"all-to-all", "an all-to-all", MakeAllToAll},
    {"reduce", "a reduce", MakeReduceTree},
    {"broadcast", "a broadcast", MakeBroadcastTree},
};

}  // namespace

std::int64_t ReadSeconds(io::JsonFields& fields, std::string_view key) {
  const auto text = fields.Decimal(key);
  if (!text) return 0;
  const auto time = ParseSeconds(*text);
  if (!time) {
    fields.AddError(
        key, fmt::format("must be 0 to {} seconds, with at most nine decimal places", kMaxSeconds));
  }
  return time.value_or(0);
}

Result<std::vector<Phase>> PhaseReader::ReadPhases(io::JsonFields& fields) {
  if (!fields.Has("phases")) return ReadRings(fields);
  const auto& items = fields.RequiredArray("phases");
  if (items.empty()) fields.AddError("phases", "a job needs at least one phase");
  if (fields.Has("rings")) fields.AddError("rings", "a job has either rings or phases");
  if (auto done = fields.Finish(); !done) return Propagate(done);
  std::vector<Phase> phases;
  for (const io::JsonValue& item : items) {
    auto phase = ReadPhase(item);
    if (!phase) return Propagate(phase);
    phases.push_back(std::move(*phase));
  }
  return phases;
}

Result<std::vector<Phase>> PhaseReader::ReadRings(io::JsonFields& fields) {
  Phase phase{.name = "all-reduce", .compute_ns = ReadSeconds(fields, "compute_seconds")};
  const auto& rings = fields.RequiredArray("rings");
  if (rings.empty()) fields.AddError("rings", "a job needs at least one ring");
  if (auto done = fields.Finish(); !done) return Propagate(done);
  for (const io::JsonValue& item : rings) {
    io::JsonFields ring(item, file_);
    auto read = ReadExchange(ring, kRing);
    if (!read) return Propagate(read);
    phase.exchanges.push_back(std::move(*read));
  }
  return std::vector<Phase>{std::move(phase)};
}

Result<Phase> PhaseReader::ReadPhase(const io::JsonValue& item) {
  io::JsonFields fields(item, file_);
  Phase phase{.name = fields.String("name"), .compute_ns = ReadSeconds(fields, "compute_seconds")};
  const auto& exchanges = fields.RequiredArray("exchanges");
  if (exchanges.empty()) fields.AddError("exchanges", "a phase needs at least one exchange");
  if (auto done = fields.Finish(); !done) return Propagate(done);
  for (const io::JsonValue& exchange : exchanges) {
    io::JsonFields members(exchange, file_);
    const std::string name = members.RequiredString("kind");
    const ExchangeKind* kind = std::ranges::find(kKinds, name, &ExchangeKind::name);
    if (kind == std::end(kKinds)) {
      members.AddError("kind", "must be ring, chain, all-to-all, reduce or broadcast");
      kind = &kRing;  // the error is told with those of the other members
    }
    auto read = ReadExchange(members, *kind);
    if (!read) return Propagate(read);
    phase.exchanges.push_back(std::move(*read));
  }
  return phase;
}

Result<Exchange> PhaseReader::ReadExchange(io::JsonFields& fields, const ExchangeKind& kind) {
  const auto& hosts = fields.RequiredArray("hosts");
  const std::int64_t bytes = fields.Integer("bytes", 0, 1, kMaxFlowBytes);
  if (!fields.Has("bytes")) fields.AddError("bytes", "field \"bytes\" is missing");
  if (hosts.size() < 2) {
    fields.AddError("hosts", fmt::format("{} needs at least two hosts", kind.with_article));
  }
  flows_ += hosts.size() * (kind.make == MakeAllToAll ? hosts.size() - 1 : 1);
  if (flows_ > kMaxJobFlows) {
    fields.AddError("hosts", fmt::format("the file has more than {} flows", kMaxJobFlows));
  }
  if (auto done = fields.Finish(); !done) return Propagate(done);

  std::vector<NodeId> nodes;
  std::set<NodeId> seen;
  for (const io::JsonValue& host : hosts) {
    auto node = ReadHost(host);
    if (!node) return Propagate(node);
    if (!seen.insert(*node).second) {
      return FailAt(host, fmt::format("{} occurs twice in the {}", host.text, kind.name));
    }
    nodes.push_back(*node);
  }
  return kind.make(nodes, bytes);
}

Result<NodeId> PhaseReader::ReadHost(const io::JsonValue& host) {
  if (host.kind != io::JsonValue::Kind::kString) {
    return FailAt(host, "a host must be a string");
  }
  const auto node = topology_.FindNode(host.text);
  if (!node) return FailAt(host, fmt::format("no node has the id \"{}\"", host.text));
  if (!paths_.FindAttachment(*node)) {
    return FailAt(host, fabric::WhyUnattached(topology_, *node));
  }
  return *node;
}

tl::unexpected<Error> PhaseReader::FailAt(const io::JsonValue& value, std::string_view what) const {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}:{}:{}: {}", file_, value.line, value.column, what));
}

}  // namespace espalier::offline
