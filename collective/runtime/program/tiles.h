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

// A tile: the same byte range of every chunk of a call, over which the whole program runs once.
struct Tile {
  // The position of the chunks in one buffer: in equal segments, one for each rank's part; or, for
  // unequal parts, one after another between `bounds`, which count elements.
  struct Layout {
    std::byte* base = nullptr;
    std::size_t segment_chunks = 1;
    std::size_t segment_bytes = 0;
    std::span<const std::size_t> bounds;
    std::size_t element = 1;
  };
  Layout buffers[3];
  std::size_t chunk_bytes = 0;  // distance between chunks
  std::size_t offset = 0;       // begin of the tile in each chunk, bytes
  std::size_t bytes = 0;        // bytes of the tile in each chunk; fewer if a chunk ends earlier

  Layout& Of(program::Buffer buffer) { return buffers[static_cast<std::size_t>(buffer)]; }
  const Layout& Of(program::Buffer buffer) const {
    return buffers[static_cast<std::size_t>(buffer)];
  }
  // The address and size of the tile's part of a chunk.
  std::byte* Find(program::Location location) const;
  std::size_t BytesOf(program::Location location) const;
  // The size of the tile's parts of all chunks of a step.
  std::size_t BytesOf(const program::Step& step) const;
  // The address of `count` chunks if the tile's parts of them are contiguous, else null.
  std::byte* Whole(program::Location location, std::int32_t count) const;
};

// Cuts the calls of one rank into tiles that fit the messages of a transport.
//
// Problem: a program is written for a fixed number of chunks, messages have a size that suits the
// transport, and a call may have any number of elements at any address. Idea: all chunks are cut
// alike, and the program runs over one tile after another. Elements that do not fill whole chunks
// form a tail: a tile of one element per chunk, in memory of this class. If a program does not
// support the call's buffer placement, it works on a copy. Invariant: all ranks cut a call into the
// same tiles, because the cut depends on the call's size, the program and the slot size only.
// Memory: the program's scratch, the tail and the copy, kept from call to call. Throws
// std::bad_alloc if the memory resource is exhausted.
// Thread safety: one thread at a time.
class Tiling {
 public:
  // The program must outlive the tiling.
  Tiling(const program::Program& program, const transport::Transport& transport,
         std::pmr::memory_resource* memory);

  // The maximum bytes of a chunk in one tile. Less than 8 if a slot is too small for the program.
  std::size_t tile_bytes() const { return tile_bytes_; }
  // Cuts a call. Returns the operands on which the program works: the caller's, or a copy.
  Operands Cut(const Operands& operands);
  // The tiles of the last call that was cut; at least one.
  const std::pmr::vector<Tile>& tiles() const { return tiles_; }
  // Copies the results of that call to the caller's output. `cut`: the result of Cut.
  void CopyOut(const Operands& cut, const Operands& operands) const;
  // The number of elements in a call's output on this rank.
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
