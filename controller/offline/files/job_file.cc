#include "controller/offline/files/job_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/fabric/paths.h"
#include "common/files/json.h"

namespace espalier::offline {
namespace {

using fabric::NodeId;
using fabric::Topology;

constexpr std::int64_t kMaxSeconds = 8'000'000;
constexpr std::int64_t kMaxEpochs = 1'000'000;
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

// What may stand under "kind" of an exchange.
struct Kind {
  std::string_view name;
  std::string_view with_article;
  Exchange (*make)(const std::vector<NodeId>& nics, std::int64_t bytes);
};
constexpr Kind kRing{"ring", "a ring", MakeRing};
constexpr Kind kKinds[] = {
    kRing,
    {"chain", "a chain", MakeChain},
    {"all-to-all", "an all-to-all", MakeAllToAll},
    {"reduce", "a reduce", MakeReduceTree},
    {"broadcast", "a broadcast", MakeBroadcastTree},
};

class Reader {
 public:
  Reader(std::string_view file_name, const Topology& topology)
      : file_(file_name), topology_(topology), paths_(topology) {}

  Result<std::vector<Job>> Read(const io::JsonValue& document) {
    io::JsonFields fields(document, file_);
    const auto& items = fields.RequiredArray("jobs");
    if (auto done = fields.Finish(); !done) return Propagate(done);
    std::vector<Job> jobs;
    for (const io::JsonValue& item : items) {
      auto job = ReadJob(item);
      if (!job) return Propagate(job);
      jobs.push_back(std::move(*job));
    }
    return jobs;
  }

 private:
  Result<Job> ReadJob(const io::JsonValue& item) {
    io::JsonFields fields(item, file_);
    Job job;
    job.id = fields.RequiredString("id");
    job.model = fields.String("model");
    job.start_ns = ReadTime(fields, "start_seconds");
    job.epochs = static_cast<int>(fields.Integer("epochs", 1, 1, kMaxEpochs));
    if (!fields.Has("phases")) return ReadRings(fields, std::move(job));
    const auto& phases = fields.RequiredArray("phases");
    if (phases.empty()) fields.AddError("phases", "a job needs at least one phase");
    if (fields.Has("rings")) fields.AddError("rings", "a job has either rings or phases");
    if (auto done = fields.Finish(); !done) return Propagate(done);
    for (const io::JsonValue& phase : phases) {
      auto read = ReadPhase(phase);
      if (!read) return Propagate(read);
      job.phases.push_back(std::move(*read));
    }
    return job;
  }

  // Reads the rest of a job of one phase, all of whose exchanges are rings.
  Result<Job> ReadRings(io::JsonFields& fields, Job job) {
    Phase phase{.name = "all-reduce", .compute_ns = ReadTime(fields, "compute_seconds")};
    const auto& rings = fields.RequiredArray("rings");
    if (rings.empty()) fields.AddError("rings", "a job needs at least one ring");
    if (auto done = fields.Finish(); !done) return Propagate(done);
    for (const io::JsonValue& item : rings) {
      io::JsonFields ring(item, file_);
      auto read = ReadExchange(ring, kRing);
      if (!read) return Propagate(read);
      phase.exchanges.push_back(std::move(*read));
    }
    job.phases.push_back(std::move(phase));
    return job;
  }

  Result<Phase> ReadPhase(const io::JsonValue& item) {
    io::JsonFields fields(item, file_);
    Phase phase{.name = fields.String("name"), .compute_ns = ReadTime(fields, "compute_seconds")};
    const auto& exchanges = fields.RequiredArray("exchanges");
    if (exchanges.empty()) fields.AddError("exchanges", "a phase needs at least one exchange");
    if (auto done = fields.Finish(); !done) return Propagate(done);
    for (const io::JsonValue& exchange : exchanges) {
      io::JsonFields members(exchange, file_);
      const std::string name = members.RequiredString("kind");
      const Kind* kind = std::ranges::find(kKinds, name, &Kind::name);
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

  static std::int64_t ReadTime(io::JsonFields& fields, std::string_view key) {
    const auto text = fields.Decimal(key);
    if (!text) return 0;
    const auto time = ParseSeconds(*text);
    if (!time) {
      fields.AddError(key, fmt::format("must be 0 to {} seconds, with at most nine decimal places",
                                       kMaxSeconds));
    }
    return time.value_or(0);
  }

  Result<Exchange> ReadExchange(io::JsonFields& fields, const Kind& kind) {
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

  Result<NodeId> ReadHost(const io::JsonValue& host) {
    if (host.kind != io::JsonValue::Kind::kString) {
      return FailAt(host, "a host must be a string");
    }
    const auto node = topology_.FindNode(host.text);
    if (!node) return FailAt(host, fmt::format("no node has the id \"{}\"", host.text));
    if (!paths_.FindAttachment(*node)) {
      return FailAt(host, fmt::format("{} is not a NIC on exactly one switch", host.text));
    }
    return *node;
  }

  tl::unexpected<Error> FailAt(const io::JsonValue& value, std::string_view what) const {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}:{}: {}", file_, value.line, value.column, what));
  }

  std::string file_;
  const Topology& topology_;
  fabric::PathTable paths_;
  std::size_t flows_ = 0;
};

Result<std::vector<std::string>> ListJobFiles(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string extension = entry.path().extension().string();
    if (entry.is_regular_file(error) && (extension == ".txt" || extension == ".json")) {
      files.push_back(entry.path().string());
    }
  }
  if (files.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{}: no job file (*.txt, *.json) in this folder", path));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

Result<std::vector<Job>> ParseJobs(std::string_view text, std::string_view file_name,
                                   const Topology& topology) {
  auto document = io::ParseJson(text, file_name);
  if (!document) return Propagate(document);
  return Reader(file_name, topology).Read(*document);
}

Result<std::vector<Job>> ReadJobs(const std::string& path, const Topology& topology) {
  auto files = ListJobFiles(path);
  if (!files) return Propagate(files);
  std::vector<Job> jobs;
  std::set<std::string> ids;
  for (const std::string& file : *files) {
    auto text = io::ReadFile(file);
    if (!text) return Propagate(text);
    std::vector<Job> read;
    if (file.ends_with(".json")) {
      auto parsed = ParseJobs(*text, file, topology);
      if (!parsed) return Propagate(parsed);
      read = std::move(*parsed);
    } else {
      auto parsed = ParseFloodnsJob(*text, file, topology);
      if (!parsed) return Propagate(parsed);
      read.push_back(std::move(*parsed));
    }
    for (Job& job : read) {
      if (!ids.insert(job.id).second) {
        return Fail(ErrorCode::kAlreadyExists,
                    fmt::format("{}:1:1: a second job has the id \"{}\"", file, job.id));
      }
      jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

}  // namespace espalier::offline
