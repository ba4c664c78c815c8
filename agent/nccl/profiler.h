#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "agent/nccl/event_table.h"
#include "agent/nccl/expectations.h"
#include "agent/nccl/profiler_abi.h"

namespace espalier::nccl {

// What we read of a descriptor of any version, and where its handles stand.
struct EventFields {
  std::uint64_t type = 0;
  void** parent = nullptr;
  void** group = nullptr;          // where there is a second one
  const char* function = nullptr;  // of collectives and point-to-point calls
  const char* datatype = nullptr;
  std::uint64_t count = 0;
  unsigned channels = 0;
  const ProxyOp* proxy_op = nullptr;
  const NetPlugin* net_plugin = nullptr;
};

// A profiler plugin of NCCL, as all its versions have it. Tells the shim (agent/verbs), and by
// it the agent, what queue pairs are about to send: when the proxy begins its part of a collective,
// before it posts anything of it. Passes everything on to another plugin, where there is one, with
// that plugin's own contexts and handles.
//
// NCCL is never told of an error. Handles and contexts that are not ours are ignored.
// Thread safety: all of it. The other plugin is called outside our lock.
class Profiler {
 public:
  // Of a communicator. `ranks` 0: not known. `expect` null: there is no shim. `other` null: no
  // other plugin, else it must live as long as the process. Returns the context.
  void* Open(int ranks, Expect* expect, const Calls* other, void* other_context);
  // The events that NCCL is to report: ours, and those of the other plugin.
  int ActivationMask();
  // Where the other plugin says what it wants; it may change that at any time.
  int& other_mask() { return other_mask_; }

  // Null: the event is of no interest to anybody. `descriptor` is what the other plugin gets, with
  // its own handles in it for as long as the call takes.
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
  // What of an event the other plugin has.
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
  std::mutex mutex_;    // of all below
  bool has_shim_ = false;
  std::uint64_t last_communicator_ = 0;
  std::map<std::uint64_t, Communicator> communicators_;
  EventTable events_;
  Expectations expectations_;
};

// A line on standard error: the other plugin failed, and goes without.
void WarnOnce(const char* what);

}  // namespace espalier::nccl
