#pragma once

#include <string_view>
#include <vector>

namespace espalier::tidy {

// A part of the tree, by the start of its paths (the longest that fits), and the parts that it
// may include besides itself. docs/architecture.md says why; a new folder gets a line here.
struct Layer {
  std::string_view start;
  std::vector<std::string_view> may_include;
};

inline const std::vector<Layer>& Layers() {
  static const std::vector<Layer> layers = {
      // Base and model.
      {"common/base/", {}},
      {"common/graph/", {"common/base/"}},
      {"common/fabric/", {"common/base/", "common/graph/"}},
      {"proto/", {"common/base/"}},

      // Domain: no clock, no I/O, no messages.
      {"controller/routing/", {"common/base/", "common/graph/", "common/fabric/"}},
      {"controller/simulation/",
       {"common/base/", "common/graph/", "common/fabric/", "controller/routing/"}},
      {"controller/prediction/",
       {"common/base/", "common/graph/", "common/fabric/", "controller/routing/"}},
      {"collective/", {"common/base/", "common/graph/", "common/fabric/"}},
      {"collective/transport/", {"common/base/"}},
      {"collective/transport/verbs/", {"common/base/", "common/verbs/", "collective/transport/"}},
      {"collective/runtime/",
       {"common/base/", "collective/", "collective/transport/", "collective/transport/verbs/"}},

      // Services: see the world through seams only, and never each other.
      {"controller/",
       {"common/base/", "common/graph/", "common/fabric/", "proto/", "controller/routing/",
        "controller/prediction/", "controller/store/store.h", "collective/"}},
      {"controller/store/store.h", {"common/base/"}},
      {"controller/replay/",
       {"common/base/", "common/fabric/", "proto/", "controller/", "controller/routing/",
        "controller/prediction/", "controller/simulation/"}},
      {"agent/", {"common/base/", "common/fabric/", "proto/"}},

      // Adapters: the outside world behind those seams.
      {"common/io/", {"common/base/", "common/graph/", "common/fabric/", "proto/"}},
      {"common/identity/", {"common/base/", "common/io/"}},
      {"common/verbs/", {"common/base/"}},
      {"common/sim/", {"common/base/", "common/graph/", "common/fabric/", "proto/", "agent/"}},
      {"controller/store/", {"common/base/", "common/io/", "controller/store/store.h"}},
      {"controller/files/",
       {"common/base/", "common/fabric/", "common/io/", "controller/routing/",
        "controller/simulation/"}},
      {"controller/api/",
       {"common/base/", "common/fabric/", "common/identity/", "common/io/", "controller/"}},
      {"controller/configuration.",
       {"common/base/", "common/identity/", "common/io/", "controller/"}},
      {"controller/reloader.",
       {"common/base/", "common/identity/", "common/io/", "controller/",
        "controller/configuration."}},
      {"agent/socket/", {"common/base/", "common/io/", "proto/", "agent/"}},
      {"agent/probe/", {"common/base/", "common/io/", "proto/", "agent/", "agent/socket/"}},
      {"agent/local/", {"common/base/", "common/io/", "proto/", "agent/", "agent/socket/"}},
      {"agent/dpdk/", {"common/base/", "common/io/", "agent/", "agent/local/"}},
      {"agent/engine/",
       {"common/base/", "common/io/", "agent/", "agent/local/", "collective/", "collective/client/",
        "collective/runtime/"}},
      {"agent/verbs/", {"common/base/", "common/verbs/", "proto/", "agent/"}},
      {"agent/verbs/shim/", {"common/verbs/", "agent/local/"}},
      {"agent/nccl/", {}},
      {"agent/configuration.",
       {"common/base/", "common/identity/", "common/io/", "proto/", "agent/", "agent/socket/",
        "agent/probe/", "agent/local/"}},

      {"collective/forest/files/", {"common/base/", "common/fabric/", "common/io/", "collective/"}},
      {"collective/program/files/", {"common/base/", "common/io/", "collective/"}},

      // Programs. (Every main.cc may include anything.)
      {"deploy/lab/", {"common/base/", "common/fabric/", "common/io/", "deploy/lab/traffic/"}},
      {"deploy/lab/ranks/",
       {"common/base/", "collective/", "collective/client/", "collective/runtime/",
        "collective/transport/"}},
      {"deploy/lab/traffic/",
       {"common/base/", "common/fabric/", "common/io/", "agent/local/", "deploy/lab/"}},
      {"deploy/demo/",
       {"common/base/", "common/fabric/", "common/identity/", "common/io/", "deploy/lab/",
        "deploy/lab/traffic/"}},
      {"collective/client/",
       {"common/base/", "collective/", "collective/runtime/", "collective/transport/",
        "agent/local/"}},
      {"collective/runtime/cli/",
       {"common/base/", "common/io/", "collective/", "collective/runtime/",
        "collective/program/files/"}},
      {"collective/forest/cli/",
       {"common/base/", "common/fabric/", "common/io/", "collective/", "collective/forest/files/",
        "collective/program/files/"}},
      {"collective/program/cli/",
       {"common/base/", "common/io/", "collective/", "collective/program/files/"}},
      {"controller/cli/",
       {"common/base/", "common/fabric/", "common/identity/", "common/io/", "controller/files/",
        "controller/replay/", "controller/routing/", "controller/simulation/", "controller/store/",
        "deploy/lab/"}},
  };
  return layers;
}

}  // namespace espalier::tidy
