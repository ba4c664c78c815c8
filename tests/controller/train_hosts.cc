#include "tests/controller/train_hosts.h"

#include <utility>

namespace espalier::controller {

TrainHosts::TrainHosts(Cluster& cluster)
    : cluster_(cluster),
      trains_(
          [this](const fabric::FlowTuple& tuple, std::uint8_t dscp) {
            const auto links =
                cluster_.RouteOf(cluster_.NumberOf(tuple.source),
                                 cluster_.NumberOf(tuple.destination), tuple.source_port);
            return links.empty() ? sim::Transit{} : troubles_.Carry(links, tuple.protocol, dscp);
          },
          cluster.host_loop()) {
  for (int i = 0; i < cluster.hosts(); ++i) AddHost(i);
  cluster_.on_train_order = [this](int host, const wire::TrainOrder& order) {
    At(host).tester->Handle(order);
  };
}

void TrainHosts::AddHost(int number) {
  cluster_.host(number).features.emplace_back("link_tests");
  const IpAddress address = cluster_.Address(number);
  Host& host = hosts_.emplace_back();
  host.socket = std::make_unique<sim::SimTrainSocket>(trains_, address);
  host.tester = std::make_unique<agent::LinkTester>(
      agent::LinkTesterOptions(), cluster_.host_loop(), *host.socket, metrics_,
      [address](const IpAddress& source) { return source == address; },
      [this, number](wire::TrainReport report) {
        if (forge) forge(number, report);
        const Cluster::Host& own = cluster_.host(number);
        cluster_.Deliver(own.peer, own.instance, std::move(report));
      });
}

}  // namespace espalier::controller
