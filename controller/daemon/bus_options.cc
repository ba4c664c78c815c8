#include "controller/daemon/bus_options.h"

#include <algorithm>
#include <string_view>

#include "common/base/log.h"

namespace espalier::controller {

io::ZmqRouterOptions BusOptions(const Configuration& config, const Keys& keys) {
  io::ZmqRouterOptions options{.endpoint = config.listen, .limits = config.limits};
  // The bus closes no agent's connection before the agent itself counts as gone.
  options.silence_limit = std::max(
      io::kSilenceLimit, config.options.heartbeat.interval * config.options.heartbeat.missed);
  if (config.insecure_plaintext) {
    Log(LogLevel::kWarning, "event=insecure_plaintext listen={}", config.listen);
    return options;
  }
  options.curve = io::CurveServer{keys.secret_key, [&keys](std::string_view key) {
                                    return keys.agents.NameOf(key, keys.Now());
                                  }};
  return options;
}

}  // namespace espalier::controller
