#include "deploy/cli/probe/probe_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

bool IsComplete(const io::JsonValue& port) { return RawText(port, "state") == "COMPLETE"; }

const std::vector<io::JsonValue>& PortsOf(const io::JsonValue& answer) {
  static const std::vector<io::JsonValue> kNone;
  const io::JsonValue* const ports = answer.Find("ports");
  return ports == nullptr ? kNone : ports->items;
}

}  // namespace

std::vector<ProbeCount> SummarizeProbe(const io::JsonValue& answer) {
  std::vector<ProbeCount> paths;
  for (const io::JsonValue& port : PortsOf(answer)) {
    std::string via = RawText(port, "via");
    if (via == "-") via = RawText(port, "known_via");
    auto path = std::ranges::find(paths, via, &ProbeCount::name);
    if (path == paths.end()) path = paths.insert(path, ProbeCount{.name = via, .lost_behind = {}});
    ++path->sent;
    path->answered += IsComplete(port) ? 1 : 0;
    const std::string silent_from = RawText(port, "silent_from");
    if (silent_from != "-") ++path->lost_behind[silent_from];
  }
  std::ranges::stable_partition(paths, [](const ProbeCount& path) { return path.name != "-"; });
  return paths;
}

std::string DescribeProbe(const std::vector<ProbeCount>& paths) {
  std::string text;
  for (const ProbeCount& path : paths) {
    const std::string name = path.name == "-" ? "path not known" : path.name;
    if (path.answered == path.sent) {
      text += fmt::format("{}: all {} answered\n", name, path.sent);
      continue;
    }
    std::string behind;
    for (const auto& [direction, count] : path.lost_behind) {
      behind += fmt::format("{} {}{}", behind.empty() ? ", lost behind" : ",", direction,
                            path.lost_behind.size() > 1 ? fmt::format(" ({})", count) : "");
    }
    text += fmt::format("{}: {} of {} answered{}\n", name, path.answered, path.sent, behind);
  }
  return text;
}

SweepCounts::SweepCounts(const std::vector<io::JsonValue>& links) {
  for (const io::JsonValue& link : links) {
    ends_.emplace(RawText(link, "id"), std::pair(RawText(link, "a"), RawText(link, "b")));
  }
}

std::size_t SweepCounts::Add(const io::JsonValue& answer, const std::string& leaf) {
  std::size_t silent = 0;
  for (const io::JsonValue& port : PortsOf(answer)) {
    ++sent_;
    const io::JsonValue* const links = port.Find("links");
    if (links == nullptr || links->items.empty()) {
      ++silent_;
      ++silent;
      continue;
    }
    const std::string silent_from = RawText(port, "silent_from");
    std::string at = leaf;
    for (const io::JsonValue& link : links->items) {
      const auto ends = ends_.find(link.text);
      if (ends == ends_.end()) break;  // the topology has changed meanwhile
      at = ends->second.first == at ? ends->second.second : ends->second.first;
      const std::string name = link.text + ">" + at;
      ProbeCount& direction = directions_[name];
      direction.name = name;
      ++direction.sent;
      if (name == silent_from) break;
      ++direction.answered;
    }
  }
  return silent;
}

std::vector<ProbeCount> SweepCounts::Suspects() const {
  std::vector<ProbeCount> suspects;
  for (const auto& [name, direction] : directions_) {
    if (direction.answered < direction.sent) suspects.push_back(direction);
  }
  const auto part = [](const ProbeCount& one) {
    return static_cast<double>(one.answered) / static_cast<double>(one.sent);
  };
  std::ranges::stable_sort(suspects,
                           [&](const auto& a, const auto& b) { return part(a) < part(b); });
  return suspects;
}

}  // namespace espalier::cli
