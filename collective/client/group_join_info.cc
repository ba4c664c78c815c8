#include "collective/client/group_join_info.h"

#include <fmt/format.h>

namespace espalier::client {
namespace {

// The rendezvous store listens this far above the first rank's port.
constexpr int kStoreOffset = 10'000;

std::string StoreAt(const IpAddress& address, int port) {
  return address.IsV4() ? fmt::format("tcp://{}:{}", address.ToString(), port)
                        : fmt::format("tcp://[{}]:{}", address.ToString(), port);
}

}  // namespace

runtime::GroupJoinInfo MakeGroupJoinInfo(const agent::LocalRankPlan& plan, const std::string& job,
                                         std::uint32_t number) {
  return {.store = StoreAt(plan.first_address, plan.first_listen_port + kStoreOffset),
          .name = fmt::format("{}/{}", job, number),
          .size = plan.ranks,
          .options = {.medium = plan.verbs ? runtime::Medium::kVerbs : runtime::Medium::kTcp,
                      .address = plan.address.ToString(),
                      .connections = 1,
                      .members = {.key = plan.job_key, .addresses = plan.addresses},
                      .plan_port = plan.listen_port}};
}

runtime::PlanAddresses AddressesOf(const agent::LocalRankPlan& plan) {
  runtime::PlanAddresses addresses;
  for (const agent::LocalRankPlan::Port& port : plan.ports) {
    if (!port.source || !port.destination) continue;
    addresses.nics[{port.peer, port.channel}] = {*port.source, *port.destination};
  }
  addresses.listen = plan.listen_addresses;
  addresses.listen.push_back(plan.address);  // may differ from that of the first plan
  return addresses;
}

}  // namespace espalier::client
