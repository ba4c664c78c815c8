#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace espalier::nccl {

// What the second plugin of the tests must do, and the calls that it got.
struct SecondPlugin {
  struct Start {
    void* context;
    std::uint64_t type;
    void* parent;
    void* group;
    void* handle;
  };

  int mask = 0xFF;
  bool fails_to_open = false;
  bool fails_to_start = false;

  std::mutex mutex;                     // of what follows
  std::array<char, 100'000> handles{};  // their addresses
  std::size_t handle_count = 0;
  int opened = 0;
  int last_ranks = 0;
  std::vector<Start> starts;
  std::vector<void*> stops;
  std::vector<void*> records;
  void* last_arguments = nullptr;
  std::vector<void*> finalized;
};

}  // namespace espalier::nccl

extern "C" espalier::nccl::SecondPlugin* second_plugin();
