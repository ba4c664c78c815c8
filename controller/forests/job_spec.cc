#include "controller/forests/job_spec.h"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <utility>

#include "common/base/local_user.h"

namespace espalier::controller {
namespace {

constexpr std::size_t kMaxNameBytes = 255;
constexpr std::string_view kUserWord = "user=";

bool IsName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

// The text up to the next such character, both of which are taken off it.
std::string_view TakeUpTo(char separator, std::string_view& text) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

template <typename T>
bool ParseNumber(std::string_view text, T& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

}  // namespace

Result<std::vector<fabric::NodeId>> ResolveRanks(const fabric::Topology& topology,
                                                 const JobSpec& spec) {
  if (!IsName(spec.name)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a job's name has 1 to {} printable characters", kMaxNameBytes));
  }
  if (spec.ranks.size() < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a job has two ranks or more, not {}", spec.ranks.size()));
  }
  std::vector<fabric::NodeId> nodes;
  std::set<std::string_view> seen;
  for (const std::string& rank : spec.ranks) {
    const auto node = topology.FindNode(rank);
    if (!node) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("there is no node \"{}\" to be a rank", rank));
    }
    if (topology.node(*node).kind != fabric::NodeKind::kCompute) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} does not compute: it cannot be a rank", rank));
    }
    if (!seen.insert(rank).second) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is named twice as a rank", rank));
    }
    nodes.push_back(*node);
  }
  return nodes;
}

std::string FormatStoredJob(const StoredJob& job) {
  const JobSpec& spec = job.spec;
  std::string text = fmt::format("{} {} {}{}", forest::CollectiveName(spec.collective), spec.bytes,
                                 spec.offload ? "offload" : "inline", spec.verbs ? " verbs" : "");
  if (!spec.user.empty()) text += fmt::format(" {}{}", kUserWord, spec.user);
  for (const std::uint16_t port : job.listens) text += fmt::format(" {}", port);
  text += '\n';
  for (const std::string& rank : spec.ranks) text += rank + "\n";
  return text;
}

Result<StoredJob> ParseStoredJob(std::string name, std::string_view text) {
  StoredJob job{.spec = {.name = std::move(name), .ranks = {}}, .listens = {}};
  JobSpec& spec = job.spec;
  std::string_view head = TakeUpTo('\n', text);
  const auto collective = forest::FindCollective(TakeUpTo(' ', head));
  bool is_valid = collective && ParseNumber(TakeUpTo(' ', head), spec.bytes);
  spec.offload = TakeUpTo(' ', head) == "offload";
  while (!head.empty()) {
    const std::string_view word = TakeUpTo(' ', head);
    if (word == "verbs" && job.listens.empty()) {
      spec.verbs = true;
      continue;
    }
    if (word.starts_with(kUserWord) && job.listens.empty()) {
      spec.user = word.substr(kUserWord.size());
      is_valid = IsLocalUser(spec.user) && is_valid;
      continue;
    }
    std::uint16_t& port = job.listens.emplace_back();
    is_valid = ParseNumber(word, port) && port != 0 && is_valid;
  }
  while (!text.empty()) spec.ranks.emplace_back(TakeUpTo('\n', text));
  if (!is_valid || (!job.listens.empty() && job.listens.size() != spec.ranks.size())) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("job {}: cannot be read from the store", spec.name));
  }
  spec.collective = *collective;
  return job;
}

}  // namespace espalier::controller
