#include "collective/transport/rendezvous/published_endpoint.h"

#include <fmt/format.h>

#include <cstring>
#include <sstream>

#include "common/base/users/job_key.h"

namespace espalier::transport {

std::uint64_t DrawGroup() {
  const Nonce drawn = DrawNonce();
  std::uint64_t group = 0;
  std::memcpy(&group, drawn.data(), sizeof(group));
  return group;
}

std::string PublishedEndpoint::ToText() const {
  return fmt::format("{} {} {} {}", address.ToString(), port, group, version);
}

Result<PublishedEndpoint> PublishedEndpoint::Parse(const std::string& text, std::uint32_t version) {
  const auto fail = [&](const std::string& why) {
    return Fail(ErrorCode::kFailedPrecondition, fmt::format("{} (\"{}\")", why, text));
  };
  std::istringstream stream(text);
  std::string digits;
  PublishedEndpoint place;
  if (!(stream >> digits >> place.port >> place.group >> place.version)) {
    return fail("it has published no valid endpoint");
  }
  if (place.version != version)
    return fail(fmt::format("its protocol version is not {} (install the same release)", version));
  const auto address = IpAddress::Parse(digits);
  if (!address) return fail(address.error().message);
  place.address = *address;
  return place;
}

}  // namespace espalier::transport
