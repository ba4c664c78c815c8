#include "tests/studies/packets/replay_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>

#include "controller/offline/files/limits.h"
#include "controller/offline/files/record_reader.h"

namespace espalier::offline {
namespace {

using fabric::DirectedLink;
using fabric::NodeId;
using fabric::Topology;

enum Column { kFlow, kJob, kSource, kDestination, kStart, kBytes, kPath, kLinks };
constexpr std::array<std::string_view, 8> kHeader = {
    "flow", "job", "source", "destination", "start_seconds", "bytes", "path", "links"};
constexpr std::string_view kHeaderText =
    "flow,job,source,destination,start_seconds,bytes,path,links";
constexpr std::int64_t kMaxStartSeconds = 1'000'000;
constexpr std::size_t kMaxLinksBytes = 4096;  // the names of a path's links

// "12.000000345" in nanoseconds; none if it is no decimal of at most nine places, or too large.
std::optional<std::int64_t> ParseSeconds(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  if (point < text.size()) digits += text.substr(point + 1);
  const std::size_t places = point < text.size() ? text.size() - point - 1 : 0;
  if (point == 0 || places > 9 || (point < text.size() && places == 0)) return std::nullopt;
  digits.append(9 - places, '0');
  std::int64_t ns = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ns);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  if (!is_number || ns < 0 || ns > kMaxStartSeconds * 1'000'000'000) return std::nullopt;
  return ns;
}

class TableReader {
 public:
  TableReader(std::string_view text, std::string_view file_name, const Topology& topology)
      : records_(text, file_name, RecordReader::Format::kCommas, kMaxLinksBytes),
        file_(file_name),
        topology_(topology) {}

  Result<std::vector<TableFlow>> Read() {
    auto header = records_.Next();
    if (!header) return Propagate(header);
    const auto text_of = [](const Field& field) { return field.text; };
    if (!*header || !std::ranges::equal(**header, kHeader, {}, text_of)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}:1:1: the first line is not the header {} (give a file that "
                              "`espalier assign --export ns3` wrote)",
                              file_, kHeaderText));
    }
    auto read = records_.ForEach([this](auto fields) { return ReadRow(fields); });
    if (!read) return Propagate(read);
    return std::move(flows_);
  }

 private:
  Result<void> ReadRow(std::span<const Field> fields) {
    if (fields.size() != kHeader.size()) {
      return records_.FailAt(
          fields[std::min(fields.size(), kHeader.size()) - 1],
          fmt::format("the line has {} fields (write eight: {})", fields.size(), kHeaderText));
    }
    if (++rows_ > kMaxTableRows) {
      return records_.FailAt(fields[kFlow], fmt::format("more than {} rows, which is the limit "
                                                        "(replay fewer messages)",
                                                        kMaxTableRows));
    }
    if (auto done = FindFlow(fields); !done) return done;
    auto bytes = records_.ReadInteger(fields[kBytes], "bytes", 0, kMaxFlowBytes);
    if (!bytes) return Propagate(bytes);
    TableFlow& flow = flows_.back();
    const auto part = static_cast<std::int64_t>(flow.parts.size());
    auto path = records_.ReadInteger(fields[kPath], "path", part, part);
    if (!path) return Propagate(path);
    auto links = ReadLinks(fields[kLinks], flow);
    if (!links) return Propagate(links);
    flow.parts.push_back({.bytes = *bytes, .links = std::move(*links)});
    return {};
  }

  // Makes the row's flow the last one. The rows of a flow stand together.
  Result<void> FindFlow(std::span<const Field> fields) {
    const auto source = topology_.FindNode(fields[kSource].text);
    const auto destination = topology_.FindNode(fields[kDestination].text);
    for (const Column column : {kSource, kDestination}) {
      if (column == kSource ? source.has_value() : destination.has_value()) continue;
      return records_.FailAt(fields[column],
                             fmt::format("no node of the topology has the id \"{}\" (give the "
                                         "topology that was assigned)",
                                         fields[column].text));
    }
    const auto start_ns = ParseSeconds(fields[kStart].text);
    if (!start_ns) {
      return records_.FailAt(fields[kStart],
                             fmt::format("\"{}\" is no time in seconds (write a decimal of at most "
                                         "nine places, up to {})",
                                         fields[kStart].text, kMaxStartSeconds));
    }
    const std::string_view id = fields[kFlow].text;
    if (!flows_.empty() && flows_.back().id == id) {
      const TableFlow& last = flows_.back();
      if (last.source == *source && last.destination == *destination &&
          last.start_ns == *start_ns) {
        return {};
      }
      return records_.FailAt(fields[kFlow],
                             fmt::format("this row of flow \"{}\" has other ends or another start "
                                         "than the row before (give each flow a name)",
                                         id));
    }
    if (!ids_.emplace(id).second) {
      return records_.FailAt(fields[kFlow],
                             fmt::format("flow \"{}\" is also on an earlier line (the rows of a "
                                         "flow stand together)",
                                         id));
    }
    flows_.push_back({.id = std::string(id),
                      .job = std::string(fields[kJob].text),
                      .source = *source,
                      .destination = *destination,
                      .start_ns = *start_ns});
    return {};
  }

  Result<std::vector<std::uint32_t>> ReadLinks(const Field& field, const TableFlow& flow) const {
    if (field.text.empty()) return LocalLinks(field, flow);
    std::vector<std::uint32_t> links;
    std::string_view rest = field.text;
    NodeId at = flow.source;
    while (!rest.empty()) {
      // Names of nodes may have slashes, too: the longest name that fits is the link.
      std::optional<DirectedLink> next;
      std::string name;
      for (const DirectedLink link : topology_.Outgoing(at)) {
        std::string candidate = topology_.DirectionName(link);
        const bool fits = rest.starts_with(candidate) &&
                          (rest.size() == candidate.size() || rest[candidate.size()] == '/');
        if (!fits || candidate.size() <= name.size()) continue;
        next = link;
        name = std::move(candidate);
      }
      if (!next || topology_.link(next->link).state != fabric::LinkState::kUp) {
        return records_.FailAt(
            field, fmt::format("the path {} at {} (give the topology that was assigned)",
                               next ? fmt::format("takes a link that is {}",
                                                  LinkStateName(topology_.link(next->link).state))
                                    : "names no link that continues it",
                               topology_.node(at).id));
      }
      links.push_back(static_cast<std::uint32_t>(next->Index()));
      at = topology_.To(*next);
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    }
    if (at != flow.destination || links.size() < 2) {
      return records_.FailAt(
          field, fmt::format("the path leads to {}, and not through a switch to "
                             "the destination {}",
                             topology_.node(at).id, topology_.node(flow.destination).id));
    }
    return links;
  }

  // Up to the switch that both ends are linked to, and down.
  Result<std::vector<std::uint32_t>> LocalLinks(const Field& field, const TableFlow& flow) const {
    const auto is_up = [this](DirectedLink link) {
      return topology_.link(link.link).state == fabric::LinkState::kUp;
    };
    for (const DirectedLink up : topology_.Outgoing(flow.source)) {
      for (const DirectedLink down : topology_.Outgoing(topology_.To(up))) {
        if (topology_.To(down) != flow.destination || !is_up(up) || !is_up(down)) continue;
        return std::vector{static_cast<std::uint32_t>(up.Index()),
                           static_cast<std::uint32_t>(down.Index())};
      }
    }
    return records_.FailAt(field, "the row has no links, and its ends have no switch in common");
  }

  RecordReader records_;
  std::string file_;
  const Topology& topology_;
  std::vector<TableFlow> flows_;
  std::unordered_set<std::string> ids_;
  std::size_t rows_ = 0;
};

}  // namespace

std::int64_t TableFlow::Bytes() const {
  return std::transform_reduce(parts.begin(), parts.end(), std::int64_t{0}, std::plus<>(),
                               [](const Part& part) { return part.bytes; });
}

Result<std::vector<TableFlow>> ParseReplayTable(std::string_view text, std::string_view file_name,
                                                const Topology& topology) {
  return TableReader(text, file_name, topology).Read();
}

}  // namespace espalier::offline
