#pragma once

#include <string_view>
#include <vector>

namespace espalier::tidy {

// A folder, by the start of its paths (the longest that fits), and the folders that it may include
// besides itself. There is no circle among them, and a folder includes those above it only: the
// test of the source tree checks both. docs/architecture.md says why; a new folder gets a line
// here.
struct Layer {
  std::string_view start;
  std::vector<std::string_view> may_include;
};

inline const std::vector<Layer>& Layers() {
  static const std::vector<Layer> layers = {
      // Base: plain C++, the operating system, and the model of a fabric.
      {"common/base/", {}},
      {"common/os/", {"common/base/"}},
      {"common/graph/", {"common/base/"}},
      {"common/fabric/", {"common/base/"}},
      {"proto/", {"common/base/"}},

      // Adapters: the outside world behind the seams of common/base.
      {"common/files/", {"common/base/", "common/fabric/"}},
      {"common/net/", {"common/base/"}},
      {"common/loop/", {"common/base/"}},
      {"common/bus/", {"common/base/", "common/loop/"}},
      {"common/http/", {"common/base/", "common/net/", "common/loop/"}},
      {"common/daemon/", {"common/base/", "common/files/"}},
      {"common/terminal/", {"common/files/"}},
      {"common/identity/", {"common/base/", "common/files/", "common/bus/"}},
      {"common/sim/", {"common/base/", "common/graph/", "common/fabric/"}},
      {"common/verbs/", {"common/base/"}},

      // Collectives: programs and forests (domain), transports.
      {"collective/program/", {"common/base/"}},
      {"collective/program/files/", {"common/base/", "common/files/", "collective/program/"}},
      {"collective/reduce/", {"common/base/"}},
      {"collective/forest/", {"common/base/", "common/os/", "common/fabric/"}},
      {"collective/forest/files/", {"common/base/", "common/fabric/", "common/files/", "collective/forest/"}},
      {"collective/algorithms/", {"common/base/", "common/fabric/", "collective/program/", "collective/forest/"}},
      {"collective/transport/", {"common/base/"}},
      {"collective/transport/verbs/", {"common/base/", "common/verbs/", "collective/transport/"}},
      {"collective/runtime/", {"common/base/", "common/os/", "collective/program/", "collective/reduce/", "collective/algorithms/", "collective/transport/", "collective/transport/verbs/"}},

      // The controller's domain: no clock, no I/O, no messages.
      {"controller/routing/", {"common/base/", "common/graph/", "common/fabric/"}},
      {"controller/prediction/", {"common/base/", "controller/routing/"}},

      // The controller's modules. controller/ itself wires them.
      {"controller/store/store.h", {"common/base/"}},
      {"controller/store/", {"common/base/", "common/files/", "controller/store/store.h"}},
      {"controller/paths/", {"common/base/", "common/fabric/", "proto/"}},
      {"controller/state/", {"common/base/", "common/fabric/", "proto/", "controller/routing/", "controller/prediction/", "controller/store/store.h", "controller/paths/"}},
      {"controller/links/", {"common/base/", "common/fabric/", "proto/", "controller/paths/", "controller/state/"}},
      {"controller/settings/", {"common/base/", "proto/", "controller/routing/", "controller/store/store.h", "controller/paths/", "controller/links/"}},
      {"controller/planning/", {"common/base/", "controller/prediction/", "controller/paths/", "controller/state/", "controller/settings/"}},
      {"controller/placement/", {"controller/routing/", "controller/paths/", "controller/state/", "controller/settings/", "controller/planning/"}},
      {"controller/agents/", {"common/base/", "proto/", "controller/state/", "controller/settings/"}},
      {"controller/forests/", {"common/base/", "common/fabric/", "proto/", "collective/program/", "collective/forest/", "collective/algorithms/", "controller/routing/", "controller/paths/", "controller/state/", "controller/settings/", "controller/planning/"}},
      {"controller/operations/", {"common/base/", "controller/store/store.h"}},
      {"controller/", {"common/base/", "proto/", "controller/store/store.h", "controller/paths/", "controller/state/", "controller/links/", "controller/settings/", "controller/planning/", "controller/placement/", "controller/agents/", "controller/forests/", "controller/operations/"}},

      // What looks at the controller from outside.
      {"controller/api/http/", {"common/base/", "common/files/", "common/http/", "common/identity/"}},
      {"controller/api/", {"common/base/", "common/files/", "common/http/", "controller/state/", "controller/settings/", "controller/placement/", "controller/", "controller/api/http/"}},
      {"controller/daemon/", {"common/base/", "common/files/", "common/net/", "common/bus/", "common/http/", "common/daemon/", "common/identity/", "controller/settings/", "controller/"}},

      // Work without a live fabric; nothing of the controller includes it.
      {"controller/offline/simulation/", {"common/base/", "common/fabric/", "controller/routing/"}},
      {"controller/offline/comparators/", {"common/base/", "controller/routing/"}},
      {"controller/offline/files/", {"common/base/", "common/fabric/", "common/files/", "controller/routing/", "controller/offline/simulation/"}},
      {"controller/offline/replay/", {"common/base/", "common/fabric/", "controller/placement/", "controller/offline/simulation/"}},
      {"controller/offline/evaluation/", {"common/base/", "common/os/", "common/fabric/", "common/files/", "common/terminal/", "controller/routing/", "controller/offline/simulation/", "controller/offline/comparators/", "controller/offline/files/"}},

      // The agent, its adapters, and the programs and libraries beside it.
      {"agent/probe/", {"common/base/", "common/loop/", "proto/"}},
      {"agent/flows/", {"common/base/", "proto/", "agent/probe/"}},
      {"agent/", {"common/base/", "proto/", "agent/probe/", "agent/flows/"}},
      {"agent/host/", {"common/base/", "common/os/", "common/verbs/", "proto/", "agent/flows/"}},
      {"agent/local/", {"common/base/", "common/os/", "proto/", "agent/flows/"}},
      {"collective/client/", {"common/base/", "collective/program/", "collective/transport/", "collective/runtime/", "agent/local/"}},
      {"agent/sim/", {"common/base/", "common/fabric/", "common/sim/", "agent/probe/", "agent/flows/"}},
      {"agent/verbs/", {"common/verbs/", "agent/local/"}},
      {"agent/nccl/", {}},
      {"agent/daemon/", {"common/base/", "common/net/", "common/bus/", "common/daemon/", "common/identity/", "agent/", "agent/local/"}},
      {"agent/dpdk/packet/", {"common/os/"}},
      {"agent/dpdk/flows/", {"common/base/", "common/os/", "agent/dpdk/packet/"}},
      {"agent/dpdk/offload/", {"common/base/", "agent/dpdk/packet/", "agent/dpdk/flows/"}},
      {"agent/dpdk/", {"common/base/", "common/net/", "common/daemon/", "agent/local/", "agent/dpdk/flows/", "agent/dpdk/offload/"}},
      {"agent/engine/", {"common/base/", "common/net/", "common/daemon/", "collective/runtime/", "agent/local/", "collective/client/"}},

      // What is run: the tool, the lab and the demo. (Every main.cc may include anything.)
      {"deploy/lab/traffic/", {"common/base/", "common/os/", "common/fabric/", "common/files/", "common/loop/", "agent/local/"}},
      {"deploy/lab/", {"common/base/", "common/os/", "common/fabric/", "common/files/", "deploy/lab/traffic/"}},
      {"deploy/lab/ranks/", {"common/base/", "collective/algorithms/", "collective/client/"}},
      {"deploy/demo/", {"common/base/", "common/os/", "common/files/", "common/http/", "common/identity/", "deploy/lab/traffic/", "deploy/lab/"}},
      {"deploy/cli/operator/", {"common/files/", "common/http/", "common/terminal/", "common/identity/"}},
      {"deploy/cli/setup/", {"common/fabric/", "common/files/", "common/identity/", "controller/store/", "controller/offline/files/"}},
      {"deploy/cli/planning/", {"common/fabric/", "common/files/", "common/terminal/", "controller/offline/files/", "controller/offline/replay/", "controller/offline/evaluation/"}},
      {"deploy/cli/forest/", {"common/base/", "common/fabric/", "common/files/", "collective/program/", "collective/program/files/", "collective/forest/", "collective/forest/files/", "collective/algorithms/"}},
      {"deploy/cli/program/", {"common/files/", "collective/program/", "collective/program/files/", "collective/algorithms/"}},
      {"deploy/cli/bench/", {"common/base/", "common/files/", "collective/program/", "collective/program/files/", "collective/runtime/"}},
      {"deploy/cli/lab/", {"common/files/", "deploy/lab/"}},
  };
  return layers;
}

}  // namespace espalier::tidy
