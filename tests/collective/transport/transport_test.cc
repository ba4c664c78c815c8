#include "collective/transport/base/transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "collective/transport/hosts/hosts_transport.h"
#include "collective/transport/shm/shm_transport.h"
#include "collective/transport/tcp/tcp_transport.h"
#include "tests/collective/transport/transport_contract.h"

namespace espalier::transport {
namespace {

std::vector<Kind> Kinds() {
  return {{"shm",
           [](RendezvousStore& store, int rank, int size, Deadline deadline) {
             return JoinShm(store, "g", rank, size,
                            {.channels = 3, .slots = kSlots, .slot_bytes = kSlotBytes}, deadline);
           }},
          {"tcp",
           [](RendezvousStore& store, int rank, int size, Deadline /*deadline*/) {
             static const GroupCredentials members = {.key = JobKey::Draw()};
             return JoinTcp(store, "g", rank, size,
                            {.slots = kSlots, .slot_bytes = kSlotBytes, .members = members});
           }},
          {"hosts", [](RendezvousStore& store, int rank, int size, Deadline deadline) {
             static const GroupCredentials members = {.key = JobKey::Draw()};
             // Hosts of two ranks; the last one may be alone.
             std::vector<std::string> names;
             for (int i = 0; i < size; ++i) names.push_back(std::to_string(i / 2));
             return JoinHosts(
                 store, "g", rank, MapHosts(names),
                 {.channels = 3,
                  .tcp = {.slots = kSlots, .slot_bytes = kSlotBytes, .members = members}},
                 deadline);
           }}};
}

INSTANTIATE_TEST_SUITE_P(All, TransportContract, ::testing::ValuesIn(Kinds()),
                         [](const auto& test) { return test.param.name; });

class LossTest : public TransportContract {};
INSTANTIATE_TEST_SUITE_P(All, LossTest, ::testing::ValuesIn(Kinds()),
                         [](const auto& test) { return test.param.name; });

TEST_P(LossTest, IsKnownOfPeersThatHaveLeft) {
  std::atomic<bool> may_leave = false;
  RunRanks(3, [&](Transport& transport) {
    const bool stays = transport.rank() == 0;
    const std::vector<Endpoint> endpoints =
        stays ? std::vector<Endpoint>{{1, 0}, {2, 0}} : std::vector<Endpoint>{{0, 0}};
    ExpectDone(transport.Connect(endpoints, InAWhile()));
    if (stays) {
      EXPECT_FALSE(transport.HasLost(1) || transport.HasLost(2));
      may_leave = true;
      while (!transport.HasLost(1) || !transport.HasLost(2)) std::this_thread::yield();
    } else {
      while (!may_leave) std::this_thread::yield();
    }
  });
}

}  // namespace
}  // namespace espalier::transport
