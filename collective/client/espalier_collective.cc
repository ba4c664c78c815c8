#include "collective/client/espalier_collective.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/client/c_structs.h"
#include "collective/client/comm.h"
#include "collective/client/group_key.h"
#include "collective/client/job_group.h"
#include "collective/runtime/group/communicator.h"
#include "collective/runtime/offload/offloaded_group.h"
#include "collective/transport/rendezvous/rendezvous.h"
#include "collective/transport/stores/folder_meeting.h"
#include "collective/transport/stores/tcp_store.h"

using espalier::Result;
using espalier::client::Alone;
using espalier::client::CallOfGroup;
using espalier::client::CheckKind;
using espalier::client::Guard;
using espalier::client::JobGroup;
using espalier::client::JobOptions;
using espalier::client::Keep;
using espalier::client::Make;
using espalier::client::MeetingPlace;
using espalier::client::Post;
using espalier::client::Refuse;
using espalier::client::RefusedBy;
using espalier::client::ToOptions;
using espalier::client::ToPlan;
using espalier::client::Wrap;
using espalier::client::WrapPlain;
using espalier::program::CollectiveKind;
using espalier::reduce::DataType;
using espalier::reduce::ReduceOp;
using espalier::runtime::Communicator;
using espalier::runtime::CommunicatorOptions;
using espalier::runtime::Group;
using espalier::runtime::OffloadedGroup;

static_assert(static_cast<int>(CollectiveKind::kAllGather) == ESPALIER_ALLGATHER &&
              static_cast<int>(CollectiveKind::kBroadcast) == ESPALIER_BROADCAST &&
              static_cast<int>(CollectiveKind::kCustom) == ESPALIER_CUSTOM);

namespace {

// A call whose collective, type and operation are the C API's numbers.
struct PlainCall {
  int collective;
  const void* input;
  void* output;
  size_t count;
  int type;
  int op;
  int root;

  Result<void> Check() const {
    if (collective < 0 || collective > ESPALIER_CUSTOM) {
      return tl::unexpected(Refuse("unknown collective (see espalier_collective)"));
    }
    return CheckKind(type, op);
  }
  Result<void> operator()(Group& group) const {
    return group.Run(static_cast<CollectiveKind>(collective), input, output, count,
                     static_cast<DataType>(type), static_cast<ReduceOp>(op), root);
  }
};

int Run(espalier_comm* comm, int collective, const void* input, void* output, size_t count,
        int type, int op, int root = ESPALIER_NO_ROOT) {
  const PlainCall call = {collective, input, output, count, type, op, root};
  return Guard(comm, [&](Group& group) -> Result<void> {
    auto checked = call.Check();
    return checked ? call(group) : checked;
  });
}

// A call with unequal parts, which keeps a copy of the counts.
Result<CallOfGroup> MakeUnequalCall(const espalier_comm& comm, CollectiveKind kind,
                                    const void* input, void* output, const size_t* counts, int type,
                                    int op) {
  auto checked = CheckKind(type, op);
  if (!checked) return espalier::Propagate(checked);
  if (counts == nullptr) return tl::unexpected(Refuse("counts is null (give one for each rank)"));
  std::vector<size_t> own(counts, counts + comm.group->size());
  return [=, own = std::move(own)](Group& group) {
    return group.RunUnequal(kind, input, output, own, static_cast<DataType>(type),
                            static_cast<ReduceOp>(op));
  };
}

int RunUnequal(espalier_comm* comm, CollectiveKind kind, const void* input, void* output,
               const size_t* counts, int type, int op) {
  return Guard(comm, [&](Group& group) -> Result<void> {
    auto call = MakeUnequalCall(*comm, kind, input, output, counts, type, op);
    if (!call) return espalier::Propagate(call);
    return (*call)(group);
  });
}

bool IsFolder(const char* store) { return !std::string_view(store).starts_with("tcp://"); }

Result<std::unique_ptr<espalier_comm>> JoinJob(const JobOptions& options) {
  auto group = JobGroup::Join(options);
  if (!group) return espalier::Propagate(group);
  return Wrap(std::move(*group));
}

// Finds the group's credentials and the place where its ranks find each other.
Result<MeetingPlace> Meet(const char* store, const char* name, int rank, int size,
                          CommunicatorOptions& options) {
  auto fits = espalier::transport::Rendezvous::CheckRank(rank, size);
  if (fits && IsFolder(store)) fits = espalier::transport::CheckFolder(store);
  if (!fits) return espalier::Propagate(fits);
  auto members = espalier::client::FindMembership(store, options.medium);
  if (!members) return espalier::Propagate(members);
  options.members = std::move(*members);
  MeetingPlace place;
  if (IsFolder(store)) {
    auto met = espalier::transport::FolderMeeting::Join(store, name, rank, size, *options.join_by);
    if (!met) return espalier::Propagate(met);
    place.meeting = std::move(*met);
    return place;
  }
  auto opened = espalier::transport::OpenStore(store, rank, options.members);
  if (!opened) return espalier::Propagate(opened);
  place.network = std::move(*opened);
  return place;
}

// The offload service opens the store itself, so ranks that meet in a folder name their run to it.
Result<std::unique_ptr<espalier_comm>> JoinOffloaded(const char* store, const char* name, int rank,
                                                     int size, const espalier_comm_options& options,
                                                     CommunicatorOptions& chosen) {
  MeetingPlace place;
  std::string group_name = name;
  if (IsFolder(store)) {
    auto met = Meet(store, name, rank, size, chosen);
    if (!met) return espalier::Propagate(met);
    place = std::move(*met);
    group_name = place.meeting->run_name();
  } else {
    auto members = espalier::client::FindMembership(store, chosen.medium);
    if (!members) return espalier::Propagate(members);
    chosen.members = std::move(*members);
  }
  auto group = OffloadedGroup::Join(options.offload, store, group_name, rank, size, chosen);
  if (!group) return espalier::Propagate(group);
  return Wrap(std::move(*group), std::move(place));
}

Result<std::unique_ptr<espalier_comm>> Join(const char* store, const char* name, int rank, int size,
                                            const espalier_comm_options& options) {
  const bool has_agent = options.agent != nullptr;
  if (name == nullptr || (store == nullptr && !has_agent)) {
    return tl::unexpected(Refuse("store or name is null (a group needs both)"));
  }
  auto chosen = ToOptions(options);
  if (!chosen) return espalier::Propagate(chosen);
  if (options.address == nullptr && store != nullptr && !IsFolder(store)) {
    auto own = espalier::transport::AddressTowardsStore(store);
    if (!own) return espalier::Propagate(own);
    chosen->address = own->ToString();
  }
  if (options.offload != nullptr) return JoinOffloaded(store, name, rank, size, options, *chosen);
  JobOptions job = {.job = name, .rank = rank, .size = size, .timeout = chosen->timeout};
  if (has_agent) {
    if (size < 1) return tl::unexpected(Refuse("size must be at least 1"));
    job.agent = options.agent;
    if (store == nullptr) return JoinJob(job);
  }
  auto place = Meet(store, name, rank, size, *chosen);
  if (!place) return espalier::Propagate(place);
  if (has_agent) {
    auto group = JobGroup::JoinIfAllHavePlans(job, place->store());
    if (!group) return espalier::Propagate(group);
    if (*group != nullptr) return Wrap(std::move(*group));
  }
  auto group = Communicator::Join(place->store(), name, rank, size, *chosen);
  if (!group) return espalier::Propagate(group);
  return WrapPlain(std::move(*group), std::move(*place));
}

}  // namespace

int espalier_comm_create(const char* store, const char* name, int rank, int size,
                         const espalier_comm_options* options, espalier_comm** comm, char* error,
                         size_t error_bytes) {
  const espalier_comm_options chosen = options == nullptr ? espalier_comm_options{} : *options;
  return Make([&] { return Join(store, name, rank, size, chosen); }, comm, error, error_bytes);
}

int espalier_comm_join_job(const char* agent, const char* job, int rank, uint32_t timeout_ms,
                           espalier_comm** comm, char* error, size_t error_bytes) {
  const auto join = [&]() -> Result<std::unique_ptr<espalier_comm>> {
    if (job == nullptr) return tl::unexpected(Refuse("job is null (give the job's name)"));
    JobOptions options = {.job = job, .rank = rank};
    if (agent != nullptr) options.agent = agent;
    if (timeout_ms != 0) options.timeout = std::chrono::milliseconds(timeout_ms);
    return JoinJob(options);
  };
  return Make(join, comm, error, error_bytes);
}

void espalier_comm_destroy(espalier_comm* comm) { delete comm; }

const char* espalier_comm_error(const espalier_comm* comm) {
  if (comm == nullptr) return "no communicator";
  if (RefusedBy() == comm) {
    return "another thread is in a call of this communicator, and this call did nothing (make the "
           "calls from one thread at a time, or give each thread a communicator of its own)";
  }
  return comm->error.c_str();
}

int espalier_allreduce(espalier_comm* comm, const void* input, void* output, size_t count, int type,
                       int op) {
  return Run(comm, ESPALIER_ALLREDUCE, input, output, count, type, op);
}

int espalier_reduce(espalier_comm* comm, const void* input, void* output, size_t count, int type,
                    int op, int root) {
  return Run(comm, ESPALIER_REDUCE, input, output, count, type, op, root);
}

int espalier_broadcast(espalier_comm* comm, void* buffer, size_t count, int type, int root) {
  return Run(comm, ESPALIER_BROADCAST, buffer, buffer, count, type, ESPALIER_SUM, root);
}

int espalier_allgather(espalier_comm* comm, const void* input, void* output, size_t count,
                       int type) {
  return Run(comm, ESPALIER_ALLGATHER, input, output, count, type, ESPALIER_SUM);
}

int espalier_reduce_scatter(espalier_comm* comm, const void* input, void* output, size_t count,
                            int type, int op) {
  return Run(comm, ESPALIER_REDUCE_SCATTER, input, output, count, type, op);
}

int espalier_alltoall(espalier_comm* comm, const void* input, void* output, size_t count,
                      int type) {
  return Run(comm, ESPALIER_ALLTOALL, input, output, count, type, ESPALIER_SUM);
}

int espalier_allgatherv(espalier_comm* comm, const void* input, void* output, const size_t* counts,
                        int type) {
  return RunUnequal(comm, CollectiveKind::kAllGather, input, output, counts, type, ESPALIER_SUM);
}

int espalier_reduce_scatterv(espalier_comm* comm, const void* input, void* output,
                             const size_t* counts, int type, int op) {
  return RunUnequal(comm, CollectiveKind::kReduceScatter, input, output, counts, type, op);
}

int espalier_barrier(espalier_comm* comm) {
  return Run(comm, ESPALIER_BARRIER, nullptr, nullptr, 0, ESPALIER_U8, ESPALIER_SUM);
}

int espalier_comm_use(espalier_comm* comm, const espalier_plan* plan) {
  return Guard(comm, [&](Group& group) -> Result<void> {
    if (plan == nullptr) return tl::unexpected(Refuse("plan is null"));
    auto read = ToPlan(*plan);
    if (!read) return espalier::Propagate(read);
    return group.Use(std::move(*read));
  });
}

int espalier_run(espalier_comm* comm, int collective, const void* input, void* output, size_t count,
                 int type, int op, int root) {
  return Run(comm, collective, input, output, count, type, op, root);
}

int espalier_post(espalier_comm* comm, int collective, const void* input, void* output,
                  size_t count, int type, int op, int root, uint64_t* request) {
  const PlainCall call = {collective, input, output, count, type, op, root};
  return Post(comm, request, [&]() -> Result<CallOfGroup> {
    auto checked = call.Check();
    if (!checked) return espalier::Propagate(checked);
    return call;
  });
}

int espalier_post_allgatherv(espalier_comm* comm, const void* input, void* output,
                             const size_t* counts, int type, uint64_t* request) {
  return Post(comm, request, [&] {
    return MakeUnequalCall(*comm, CollectiveKind::kAllGather, input, output, counts, type,
                           ESPALIER_SUM);
  });
}

int espalier_post_reduce_scatterv(espalier_comm* comm, const void* input, void* output,
                                  const size_t* counts, int type, int op, uint64_t* request) {
  return Post(comm, request, [&] {
    return MakeUnequalCall(*comm, CollectiveKind::kReduceScatter, input, output, counts, type, op);
  });
}

int espalier_test(espalier_comm* comm, uint64_t request) {
  return Alone(comm, [&] {
    auto result = comm->posted->Test(request);
    if (!result) return 0;
    return *result ? 1 : Keep(*comm, std::move(result->error()));
  });
}

int espalier_wait(espalier_comm* comm, uint64_t request) {
  return Alone(comm, [&] {
    auto result = comm->posted->Wait(request);
    return result ? 0 : Keep(*comm, std::move(result.error()));
  });
}

int espalier_comm_alloc(espalier_comm* comm, size_t bytes, void** memory) {
  if (memory == nullptr) return -EINVAL;
  *memory = nullptr;
  return Guard(comm, [&](Group& group) -> Result<void> {
    auto allocated = group.Allocate(bytes);
    if (!allocated) return espalier::Propagate(allocated);
    *memory = *allocated;
    return {};
  });
}

int espalier_comm_free(espalier_comm* comm, void* memory) {
  return Guard(comm, [&](Group& group) { return group.Release(memory); });
}
