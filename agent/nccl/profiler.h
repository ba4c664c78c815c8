#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "agent/nccl/event_table.h"
#include "agent/nccl/expectations.h"
#include "agent/nccl/profiler_abi.h"

namespace espalier::nccl {

// The fields that are read from a descriptor of any version, and pointers to its handles.
struct EventFields {
  std::uint64_t type = 0;
  void** parent = nullptr;
  void** group = nullptr;          // null: the descriptor has no group handle
  const char* function = nullptr;  // of a collective or point-to-point call
  const char* datatype = nullptr;
  std::uint64_t count = 0;
  unsigned channels = 0;
  const ProxyOp* proxy_op = nullptr;
  const NetPlugin* net_plugin = nullptr;
};

// A profiler plugin of NCCL, independent of the version of the interface. It tells the shim
// (agent/verbs), and so the agent, what queue pairs are about to send, when the proxy begins its
// part of a collective and before it posts anything. It passes all events on to another plugin, if
// there is one, with that plugin's own contexts and handles.
//
// NCCL never gets an error. Foreign handles and contexts are ignored.
// Thread safety: any thread may call any function. The other plugin is called without the lock.
class Profiler {
 public:
  // Opens a communicator and returns its context. `ranks` 0: unknown. `expect` null: there is no
  // shim. `other` null: there is no other plugin; else it must live as long as the process.
  void* Open(int ranks, Expect* expect, const Calls* other, void* other_context);
  // Returns the events that NCCL must report: those that this plugin or the other one needs.
  int ActivationMask();
  // The events that the other plugin wants, which it may change at any time.
  int& other_mask() { return other_mask_; }

  // Returns the event's handle; null if neither plugin needs the event. The other plugin gets
  // `descriptor`, with its own handles in it during the call.
  void* Start(void* context, const EventFields& fields, void* descriptor);
  void Stop(void* handle);
  void Record(void* handle, int state, void* arguments);
  void Finalize(void* context);

 private:
  struct Communicator {
    int ranks;
    const Calls* other;
    void* other_context;
  };
  // An event's handle in the other plugin.
  struct OtherEvent {
    const Calls* calls = nullptr;
    void* handle = nullptr;
  };

  bool OtherWants(std::uint64_t type) const;
  void* StartOther(const Communicator& communicator, const EventFields& fields, void* descriptor,
                   void* parent, void* group);
  void* Note(std::uint64_t id, int ranks, const EventFields& fields, void* parent, void* other);
  void NotePost(const NetPlugin& post, void* step);
  OtherEvent OtherEventOf(const Event* event) const;

  int other_mask_ = 0;  // written by the other plugin
  std::mutex mutex_;    // guards all members below
  bool has_shim_ = false;
  std::uint64_t last_communicator_ = 0;
  std::map<std::uint64_t, Communicator> communicators_;
  EventTable events_;
  Expectations expectations_;
};

// Prints a warning on standard error, the first time only.
void WarnOnce(const char* what);

}  // namespace espalier::nccl
