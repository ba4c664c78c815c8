// A hostile client of the agent's local API: the input is cut into messages, the rest goes into the
// shared memory, and the agent processes all of it.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "agent/local/local_protocol.h"
#include "agent/local/local_server.h"
#include "agent/local/process_job.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/os/message_socket.h"

namespace espalier::agent {
namespace {

// Runs callbacks that are due at once; the server needs no others.
class ImmediateLoop : public EventLoop {
 public:
  TimePoint Now() const override { return {}; }
  void Post(Callback callback) override { callback(); }
  [[nodiscard]] TimerPtr After(Duration, Callback) override { return std::make_unique<Timer>(); }
};

struct Fixture {
  Fixture() {
    SetLogLevel(LogLevel::kError);
    std::string folder = std::filesystem::temp_directory_path() / "espalier-fuzz-XXXXXX";
    ESPALIER_CHECK(mkdtemp(folder.data()) != nullptr);
    path = folder + "/agent.sock";
    auto listening = LocalServer::Listen(loop, {.path = path}, metrics);
    ESPALIER_CHECK(listening.has_value());
    server = std::move(*listening);
  }
  ~Fixture() {
    server.reset();
    std::filesystem::remove_all(std::filesystem::path(path).parent_path());
  }
  UniqueFd Connect() const {
    Result<UniqueFd> client = ConnectToPath(path);
    ESPALIER_CHECK(client.has_value());
    return std::move(*client);
  }

  ImmediateLoop loop;
  Metrics metrics;
  std::string path;
  std::unique_ptr<LocalServer> server;
};

UniqueFd ReceiveMemory(int client) {
  espalier_local_welcome welcome{};
  auto message = ReceiveMessage(client, &welcome, sizeof(welcome), false);
  return message ? std::move(message->file) : UniqueFd();
}

void Scribble(int file, std::span<const std::uint8_t> bytes) {
  void* const mapped =
      mmap(nullptr, sizeof(espalier_local_memory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ESPALIER_CHECK(mapped != MAP_FAILED);
  auto& memory = *static_cast<espalier_local_memory*>(mapped);
  memory.header.slots_used = 2;
  std::memcpy(memory.slots, bytes.data(), std::min(bytes.size(), 2 * sizeof(memory.slots[0])));
  munmap(mapped, sizeof(espalier_local_memory));
}

void Run(Fixture& fixture, std::span<const std::uint8_t> input) {
  const UniqueFd client = fixture.Connect();
  // A length byte and that number of bytes are a message; a zero ends the messages.
  while (!input.empty() && input[0] != 0) {
    const std::size_t size = std::min<std::size_t>(input[0], input.size() - 1);
    (void)send(client.get(), input.data() + 1, size, MSG_NOSIGNAL);
    input = input.subspan(1 + size);
    fixture.server->HandleReady();
  }
  if (!input.empty()) input = input.subspan(1);
  fixture.server->HandleReady();
  const UniqueFd memory = ReceiveMemory(client.get());
  if (memory) Scribble(memory.get(), input);
  const std::uint32_t wake = ESPALIER_LOCAL_WAKE;
  (void)send(client.get(), &wake, sizeof(wake), MSG_NOSIGNAL);
  fixture.server->HandleReady();
  for (const FlowSample& sample : fixture.server->Flows()) {
    ESPALIER_CHECK(!sample.source.IsNone() && sample.destination_port != 0);
    wire::PathSet set;
    set.flow = sample.id;
    set.paths.push_back({.source_port = 50'000});
    ESPALIER_CHECK(fixture.server->Apply(set).has_value());
  }
}

}  // namespace
}  // namespace espalier::agent

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static espalier::agent::Fixture fixture;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)espalier::agent::JobFromEnvironment(text);
  (void)espalier::agent::JobFromCgroup(text);
  espalier::agent::Run(fixture, {data, size});
  // The client is gone, and its flows must be gone before the next input.
  while (!fixture.server->Flows().empty()) fixture.server->HandleReady();
  return 0;
}
