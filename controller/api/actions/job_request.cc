#include "controller/api/actions/job_request.h"

#include <limits>
#include <string>

#include "common/base/users/local_user.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"

namespace espalier::controller {

Result<JobSpec> ParseJobRequest(std::string_view body) {
  constexpr const char* kTcp = "tcp";
  constexpr const char* kVerbs = "verbs";
  const std::string place = "the request";
  Result<io::JsonValue> json = io::ParseJson(body, place);
  if (!json) return Propagate(json);
  io::JsonFields fields(*json, place);
  JobSpec spec{.name = fields.RequiredString("name"), .ranks = {}};
  for (const io::JsonValue& rank : fields.RequiredArray("ranks")) {
    if (rank.kind != io::JsonValue::Kind::kString)
      fields.AddError("ranks", "each rank must be a string, the id of a node");
    spec.ranks.push_back(rank.text);
  }
  const std::string collective = fields.String("collective", "allreduce");
  const auto known = forest::FindCollective(collective);
  if (!known) {
    fields.AddError(
        "collective",
        "unknown collective (give allreduce, allgather, reduce-scatter, broadcast or reduce)");
  }
  spec.bytes = static_cast<std::uint64_t>(
      fields.Integer("bytes", 0, 0, std::numeric_limits<std::int64_t>::max()));
  spec.offload = fields.Bool("offload", false);
  const std::string transport = fields.String("transport", kTcp);
  if (transport != kTcp && transport != kVerbs)
    fields.AddError("transport", "unknown transport (give tcp or verbs)");
  spec.verbs = transport == kVerbs;
  spec.user = fields.String("user", "");
  if (!spec.user.empty() && !IsLocalUser(spec.user)) {
    fields.AddError("user",
                    "invalid user (give a user name, [a-z_][a-z0-9_-]{0,31}, or a user id)");
  }
  if (Result<void> finished = fields.Finish(); !finished) return Propagate(finished);
  spec.collective = *known;
  return spec;
}

}  // namespace espalier::controller
