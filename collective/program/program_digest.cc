#include "collective/program/program_digest.h"

#include <openssl/evp.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace espalier::program {
namespace {

enum class Kind : char { kPart, kInner, kWhole };

std::string_view BytesOf(const ProgramDigest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

ProgramDigest Hash(Kind kind, std::initializer_list<std::string_view> parts) {
  std::string text(1, static_cast<char>(kind));
  for (const std::string_view part : parts) text += part;
  ProgramDigest digest = {};
  unsigned size = 0;
  const int done =
      ::EVP_Digest(text.data(), text.size(), digest.data(), &size, ::EVP_sha256(), nullptr);
  ESPALIER_CHECK(done == 1 && size == digest.size(), "size={}", size);
  return digest;
}

ProgramDigest Join(const ProgramDigest& left, const ProgramDigest& right) {
  return Hash(Kind::kInner, {BytesOf(left), BytesOf(right)});
}

}  // namespace

DigestTree::DigestTree(std::vector<ProgramDigest> parts) {
  ESPALIER_CHECK(!parts.empty());
  levels_.push_back(std::move(parts));
  while (levels_.back().size() > 1) {
    const std::vector<ProgramDigest>& below = levels_.back();
    std::vector<ProgramDigest> level;
    for (std::size_t i = 0; i + 1 < below.size(); i += 2) {
      level.push_back(Join(below[i], below[i + 1]));
    }
    if (below.size() % 2 == 1) level.push_back(below.back());
    levels_.push_back(std::move(level));
  }
}

std::vector<ProgramDigest> DigestTree::PathOf(std::size_t rank) const {
  std::vector<ProgramDigest> path;
  for (std::size_t i = 0; i + 1 < levels_.size(); ++i, rank /= 2) {
    const std::size_t neighbour = rank ^ 1U;
    if (neighbour < levels_[i].size()) path.push_back(levels_[i][neighbour]);
  }
  return path;
}

std::size_t DigestTree::LengthOfPath(std::size_t rank, std::size_t ranks) {
  std::size_t length = 0;
  for (; ranks > 1; ranks = (ranks + 1) / 2, rank /= 2) length += (rank ^ 1U) < ranks ? 1 : 0;
  return length;
}

ProgramDigest DigestTree::Climb(const ProgramDigest& part, std::size_t rank, std::size_t ranks,
                                std::span<const ProgramDigest> path) {
  ESPALIER_CHECK(path.size() == LengthOfPath(rank, ranks), "path={}", path.size());
  ProgramDigest at = part;
  auto next = path.begin();
  for (; ranks > 1; ranks = (ranks + 1) / 2, rank /= 2) {
    if ((rank ^ 1U) >= ranks) continue;
    at = rank % 2 == 0 ? Join(at, *next) : Join(*next, at);
    ++next;
  }
  return at;
}

ProgramDigest DigestOfPart(std::size_t rank, std::string_view bytes) {
  return Hash(Kind::kPart, {std::to_string(rank), std::string_view("\0", 1), bytes});
}

ProgramDigest DigestOfWhole(std::string_view head, const ProgramDigest& root) {
  return Hash(Kind::kWhole, {BytesOf(root), head});
}

}  // namespace espalier::program
