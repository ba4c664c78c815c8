#include "collective/transport/rendezvous/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace espalier::transport {

Result<void> Rendezvous::CheckRank(int rank, int size) {
  if (size >= 1 && rank >= 0 && rank < size) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("rank {} of {}: ranks count from 0 to one below the size", rank, size));
}

Rendezvous::Rendezvous(RendezvousStore& store, std::string name, int rank, int size, Terms terms,
                       const GroupCredentials& members)
    : store_(store),
      name_(std::move(name)),
      rank_(rank),
      size_(size),
      terms_(std::move(terms)),
      members_(members),
      group_(DrawGroup()) {}

std::string Rendezvous::KeyOf(int rank) const {
  return fmt::format("{}/{}.{}", name_, terms_.medium, rank);
}

Result<void> Rendezvous::Publish(const IpAddress& address, std::uint16_t port, Deadline deadline) {
  return store_.Set(KeyOf(rank_), PublishedEndpoint{address, port, group_, terms_.version}.ToText(),
                    deadline);
}

Result<std::string> Rendezvous::AwaitKeyOf(int peer, Deadline deadline, const WaitCheck& check) {
  constexpr std::chrono::milliseconds kNap{50};
  if (!check) return store_.Get(KeyOf(peer), deadline);
  while (true) {
    const Deadline nap = std::min(deadline, std::chrono::steady_clock::now() + kNap);
    auto value = store_.Get(KeyOf(peer), nap);
    if (value || nap == deadline || std::chrono::steady_clock::now() < nap) return value;
    auto well = check();
    if (!well) return Propagate(well);
  }
}

Result<PublishedEndpoint> Rendezvous::FindPeer(int peer, Deadline deadline,
                                               const WaitCheck& check) {
  const auto text = AwaitKeyOf(peer, deadline, check);
  if (!text) return tl::unexpected<Error>(text.error());
  auto place = PublishedEndpoint::Parse(*text, terms_.version);
  if (!place) return place;
  auto allowed = members_.CheckIsAt(peer, place->address);
  if (!allowed) return Propagate(allowed);
  return place;
}

std::vector<int> Rendezvous::FindMissing() {
  constexpr std::size_t kMost = 8;
  constexpr std::chrono::milliseconds kGlance{50};
  std::vector<int> missing;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  for (int peer = 0; peer < size_ && missing.size() < kMost; ++peer) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) break;
    if (peer != rank_ && !store_.Get(KeyOf(peer), now + kGlance)) missing.push_back(peer);
  }
  return missing;
}

Result<void> Rendezvous::NameMissing(Result<void> met, Deadline deadline) {
  if (met || met.error().code != ErrorCode::kUnavailable ||
      std::chrono::steady_clock::now() < deadline) {
    return met;
  }
  const std::vector<int> missing = FindMissing();
  if (!missing.empty()) {
    met.error().message += fmt::format("; not joined: rank {}", fmt::join(missing, ", "));
  }
  return met;
}

Result<void> Rendezvous::CheckEndpoint(Endpoint endpoint) const {
  const bool is_there = endpoint.peer >= 0 && endpoint.peer < size_ && endpoint.peer != rank_ &&
                        endpoint.channel >= 0;
  if (is_there) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("rank {} has no channel {} to rank {} (the group has {} ranks)", rank_,
                          endpoint.channel, endpoint.peer, size_));
}

Hello Rendezvous::MakeHello(int from, int to, int channel, std::uint64_t group) const {
  return {.magic = terms_.magic,
          .version = terms_.version,
          .group = group,
          .from = from,
          .to = to,
          .channel = channel,
          .form = terms_.form,
          .slots = static_cast<std::uint32_t>(terms_.slots),
          .is_keyed = members_.key ? 1U : 0U,
          .slot_bytes = terms_.slot_bytes};
}

Hello Rendezvous::HelloTo(Endpoint endpoint, std::uint64_t group) const {
  return MakeHello(rank_, endpoint.peer, endpoint.channel, group);
}

bool Rendezvous::IsExpected(const Hello& hello) const {
  Hello expected = MakeHello(hello.from, rank_, hello.channel, group_);
  expected.nonce = hello.nonce;
  return std::memcmp(&hello, &expected, sizeof(hello)) == 0 &&
         CheckEndpoint({hello.from, hello.channel}).has_value();
}

tl::unexpected<Error> FailAt(Endpoint endpoint, const Error& error) {
  return Fail(error.code, fmt::format("rank {} (channel {}): {}", endpoint.peer, endpoint.channel,
                                      error.message));
}

}  // namespace espalier::transport
