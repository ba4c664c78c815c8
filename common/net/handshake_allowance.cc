#include "common/net/handshake_allowance.h"

#include <netinet/in.h>

#include <algorithm>
#include <chrono>

namespace espalier::io {
namespace {

constexpr double kAtOnce = 50;
constexpr double kPerSecond = 20;
constexpr std::size_t kMaxSources = 4096;

std::string KeyOf(const SocketAddress& source) {
  if (source.storage.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(source.storage).sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(&address)) {
      return {reinterpret_cast<const char*>(&address), sizeof address / 2};
    }
  }
  const std::string text = FormatSocketAddress(source);
  return text.substr(0, text.rfind(':'));
}

}  // namespace

bool HandshakeAllowance::Take(const SocketAddress& source, TimePoint now) {
  const std::string key = KeyOf(source);
  if (sources_.size() >= kMaxSources && !sources_.contains(key)) {
    DropIdle(now);
    if (sources_.size() >= kMaxSources) return false;
  }
  Bucket& bucket = sources_.try_emplace(key, Bucket{kAtOnce, now}).first->second;
  Fill(bucket, now);
  if (bucket.left < 1) return false;
  bucket.left -= 1;
  return true;
}

void HandshakeAllowance::Fill(Bucket& bucket, TimePoint now) {
  const double seconds = SecondsOf(now - bucket.filled);
  bucket.left = std::min(kAtOnce, bucket.left + seconds * kPerSecond);
  bucket.filled = now;
}

void HandshakeAllowance::DropIdle(TimePoint now) {
  for (auto source = sources_.begin(); source != sources_.end();) {
    Fill(source->second, now);
    source = source->second.left >= kAtOnce ? sources_.erase(source) : std::next(source);
  }
}

}  // namespace espalier::io
