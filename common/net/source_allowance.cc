#include "common/net/source_allowance.h"

#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <iterator>

namespace espalier::io {
namespace {

constexpr std::size_t kMaxSources = 4096;

}  // namespace

std::string SourceOf(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(&v6)) return {reinterpret_cast<const char*>(&v6), sizeof v6 / 2};
  }
  const std::string text = FormatSocketAddress(address);
  return text.substr(0, text.rfind(':'));
}

bool SourceAllowance::Take(const std::string& source, TimePoint now) {
  TokenBucket* const bucket = Find(source, now);
  if (bucket == nullptr || bucket->Level(now) < 1) return false;
  bucket->Take(1, now);
  return true;
}

void SourceAllowance::Charge(const std::string& source, TimePoint now) {
  if (TokenBucket* const bucket = Find(source, now)) bucket->Take(1, now);
}

Duration SourceAllowance::WaitFor(const std::string& source, double debt, TimePoint now) {
  const auto known = sources_.find(source);
  if (known == sources_.end()) return Duration::zero();
  const double missing = std::max(0.0, -debt - known->second.Level(now));
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(missing / per_second_));
}

TokenBucket* SourceAllowance::Find(const std::string& source, TimePoint now) {
  if (sources_.size() >= kMaxSources && !sources_.contains(source)) {
    for (auto one = sources_.begin(); one != sources_.end();) {
      one = one->second.Level(now) >= at_once_ ? sources_.erase(one) : std::next(one);
    }
    if (sources_.size() >= kMaxSources) return nullptr;
  }
  const TokenBucket full(per_second_, at_once_, now);
  return &sources_.try_emplace(source, full).first->second;
}

}  // namespace espalier::io
