#include "agent/engine/plan_authority.h"

#include <fmt/format.h>

#include <utility>

#include "agent/local/plan_client.h"
#include "collective/client/job_place.h"

namespace espalier::engine {

Result<runtime::JobGroupPlace> PlanAuthority::Find(const runtime::JobRank& rank, uid_t user,
                                                   std::chrono::milliseconds patience) {
  auto client = agent::PlanClient::Connect(agent_socket_, rank.job, rank.rank, user);
  if (!client) return Propagate(client);
  auto plan = (*client)->Wait(patience);
  if (!plan) return Propagate(plan);
  if (!*plan) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no plan for rank {} of job {} on this host (`espalier job "
                            "list` tells the job's state)",
                            rank.rank, rank.job));
  }
  if (!(*plan)->offload) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("job {} does without the engine (`espalier job start --offload` starts "
                            "one that has it)",
                            rank.job));
  }
  return client::PlaceOfGroup(**plan, rank.job, rank.number);
}

}  // namespace espalier::engine
