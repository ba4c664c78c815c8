#include "controller/daemon/reloader.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/files/json_writer.h"

namespace espalier::controller {

Result<void> Reloader::Reload() {
  const Result<Configuration> read = ReadConfiguration(config_file_);
  Result<Keys> keys = read ? ReadKeys(running_) : tl::unexpected<Error>(read.error());
  if (!keys) {
    controller_.RecordEvent("reload_refused", keys.error().message);
    return Propagate(keys);
  }
  SetLogLevel(read->log_level);
  keys_ = std::move(*keys);
  bus_.RecheckKeys();
  bus_.SetLimits(read->limits);
  http_.ReloadCertificates();
  const std::vector<std::string> others = io::NeedRestart(running_.fields, read->fields);
  controller_.ApplyConfiguration(
      read->options,
      fmt::format("agent_keys={} tokens={} need_restart={}", keys_.agents.keys().size(),
                  keys_.tokens.tokens().size(),
                  others.empty() ? "none" : fmt::format("{}", fmt::join(others, ","))));
  return {};
}

io::HttpResponse Reloader::Answer() {
  const Result<void> reloaded = Reload();
  if (reloaded) return {.body = R"({"reloaded":true})"};
  io::JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Key("code").String(ErrorCodeName(reloaded.error().code));
  json.Key("message").String(reloaded.error().message);
  json.EndObject().EndObject();
  return {.status = 409, .body = json.Text()};
}

}  // namespace espalier::controller
