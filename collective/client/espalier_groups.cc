#include "collective/client/espalier_groups.h"

#include <chrono>
#include <utility>

#include "collective/client/comm.h"
#include "collective/runtime/group/reform.h"
#include "collective/runtime/group/split.h"

using espalier::ErrorCode;
using espalier::Fail;
using espalier::Propagate;
using espalier::Result;
using espalier::client::Guard;
using espalier::client::WrapPlain;
using espalier::runtime::Group;

namespace {

Result<void> CheckPlain(const espalier_comm& comm) {
  if (comm.plain != nullptr) return {};
  return Fail(ErrorCode::kUnsupported,
              "no group can be made of one whose calls a controller's job or the offload service "
              "makes (create it through a store, without offload)");
}

}  // namespace

int espalier_comm_rank(const espalier_comm* comm) {
  return comm == nullptr ? -EINVAL : comm->group->rank();
}

int espalier_comm_size(const espalier_comm* comm) {
  return comm == nullptr ? -EINVAL : comm->group->size();
}

int espalier_comm_split(espalier_comm* comm, int color, int key, espalier_comm** part) {
  if (part == nullptr) return -EINVAL;
  *part = nullptr;
  return Guard(comm, [&](Group& /*group*/) -> Result<void> {
    auto checked = CheckPlain(*comm);
    if (!checked) return checked;
    auto made = espalier::runtime::Split(*comm->plain, color, key);
    if (!made) return Propagate(made);
    if (*made != nullptr) *part = WrapPlain(std::move(*made), comm->place).release();
    return {};
  });
}

int espalier_comm_reform(espalier_comm* comm, uint32_t wait_ms, int least,
                         espalier_comm** survivors) {
  if (survivors == nullptr) return -EINVAL;
  *survivors = nullptr;
  return Guard(comm, [&](Group& /*group*/) -> Result<void> {
    auto checked = CheckPlain(*comm);
    if (!checked) return checked;
    auto made =
        espalier::runtime::Reform(*comm->plain, comm->lineage,
                                  {.patience = std::chrono::milliseconds(wait_ms), .least = least});
    if (!made) return Propagate(made);
    auto wrapped = WrapPlain(std::move(made->group), comm->place);
    wrapped->lineage = std::move(made->lineage);
    wrapped->lost = std::move(made->lost);
    *survivors = wrapped.release();
    return {};
  });
}

int espalier_comm_lost(const espalier_comm* comm, int* ranks, int most) {
  if (comm == nullptr) return -EINVAL;
  const auto lost = static_cast<int>(comm->lost.size());
  for (int i = 0; i < lost && i < most && ranks != nullptr; ++i) {
    ranks[i] = comm->lost[static_cast<std::size_t>(i)];
  }
  return lost;
}
