#include "controller/offline/files/floodns_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "common/fabric/paths.h"
#include "controller/offline/files/limits.h"
#include "controller/offline/files/record_reader.h"

namespace espalier::offline {
namespace {

using fabric::NodeId;
using fabric::Topology;

enum Column {
  kSource,
  kDestination,
  kSourceTor,
  kDestinationTor,
  kStart,
  kBytes,
  kCompute,
  kStage
};
constexpr std::size_t kColumns = 8;
constexpr std::int64_t kMaxNumber = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxTime = std::int64_t{1} << 53;  // ns; 104 days

class Reader {
 public:
  Reader(std::string_view text, std::string_view file_name, const Topology& topology)
      : records_(text, file_name, RecordReader::Format::kColumns),
        file_(file_name),
        topology_(topology),
        paths_(topology) {
    for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
      const fabric::Node& node = topology.nodes()[i];
      if (node.kind != fabric::NodeKind::kSwitch) continue;
      ++switches_;
      if (node.role != fabric::SwitchRole::kLeaf) continue;
      leaves_.push_back(NodeId(static_cast<std::int32_t>(i)));
    }
  }

  Result<Job> Read() {
    const std::string stem = std::filesystem::path(file_).stem().string();
    const std::size_t dash = stem.find('-');
    job_.id = stem.substr(0, dash);
    if (dash != std::string::npos) job_.model = stem.substr(dash + 1);
    auto read = records_.ForEach([this](auto fields) { return ReadFlow(fields); });
    if (!read) return Propagate(read);
    return Finish();
  }

 private:
  Result<void> ReadFlow(std::span<const Field> fields) {
    if (fields.size() != kColumns) {
      return records_.FailAt(
          fields[std::min(fields.size(), kColumns) - 1],
          fmt::format("the line has {} columns (write 8: src dst src_tor dst_tor start_time "
                      "flow_size compute_time stage_index)",
                      fields.size()));
    }
    if (++flows_ > kMaxJobFlows) {
      return records_.FailAt(fields[0], fmt::format("more than {} flows", kMaxJobFlows));
    }
    auto source = ReadHost(fields[kSource], fields[kSourceTor]);
    if (!source) return Propagate(source);
    auto destination = ReadHost(fields[kDestination], fields[kDestinationTor]);
    if (!destination) return Propagate(destination);
    if (*source == *destination) {
      return records_.FailAt(fields[kDestination],
                             "source and destination of the flow are the same host");
    }
    for (const auto& [column, name, value] :
         {std::tuple(kStart, "start_time", &job_.start_ns),
          std::tuple(kCompute, "compute_time", &phase_.compute_ns)}) {
      if (auto done = ReadCommon(fields[column], name, *value); !done) return done;
    }
    return AddToRing(fields, {*source, *destination});
  }

  Result<NodeId> ReadHost(const Field& host, const Field& tor) {
    auto number = records_.ReadInteger(host, "a host", 0, kMaxNumber);
    if (!number) return Propagate(number);
    const auto node = topology_.FindNode(fmt::format("h{}", *number - switches_));
    if (!node) {
      return records_.FailAt(
          host, fmt::format("host {} is not in the topology (it would be node h{}: hosts are "
                            "numbered after the {} switches)",
                            *number, *number - switches_, switches_));
    }
    const auto attachment = paths_.FindAttachment(*node);
    if (!attachment) {
      return records_.FailAt(host, fmt::format("host {} is not attached to a switch", *number));
    }
    auto tor_number = records_.ReadInteger(tor, "a ToR", 0, kMaxNumber);
    if (!tor_number) return Propagate(tor_number);
    const auto leaf = static_cast<std::size_t>(*tor_number);
    if (leaf >= leaves_.size() || leaves_[leaf] != attachment->leaf) {
      return records_.FailAt(
          tor, fmt::format("host {} is not on ToR {} in the topology but on {}", *number,
                           *tor_number, topology_.node(attachment->leaf).id));
    }
    return *node;
  }

  // Reads a value that all lines of a job share.
  Result<void> ReadCommon(const Field& field, std::string_view name, std::int64_t& value) {
    auto read = records_.ReadInteger(field, name, 0, kMaxTime);
    if (!read) return Propagate(read);
    if (flows_ > 1 && *read != value) {
      return records_.FailAt(
          field, fmt::format("{} is {} where earlier lines have {}", name, *read, value));
    }
    value = *read;
    return {};
  }

  Result<void> AddToRing(std::span<const Field> fields, Exchange::Flow flow) {
    auto bytes = records_.ReadInteger(fields[kBytes], "flow_size", 1, kMaxFlowBytes);
    if (!bytes) return Propagate(bytes);
    auto stage = records_.ReadInteger(fields[kStage], "stage_index", 0, kMaxNumber);
    if (!stage) return Propagate(stage);
    Stage& entry = stages_[*stage];
    Exchange& ring = entry.ring;
    if (!ring.flows.empty() && ring.round_bytes != *bytes) {
      return records_.FailAt(fields[kBytes],
                             fmt::format("flow_size is {} where earlier lines of stage {} have {}",
                                         *bytes, *stage, ring.round_bytes));
    }
    const auto [first, is_new] =
        seen_.try_emplace(std::tuple(*stage, flow.source, flow.destination), records_.line());
    if (!is_new) {
      return records_.FailAt(fields[kSource], fmt::format("line {} has the same flow of stage {}",
                                                          first->second, *stage));
    }
    entry.line = records_.line();
    ring.round_bytes = *bytes;
    ring.flows.push_back(flow);
    return {};
  }

  Result<Job> Finish() {
    if (stages_.empty()) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{}:1:1: the file has no flows", file_));
    }
    for (auto& [stage, entry] : stages_) {
      if (entry.ring.flows.size() < 2) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("{}:{}:1: stage {} has one flow (a ring needs at least two)", file_,
                                entry.line, stage));
      }
      entry.ring.rounds = 2 * (static_cast<int>(entry.ring.flows.size()) - 1);
      phase_.exchanges.push_back(std::move(entry.ring));
    }
    job_.phases.push_back(std::move(phase_));
    return std::move(job_);
  }

  struct Stage {
    Exchange ring;
    int line = 0;  // of its last flow
  };

  RecordReader records_;
  std::string file_;
  const Topology& topology_;
  fabric::PathTable paths_;
  std::int64_t switches_ = 0;
  std::vector<NodeId> leaves_;  // in the order of the topology
  Job job_;
  Phase phase_{.name = "all-reduce"};
  std::size_t flows_ = 0;
  std::map<std::int64_t, Stage> stages_;
  std::map<std::tuple<std::int64_t, NodeId, NodeId>, int> seen_;  // the line of each
};

}  // namespace

Result<Job> ParseFloodnsJob(std::string_view text, std::string_view file_name,
                            const Topology& topology) {
  return Reader(text, file_name, topology).Read();
}

}  // namespace espalier::offline
