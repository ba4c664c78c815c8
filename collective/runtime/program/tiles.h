#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "collective/program/program.h"
#include "collective/runtime/calls/operands.h"
#include "collective/transport/base/transport.h"

namespace espalier::runtime {

// A part of every chunk of a call, over which the whole program runs.
struct Tile {
  // Where the chunks of one buffer lie: in segments, which are the ranks' shares; or, one after
  // another, between these bounds, counted in elements from the first.
  struct Layout {
    std::byte* base = nullptr;
    std::size_t segment_chunks = 1;
    std::size_t segment_bytes = 0;
    std::span<const std::size_t> bounds;
    std::size_t element = 1;
  };
  Layout buffers[3];
  std::size_t chunk_bytes = 0;  // from one chunk to the next
  std::size_t offset = 0;       // in each chunk, bytes
  std::size_t bytes = 0;        // of each chunk; of one that ends before, what there is

  Layout& Of(program::Buffer buffer) { return buffers[static_cast<std::size_t>(buffer)]; }
  const Layout& Of(program::Buffer buffer) const {
    return buffers[static_cast<std::size_t>(buffer)];
  }
  // The tile's part of a chunk.
  std::byte* Find(program::Location location) const;
  std::size_t BytesOf(program::Location location) const;
  // Of all chunks of a step.
  std::size_t BytesOf(const program::Step& step) const;
  // The memory of so many chunks where it is in one piece; null where it is not.
  std::byte* Whole(program::Location location, std::int32_t count) const;
};

// Cuts the calls of one rank into tiles that fit the messages of a transport.
//
// Problem: a program is written for a fixed number of chunks, messages have a size that the
// transport likes, and a call may have any number of elements, anywhere. Idea: all chunks are cut
// alike, and the program runs over one tile after another; the elements beyond the last whole share
// of the chunks are a tile of their own, one element a chunk, in memory of this class; a program
// that cannot work where the caller has its memory works on a copy. Invariant: all ranks come to
// the same tiles for a call, as they depend on its size, the program and the transport's slots
// alone. Memory: the scratch that the program asks for, the tail, and the copy, kept from call to
// call. Throws std::bad_alloc where the source has no more.
// Thread safety: one thread at a time.
class Tiling {
 public:
  // The program outlives it.
  Tiling(const program::Program& program, const transport::Transport& transport,
         std::pmr::memory_resource* memory);

  // The most bytes of a chunk in one tile. Less than 8 where a slot has no room for a message.
  std::size_t tile_bytes() const { return tile_bytes_; }
  // Cuts a call. Returns where the program has its data: the caller's operands, or a copy.
  Operands Cut(const Operands& operands);
  // Of the call that was cut last, never none.
  const std::pmr::vector<Tile>& tiles() const { return tiles_; }
  // Brings the results of that call to the caller's output; `cut` is what Cut has returned.
  void CopyOut(const Operands& cut, const Operands& operands) const;
  // How many elements a call's output has on this rank.
  std::size_t OutputElements(const Operands& operands) const;

 private:
  const program::RankProgram& code() const {
    return program_.ranks[static_cast<std::size_t>(rank_)];
  }
  std::size_t SegmentsOf(program::Buffer buffer) const;
  std::size_t ChunksOf(program::Buffer buffer) const;
  std::size_t ChunksPerShare() const;
  bool IsInPlace(const Operands& operands) const;
  Operands Stage(const Operands& operands);
  void CutEqualParts(const Operands& operands);
  void CutUnequalParts(const Operands& operands);
  void CutChunks(Tile whole, std::size_t element);
  void AddTail(const Operands& operands, std::size_t whole, std::size_t rest);
  void CopyTailOut(const Operands& operands) const;

  const program::Program& program_;
  const int rank_;
  const std::size_t tile_bytes_;
  std::pmr::vector<Tile> tiles_;
  std::pmr::vector<std::byte> scratch_;
  std::pmr::vector<std::byte> tail_;
  std::pmr::vector<std::byte> staging_;
};

}  // namespace espalier::runtime
