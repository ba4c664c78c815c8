// libespalier-engine: what the front needs of the shim.
#include "agent/verbs/engine_interface.h"

#include <pthread.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

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

// The devices of the process, and the steering of each: one for each copy of libibverbs. Steerings
// are never destroyed, as their threads live as long as the process.
// Thread safety: any thread may call any function.
class Engine {
 public:
  void Watch(ibv_context& context, const espalier_real_verbs& real) {
    QueuePairSteering* steering = nullptr;
    {
      const std::lock_guard lock(mutex_);
      steering = &SteeringOf(real);
      Observer::OfThisProcess().Watch(context);
      steering_of_[&context] = steering;
    }
    steering->Start();
  }
  // Returns null if the device is not watched.
  QueuePairSteering* Find(const ibv_context* context) {
    const std::lock_guard lock(mutex_);
    const auto found = steering_of_.find(context);
    return found == steering_of_.end() ? nullptr : found->second;
  }
  void Forget(ibv_context& context) {
    const std::lock_guard lock(mutex_);
    steering_of_.erase(&context);
    Observer::OfThisProcess().Forget(context);
  }
  void Expect(std::uint32_t number, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    for (const auto& copy : copies_) copy->steering.Expect(number, bytes);
  }

  // The observer is shared by all steerings, so only one of them may hold it.
  void BeforeFork() {
    mutex_.lock();
    for (const auto& copy : copies_) copy->steering.BeforeFork();
    Observer::OfThisProcess().mutex().lock();
  }
  void AfterForkInParent() {
    Observer::OfThisProcess().mutex().unlock();
    for (const auto& copy : copies_) copy->steering.AfterForkInParent();
    mutex_.unlock();
  }
  void AfterForkInChild() {
    Observer::OfThisProcess().mutex().unlock();
    for (const auto& copy : copies_) copy->steering.AfterForkInChild();
    mutex_.unlock();
  }

 private:
  struct Copy {
    explicit Copy(const espalier_real_verbs& functions)
        : real(functions), steering(MakeRealVerbs(functions), ReadOptions()) {}
    const espalier_real_verbs real;
    QueuePairSteering steering;
  };

  QueuePairSteering& SteeringOf(const espalier_real_verbs& real);

  std::mutex mutex_;  // guards what follows; locked before those of the steerings
  std::vector<std::unique_ptr<Copy>> copies_;
  std::map<const ibv_context*, QueuePairSteering*> steering_of_;
};

Engine& TheEngine() {
  // Never destroyed, as threads of the program may use devices while the process exits.
  union Lasting {
    Lasting() : engine() {}
    ~Lasting() {}
    Engine engine;
  };
  static Lasting lasting;
  return lasting.engine;
}

QueuePairSteering& Engine::SteeringOf(const espalier_real_verbs& real) {
  for (const auto& copy : copies_) {
    const bool has_driver =
        real.set_udp_port == nullptr || real.set_udp_port == copy->real.set_udp_port;
    if (copy->real.modify_qp == real.modify_qp && has_driver) return copy->steering;
  }
  auto made = std::make_unique<Copy>(real);
  copies_.reserve(copies_.size() + 1);
  if (copies_.empty()) {
    pthread_atfork([] { TheEngine().BeforeFork(); }, [] { TheEngine().AfterForkInParent(); },
                   [] { TheEngine().AfterForkInChild(); });
  }
  return copies_.emplace_back(std::move(made))->steering;
}

espalier_steering* HandleOf(QueuePairSteering* steering) {
  return reinterpret_cast<espalier_steering*>(steering);
}
QueuePairSteering& SteeringOf(espalier_steering* handle) {
  return *reinterpret_cast<QueuePairSteering*>(handle);
}

const espalier_engine kEngine = {
    .watch =
        [](ibv_context* context, const espalier_real_verbs* real) {
          Attempt([&] { TheEngine().Watch(*context, *real); });
        },
    .find = [](const ibv_context* context) { return HandleOf(TheEngine().Find(context)); },
    .forget_context = [](ibv_context* context) { TheEngine().Forget(*context); },
    .forget_queue = [](ibv_cq* queue) { Observer::OfThisProcess().Forget(*queue); },
    .watch_extended =
        [](ibv_qp_ex* pair) { Attempt([&] { Observer::OfThisProcess().WatchExtended(*pair); }); },
    .modify_qp =
        [](espalier_steering* of, ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
          SteeringOf(of).Start();  // needed after a fork
          return SteeringOf(of).Modify(pair, attributes, mask);
        },
    .query_qp =
        [](espalier_steering* of, ibv_qp* pair, ibv_qp_attr* attributes, int mask,
           ibv_qp_init_attr* description) {
          return SteeringOf(of).Query(pair, attributes, mask, description);
        },
    .destroy_qp = [](espalier_steering* of, ibv_qp* pair) { return SteeringOf(of).Destroy(pair); },
    .get_async_event =
        [](espalier_steering* of, ibv_context* context, ibv_async_event* event) {
          return SteeringOf(of).GetAsyncEvent(context, event);
        },
    .expect = &espalier_verbs_expect,
};

}  // namespace
}  // namespace espalier::shim

extern "C" {

const espalier_engine* espalier_verbs_engine(std::uint32_t version) {
  return version == ESPALIER_ENGINE_VERSION ? &espalier::shim::kEngine : nullptr;
}

void espalier_verbs_expect(std::uint32_t queue_pair, std::int64_t bytes) {
  espalier::shim::Attempt([&] { espalier::shim::TheEngine().Expect(queue_pair, bytes); });
}

}  // extern "C"
