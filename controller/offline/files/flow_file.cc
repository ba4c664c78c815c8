#include "controller/offline/files/flow_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <utility>

#include "controller/offline/files/record_reader.h"

namespace espalier::offline {
namespace {

using fabric::NodeId;
using fabric::Topology;

enum Column { kFlow, kJob, kSource, kDestination, kBytes };
constexpr std::array<std::string_view, 5> kHeader = {"flow", "job", "src", "dst", "bytes"};

class Reader {
 public:
  Reader(std::string_view text, std::string_view file_name, const Topology& topology,
         const fabric::PathTable& paths)
      : records_(text, file_name, RecordReader::Format::kCommas),
        file_(file_name),
        topology_(topology),
        paths_(paths) {}

  Result<FlowSet> Read() {
    auto header = records_.Next();
    if (!header) return Propagate(header);
    if (!*header) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}:1:1: the file is empty (its first line must be "
                              "flow,job,src,dst,bytes)",
                              file_));
    }
    if (auto done = CheckHeader(**header); !done) return Propagate(done);
    auto read = records_.ForEach([this](auto fields) { return ReadFlow(fields); });
    if (!read) return Propagate(read);
    return std::move(set_);
  }

 private:
  Result<void> CheckHeader(std::span<const Field> fields) const {
    for (std::size_t i = 0; i < std::max(fields.size(), kHeader.size()); ++i) {
      if (i < fields.size() && i < kHeader.size() && fields[i].text == kHeader[i]) continue;
      return records_.FailAt(
          fields[std::min(i, fields.size() - 1)],
          "the first line is not the header (it must be flow,job,src,dst,bytes, in this order)");
    }
    return {};
  }

  Result<void> ReadFlow(std::span<const Field> fields) {
    if (fields.size() != kHeader.size()) {
      return records_.FailAt(fields[std::min(fields.size(), kHeader.size()) - 1],
                             fmt::format("the line has {} fields (write five: "
                                         "flow,job,src,dst,bytes; bytes may be empty)",
                                         fields.size()));
    }
    if (set_.flows.size() == kMaxFlows) {
      return records_.FailAt(fields[kFlow],
                             fmt::format("more than {} flows, which is the limit of one file "
                                         "(leave out small flows, which ECMP serves well)",
                                         kMaxFlows));
    }
    FlowRecord flow;
    for (const Column column : {kFlow, kJob}) {
      if (fields[column].text.empty()) {
        return records_.FailAt(fields[column],
                               fmt::format("the {} is empty (give it a name)", kHeader[column]));
      }
    }
    flow.id = fields[kFlow].text;
    const auto [first, is_new] = lines_.try_emplace(flow.id, records_.line());
    if (!is_new) {
      return records_.FailAt(
          fields[kFlow], fmt::format("flow \"{}\" is also on line {} (names must differ)", flow.id,
                                     first->second));
    }
    flow.job = FindJob(fields[kJob].text);
    auto source = ReadNic(fields[kSource]);
    if (!source) return Propagate(source);
    auto destination = ReadNic(fields[kDestination]);
    if (!destination) return Propagate(destination);
    if (*source == *destination) {
      return records_.FailAt(
          fields[kDestination],
          "source and destination are the same node (leave out the flow: it needs no path)");
    }
    flow.source = *source;
    flow.destination = *destination;
    if (!fields[kBytes].text.empty()) {
      auto bytes = records_.ReadInteger(fields[kBytes], "bytes", 0, kMaxFlowBytes);
      if (!bytes) return Propagate(bytes);
      flow.bytes = *bytes;
    }
    set_.flows.push_back(std::move(flow));
    return {};
  }

  std::uint32_t FindJob(std::string_view name) {
    const auto [entry, is_new] =
        jobs_.try_emplace(std::string(name), static_cast<std::uint32_t>(set_.jobs.size()));
    if (is_new) set_.jobs.emplace_back(name);
    return entry->second;
  }

  Result<NodeId> ReadNic(const Field& field) const {
    const auto node = topology_.FindNode(field.text);
    if (!node) {
      return records_.FailAt(field, fmt::format("no node of the topology has the id \"{}\" (name "
                                                "a NIC, or a COMPUTE node that is its own NIC)",
                                                field.text));
    }
    if (!paths_.FindAttachment(*node)) {
      return records_.FailAt(field, fmt::format("{} (flows lead from NIC to NIC)",
                                                fabric::WhyUnattached(topology_, *node)));
    }
    return *node;
  }

  RecordReader records_;
  std::string file_;
  const Topology& topology_;
  const fabric::PathTable& paths_;
  FlowSet set_;
  std::unordered_map<std::string, int> lines_;  // by flow
  std::unordered_map<std::string, std::uint32_t> jobs_;
};

}  // namespace

Result<FlowSet> ParseFlows(std::string_view text, std::string_view file_name,
                           const Topology& topology, const fabric::PathTable& paths) {
  return Reader(text, file_name, topology, paths).Read();
}

}  // namespace espalier::offline
