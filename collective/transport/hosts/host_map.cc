#include "collective/transport/hosts/host_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace espalier::transport {
namespace {

Result<HostMap> Collect(RendezvousStore& store, const std::string& key, int size,
                        const std::string& own, Deadline deadline) {
  std::vector<std::string> names{own};
  for (int rank = 1; rank < size; ++rank) {
    auto name = store.Get(fmt::format("{}.{}", key, rank), deadline);
    if (!name) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("rank {} did not join in time: {}", rank, name.error().message));
    }
    names.push_back(std::move(*name));
  }
  HostMap map = MapHosts(names);
  std::string text;
  for (const int host : map.host_of) text += fmt::format("{} ", host);
  auto told = store.Set(key, text, deadline);
  if (!told) return Propagate(told);
  return map;
}

}  // namespace

int HostMap::CountHosts() const {
  return host_of.empty() ? 0 : *std::ranges::max_element(host_of) + 1;
}

std::vector<int> HostMap::RanksOf(int host) const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
    if (host_of[rank] == host) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

int HostMap::RanksPerHost() const {
  const int hosts = CountHosts();
  const int ranks = static_cast<int>(host_of.size());
  if (hosts == 0 || ranks % hosts != 0) return 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (host_of[static_cast<std::size_t>(rank)] != rank / (ranks / hosts)) return 0;
  }
  return ranks / hosts;
}

HostMap MapHosts(const std::vector<std::string>& host_of_rank) {
  HostMap map;
  std::map<std::string, int> numbers;
  for (const std::string& name : host_of_rank) {
    map.host_of.push_back(
        numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  }
  return map;
}

Result<HostMap> AgreeOnHosts(RendezvousStore& store, const std::string& group, int rank, int size,
                             const std::string& host, Deadline deadline) {
  const std::string key = group + "/hosts";
  if (rank == 0) return Collect(store, key, size, host, deadline);
  auto told = store.Set(fmt::format("{}.{}", key, rank), host, deadline);
  if (!told) return Propagate(told);
  auto text = store.Get(key, deadline);
  if (!text) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("rank 0 did not join in time: {}", text.error().message));
  }
  HostMap map;
  std::istringstream numbers(*text);
  for (int number = 0; numbers >> number;) map.host_of.push_back(number);
  const bool fits =
      map.host_of.size() == static_cast<std::size_t>(size) &&
      std::ranges::all_of(map.host_of, [&](int one) { return one >= 0 && one < size; });
  if (!fits) {
    return Fail(
        ErrorCode::kFailedPrecondition,
        fmt::format("cannot read \"{}\" as the hosts of {} ranks (another version?)", *text, size));
  }
  return map;
}

}  // namespace espalier::transport
