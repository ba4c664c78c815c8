#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "collective/client/espalier_collective.h"
#include "collective/runtime/calls/group.h"
#include "collective/runtime/group/async_calls.h"
#include "collective/runtime/group/communicator.h"
#include "collective/runtime/group/reform.h"
#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/stores/folder_meeting.h"
#include "common/base/result.h"

// What the functions of the C interface have in common.

namespace espalier::client {

// Where the ranks of a group find each other. Groups that are made of a group share it.
struct MeetingPlace {
  std::shared_ptr<transport::FolderMeeting> meeting;    // in a folder
  std::shared_ptr<transport::RendezvousStore> network;  // elsewhere

  transport::RendezvousStore& store() const {
    return meeting != nullptr ? meeting->store() : *network;
  }
};

}  // namespace espalier::client

struct espalier_comm {
  std::atomic<bool> is_in_call = false;  // of some thread
  espalier::client::MeetingPlace place;
  std::unique_ptr<espalier::runtime::Group> group;
  // The same, if it was joined through a store and runs in this process; else null.
  espalier::runtime::Communicator* plain = nullptr;
  std::unique_ptr<espalier::runtime::AsyncCalls> posted;  // destroyed before the group
  espalier::runtime::Lineage lineage;                     // of `plain`
  std::vector<int> lost;                                  // ranks of the group before it
  std::string error;
};

namespace espalier::client {

using CallOfGroup = runtime::AsyncCalls::Call;

// The negative errno value of an error.
int ErrnoOf(ErrorCode code);
// Keeps the message of an error for espalier_comm_error, and returns its errno value.
int Keep(espalier_comm& comm, Error&& error);
// Checks the C interface's numbers. Errors: kInvalidArgument.
Result<void> CheckKind(int type, int op);

// Claims the communicator for this thread; false if another thread is in a call of it, which this
// thread's RefusedBy() then names.
bool Claim(espalier_comm& comm);
const espalier_comm* RefusedBy();
// Forgets it.
void BeginCall();

// Runs the body of a C function and turns exceptions into error codes.
template <typename Work>
int Shield(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (...) {
    return -EIO;
  }
}

// Runs the body of a C function that no two threads may run for a communicator. The thread that
// comes second is refused before it touches anything.
template <typename Work>
int Alone(espalier_comm* comm, const Work& work) {
  if (comm == nullptr) return -EINVAL;
  if (!Claim(*comm)) return -EBUSY;
  const int done = Shield(work);
  comm->is_in_call.store(false, std::memory_order_release);
  return done;
}

// Runs a call after all posted ones and keeps its error message.
template <typename Call>
int Guard(espalier_comm* comm, const Call& call) {
  return Alone(comm, [&] {
    comm->posted->WaitForAll();
    Result<void> done = call(*comm->group);
    return done ? 0 : Keep(*comm, std::move(done.error()));
  });
}

// Posts the call that `make` returns.
template <typename MakeFunction>
int Post(espalier_comm* comm, uint64_t* request, const MakeFunction& make) {
  if (request == nullptr) return -EINVAL;
  return Alone(comm, [&] {
    try {
      Result<CallOfGroup> call = make();
      if (!call) return Keep(*comm, std::move(call.error()));
      *request = comm->posted->Post(std::move(*call));
      return 0;
    } catch (...) {
      return -ENOMEM;
    }
  });
}

std::unique_ptr<espalier_comm> Wrap(std::unique_ptr<runtime::Group> group, MeetingPlace place = {});
// Of a group that other groups can be made of.
std::unique_ptr<espalier_comm> WrapPlain(std::unique_ptr<runtime::Communicator> group,
                                         MeetingPlace place);

// Hands out the communicator that `join` returns (null if that is null), or its error message; no
// exception leaves it.
template <typename JoinFunction>
int Make(const JoinFunction& join, espalier_comm** comm, char* error, size_t error_bytes) {
  if (comm == nullptr) return -EINVAL;
  *comm = nullptr;
  BeginCall();
  return Shield([&] {
    auto made = join();
    if (made) {
      *comm = made->release();
      return 0;
    }
    if (error != nullptr && error_bytes > 0) {
      const size_t length = std::min(error_bytes - 1, made.error().message.size());
      std::memcpy(error, made.error().message.data(), length);
      error[length] = '\0';
    }
    return ErrnoOf(made.error().code);
  });
}

}  // namespace espalier::client
