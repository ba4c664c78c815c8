// libespalier-verbs: the functions that replace those of libibverbs. Programs get all other
// functions from the real libibverbs, on which this library depends.
#include <pthread.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

#include "agent/verbs/attempt.h"
#include "agent/verbs/observer.h"
#include "agent/verbs/queue_pair_steering.h"
#include "agent/verbs/real_verbs.h"

namespace espalier::shim {
namespace {

std::optional<std::uint64_t> NumberIn(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

QueuePairSteeringOptions ReadOptions() {
  constexpr std::uint64_t kMaxPatienceMs = 60'000;
  QueuePairSteeringOptions options;
  if (const auto wait = NumberIn("ESPALIER_VERBS_WAIT_MS"); wait && *wait <= kMaxPatienceMs) {
    options.patience = std::chrono::milliseconds(*wait);
  }
  options.announce_bytes = NumberIn("ESPALIER_VERBS_ANNOUNCE_BYTES");
  options.verbose = NumberIn("ESPALIER_VERBS_VERBOSE").value_or(0) != 0;
  return options;
}

struct Shim {
  const RealVerbs real = LoadRealVerbs();
  QueuePairSteering steering{real, ReadOptions()};
};

// Created by the first call and never destroyed, as its thread lives as long as the process. It is
// in static memory, so that it cannot fail: the program needs the real library's functions.
Shim& TheShim() {
  static Shim& shim = []() -> Shim& {
    alignas(Shim) static std::byte memory[sizeof(Shim)];
    Shim& made = *new (memory) Shim;
    pthread_atfork([] { TheShim().steering.BeforeFork(); },
                   [] { TheShim().steering.AfterForkInParent(); },
                   [] { TheShim().steering.AfterForkInChild(); });
    return made;
  }();
  return shim;
}

ibv_context* Watched(ibv_context* context) {
  if (context == nullptr) return context;
  Attempt([context] { Observer::OfThisProcess().Watch(*context); });
  TheShim().steering.Start();
  return context;
}

}  // namespace
}  // namespace espalier::shim

using espalier::shim::Observer;
using espalier::shim::TheShim;
using espalier::shim::Watched;

extern "C" {

ibv_context* ibv_open_device(ibv_device* device) {
  return Watched(TheShim().real.open_device(device));
}

ibv_context* ibv_import_device(int file) { return Watched(TheShim().real.import_device(file)); }

int ibv_close_device(ibv_context* context) {
  Observer::OfThisProcess().Forget(*context);
  return TheShim().real.close_device(context);
}

int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  TheShim().steering.Start();  // needed after a fork, and if another library opened the context
  return TheShim().steering.Modify(pair, attributes, mask);
}

int ibv_query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* description) {
  return TheShim().steering.Query(pair, attributes, mask, description);
}

int ibv_destroy_qp(ibv_qp* pair) { return TheShim().steering.Destroy(pair); }

int ibv_destroy_cq(ibv_cq* queue) {
  Observer::OfThisProcess().Forget(*queue);
  return TheShim().real.destroy_cq(queue);
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* pair) {
  ibv_qp_ex* const extended = TheShim().real.qp_to_qp_ex(pair);
  if (extended != nullptr) {
    espalier::shim::Attempt([&] { Observer::OfThisProcess().WatchExtended(*extended); });
  }
  return extended;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return TheShim().steering.GetAsyncEvent(context, event);
}

// Not a function of libibverbs: for plugins that know what the program is about to send
// (agent/nccl).
void espalier_verbs_expect(std::uint32_t queue_pair, std::int64_t bytes);
void espalier_verbs_expect(std::uint32_t queue_pair, std::int64_t bytes) {
  espalier::shim::Attempt([&] { TheShim().steering.Expect(queue_pair, bytes); });
}

}  // extern "C"
