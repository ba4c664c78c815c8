#include "collective/program/files/format_msccl_xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "collective/program/files/msccl_names.h"

namespace espalier::program {
namespace {

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

tl::unexpected<Error> Refuse(int rank, std::size_t block, std::string what) {
  return Fail(
      ErrorCode::kUnsupported,
      fmt::format("MSCCL cannot express the program: rank {} block {}: {}", rank, block, what));
}

// Steps for which others wait, by block and step.
using Awaited = std::set<Dependency>;

// Numbers the steps of each block of a rank, including the `nop`s before them.
std::vector<std::vector<std::int32_t>> NumberSteps(const RankProgram& rank) {
  std::vector<std::vector<std::int32_t>> numbers;
  for (const ThreadBlock& block : rank.blocks) {
    auto& own = numbers.emplace_back();
    std::int32_t next = 0;
    for (const Step& step : block.steps) {
      next += std::max(0, static_cast<std::int32_t>(step.after.size()) - 1);
      own.push_back(next++);
    }
  }
  return numbers;
}

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program) {}

  Result<std::string> Write() {
    if (!program_.collective.counts.empty()) {
      return Fail(ErrorCode::kUnsupported,
                  "MSCCL cannot express a reduce_scatter of unequal shares");
    }
    const int channels = CountChannels(program_);
    if (channels > kMscclChannels) {
      return Fail(
          ErrorCode::kUnsupported,
          fmt::format("MSCCL has {} channels, but the program uses {}", kMscclChannels, channels));
    }
    pugi::xml_document document;
    pugi::xml_node node = document.append_child("algo");
    WriteAlgorithm(node, channels);
    for (std::size_t rank = 0; rank < program_.ranks.size(); ++rank) {
      auto written = WriteRank(node, static_cast<int>(rank));
      if (!written) return Propagate(written);
    }
    std::ostringstream text;
    document.save(text, "  ", pugi::format_default | pugi::format_no_declaration);
    return text.str();
  }

 private:
  template <typename Value>
  static void Set(pugi::xml_node& node, const char* key, Value value) {
    node.append_attribute(key).set_value(value);
  }
  static void SetText(pugi::xml_node& node, const char* key, std::string_view value) {
    node.append_attribute(key).set_value(std::string(value).c_str());
  }

  void WriteAlgorithm(pugi::xml_node& node, int channels) {
    const CollectiveSpec& spec = program_.collective;
    const bool is_known =
        spec.kind != CollectiveKind::kAllToNext && spec.kind != CollectiveKind::kBarrier;
    SetText(node, "name", program_.name);
    SetText(node, "proto", kProtocolNames.NameOf(program_.protocol));
    Set(node, "nchannels", std::max(1, channels));
    Set(node, "nchunksperloop", spec.chunks);
    Set(node, "ngpus", spec.ranks);
    SetText(node, "coll", CollectiveKindName(is_known ? spec.kind : CollectiveKind::kCustom));
    Set(node, "inplace", program_.placement.in_place ? 1 : 0);
    Set(node, "outofplace", program_.placement.out_of_place ? 1 : 0);
    Set(node, "minBytes", static_cast<long long>(program_.min_bytes));
    Set(node, "maxBytes", static_cast<long long>(program_.max_bytes));
  }

  Result<void> WriteRank(pugi::xml_node& algorithm, int id) {
    const RankProgram& rank = program_.ranks[At(id)];
    pugi::xml_node node = algorithm.append_child("gpu");
    Set(node, "id", id);
    Set(node, "i_chunks", rank.input_chunks);
    Set(node, "o_chunks", rank.output_chunks);
    Set(node, "s_chunks", rank.scratch_chunks);
    if (rank.blocks.size() > At(kMscclBlocks)) {
      return Refuse(id, At(kMscclBlocks), fmt::format("there are {}", rank.blocks.size()));
    }
    Awaited awaited;
    for (const ThreadBlock& block : rank.blocks) {
      for (const Step& step : block.steps) awaited.insert(step.after.begin(), step.after.end());
    }
    const auto numbers = NumberSteps(rank);
    for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
      const ThreadBlock& block = rank.blocks[b];
      if (!numbers[b].empty() && numbers[b].back() >= kMscclSteps) {
        return Refuse(id, b, fmt::format("{} steps", numbers[b].back() + 1));
      }
      pugi::xml_node made = node.append_child("tb");
      Set(made, "id", static_cast<int>(b));
      Set(made, "send", block.send_peer);
      Set(made, "recv", block.receive_peer);
      Set(made, "chan", block.channel);
      for (std::size_t s = 0; s < block.steps.size(); ++s) {
        const Step& step = block.steps[s];
        if (step.count > kMscclChunksInStep) {
          return Refuse(id, b, fmt::format("a step of {} chunks", step.count));
        }
        const Dependency own{static_cast<std::int32_t>(b), static_cast<std::int32_t>(s)};
        WriteStep(made, step, numbers[b][s], awaited.contains(own), numbers);
      }
    }
    return {};
  }

  void WriteStep(pugi::xml_node& block, const Step& step, std::int32_t number, bool is_awaited,
                 const std::vector<std::vector<std::int32_t>>& numbers) {
    const auto waits = static_cast<std::int32_t>(step.after.size());
    const auto write = [&](std::int32_t s, const Step& of, std::int32_t wait, bool announces) {
      pugi::xml_node node = block.append_child("step");
      Set(node, "s", s);
      SetText(node, "type", OpCodeName(of.op));
      SetText(node, "srcbuf", BufferName(of.source.buffer));
      Set(node, "srcoff", of.source.index);
      SetText(node, "dstbuf", BufferName(of.destination.buffer));
      Set(node, "dstoff", of.destination.index);
      Set(node, "cnt", of.op == OpCode::kNop ? 0 : of.count);
      const bool has_wait = wait < waits;
      const Dependency on = has_wait ? step.after[At(wait)] : Dependency{-1, -1};
      Set(node, "depid", on.block);
      Set(node, "deps", has_wait ? numbers[At(on.block)][At(on.step)] : -1);
      Set(node, "hasdep", announces ? 1 : 0);
    };
    for (std::int32_t wait = 0; wait + 1 < waits; ++wait) {
      write(number - waits + 1 + wait, Step{.op = OpCode::kNop}, wait, false);
    }
    write(number, step, std::max(0, waits - 1), is_awaited);
  }

  const Program& program_;
};

}  // namespace

Result<std::string> FormatMscclXml(const Program& program) { return Writer(program).Write(); }

}  // namespace espalier::program
