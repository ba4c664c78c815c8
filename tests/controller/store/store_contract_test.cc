#include "tests/controller/store/store_contract.h"

#include "common/loop/asio_event_loop.h"
#include "common/sim/sim_world.h"
#include "controller/store/memory_store.h"
#include "controller/store/sqlite_store.h"
#include "tests/temporary_folder.h"

namespace espalier::controller {
namespace {

// Waits for all earlier calls, as stores answer in order.
void RunUntilAnswered(io::AsioEventLoop& loop, Store*& store) {
  store->ReadAudit(0, 0, [&](const auto&) { loop.Stop(); });
  loop.Run();
}

StoreUnderTest Sqlite() {
  struct World {
    TemporaryFolder folder;
    io::AsioEventLoop loop;
    Store* store = nullptr;
  };
  const auto world = std::make_shared<World>();
  return {[world] {
            auto store =
                OpenSqliteStore(world->folder.path() + "/store.db", world->loop, SystemWallTime);
            EXPECT_TRUE(store.has_value()) << store.error().message;
            world->store = store->get();
            return std::move(*store);
          },
          [world] { RunUntilAnswered(world->loop, world->store); }};
}

StoreUnderTest Memory() {
  struct World {
    MemoryDisk disk;
    sim::SimWorld world{1};
    std::unique_ptr<EventLoop> loop = world.MakeLoop();
  };
  const auto world = std::make_shared<World>();
  return {[world] { return std::make_unique<MemoryStore>(world->disk, *world->loop); },
          [world] { world->world.RunFor(std::chrono::milliseconds(1)); }};
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreContract, testing::Values(Sqlite, Memory),
                         [](const auto& each) { return each.index == 0 ? "Sqlite" : "Memory"; });

}  // namespace
}  // namespace espalier::controller
