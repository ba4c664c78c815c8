#include "collective/program/files/parse_msccl_xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <pugixml.hpp>
#include <vector>

#include "collective/program/files/msccl_names.h"

namespace espalier::program {
namespace {

constexpr std::int64_t kMaxRanks = 1 << 16;
constexpr std::int64_t kMaxChunks = 1 << 26;

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

class Reader {
 public:
  Reader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Result<Program> Read() {
    pugi::xml_document document;
    const auto parsed =
        document.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!parsed) {
      return Fail(ErrorCode::kInvalidArgument, Place(parsed.offset) + parsed.description());
    }
    const pugi::xml_node algorithm = document.document_element();
    if (algorithm.name() != std::string_view("algo") || algorithm.next_sibling()) {
      AddError(algorithm, "expected one <algo> element");
    } else {
      ReadAlgorithm(algorithm);
    }
    if (error_) return tl::unexpected<Error>(std::move(*error_));
    return std::move(program_);
  }

 private:
  std::string Place(std::ptrdiff_t offset) const {
    const auto before = text_.substr(
        0, std::min(text_.size(), static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0))));
    const auto line = std::ranges::count(before, '\n') + 1;
    const auto begin = before.rfind('\n');
    const auto column = begin == std::string_view::npos ? before.size() + 1 : before.size() - begin;
    return fmt::format("{}:{}:{}: ", name_, line, column);
  }

  void AddError(const pugi::xml_node& node, std::string_view what) {
    if (error_) return;
    error_ = Error{ErrorCode::kInvalidArgument, Place(node.offset_debug()) + std::string(what)};
  }

  std::optional<std::string_view> Find(const pugi::xml_node& node, const char* key) {
    std::optional<std::string_view> found;
    for (const pugi::xml_attribute& attribute : node.attributes()) {
      if (attribute.name() != std::string_view(key)) continue;
      if (found) AddError(node, fmt::format("{} is given twice", key));
      found = attribute.value();
    }
    return found;
  }

  // Reads a required whole number from min to max.
  std::int64_t Number(const pugi::xml_node& node, const char* key, std::int64_t min,
                      std::int64_t max) {
    if (!Find(node, key)) AddError(node, fmt::format("<{}> without {}", node.name(), key));
    return NumberOr(min, node, key, min, max);
  }

  std::int64_t NumberOr(std::int64_t fallback, const pugi::xml_node& node, const char* key,
                        std::int64_t min, std::int64_t max) {
    const auto text = Find(node, key);
    if (!text) return fallback;
    std::int64_t value = 0;
    const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (failure == std::errc() && end == text->data() + text->size() && value >= min &&
        value <= max) {
      return value;
    }
    AddError(node, fmt::format("{}=\"{}\" is not a number from {} to {}", key, *text, min, max));
    return min;
  }

  std::int32_t Small(const pugi::xml_node& node, const char* key, std::int64_t min,
                     std::int64_t max) {
    return static_cast<std::int32_t>(Number(node, key, min, max));
  }

  std::int32_t SmallOr(std::int64_t fallback, const pugi::xml_node& node, const char* key,
                       std::int64_t min, std::int64_t max) {
    return static_cast<std::int32_t>(NumberOr(fallback, node, key, min, max));
  }

  // Returns the children, all of one kind, by their dense number.
  std::vector<pugi::xml_node> Children(const pugi::xml_node& parent, std::string_view kind,
                                       const char* number, std::int64_t most) {
    std::vector<pugi::xml_node> children;
    for (const pugi::xml_node& child : parent.children()) {
      if (child.type() != pugi::node_element || child.name() != kind) {
        AddError(child, fmt::format("expected only <{}> in <{}>", kind, parent.name()));
        return {};
      }
      children.push_back(child);
    }
    if (static_cast<std::int64_t>(children.size()) > most) {
      AddError(parent, fmt::format("more than {} <{}>", most, kind));
      return {};
    }
    std::vector<pugi::xml_node> sorted(children.size());
    for (const pugi::xml_node& child : children) {
      const auto at = Number(child, number, 0, static_cast<std::int64_t>(children.size()) - 1);
      if (error_) return {};
      if (sorted[At(at)]) {
        AddError(child, fmt::format("<{}> {} is given twice", kind, at));
        return {};
      }
      sorted[At(at)] = child;
    }
    return sorted;
  }

  void ReadAlgorithm(const pugi::xml_node& node) {
    program_.name = Find(node, "name").value_or("");
    const auto protocol = Find(node, "proto").value_or("Simple");
    const auto known = kProtocolNames.Find(protocol);
    if (!known) {
      return AddError(node, fmt::format("proto=\"{}\" is none of Simple, LL, LL128", protocol));
    }
    program_.protocol = *known;
    channels_ = SmallOr(kMscclChannels, node, "nchannels", 1, kMscclChannels);
    CollectiveSpec& spec = program_.collective;
    spec.ranks = Small(node, "ngpus", 1, kMaxRanks);
    spec.chunks = Small(node, "nchunksperloop", 1, kMaxChunks);
    program_.min_bytes = NumberOr(0, node, "minBytes", 0, std::numeric_limits<std::int64_t>::max());
    program_.max_bytes =
        NumberOr(kMscclMaxBytes, node, "maxBytes", 0, std::numeric_limits<std::int64_t>::max());
    const bool in_place = NumberOr(0, node, "inplace", 0, 1) == 1;
    program_.placement = {.in_place = in_place,
                          .out_of_place = NumberOr(!in_place, node, "outofplace", 0, 1) == 1};
    ReadCollective(node);
    const auto ranks = Children(node, "gpu", "id", kMaxRanks);
    if (!error_ && ranks.size() != At(spec.ranks)) {
      AddError(node, fmt::format("{} <gpu> for ngpus=\"{}\"", ranks.size(), spec.ranks));
    }
    for (const pugi::xml_node& rank : ranks) {
      if (!error_) ReadRank(rank);
    }
  }

  void ReadCollective(const pugi::xml_node& node) {
    const auto name = Find(node, "coll").value_or("");
    auto kind = FindCollectiveKind(name == "reducescatter" ? "reduce_scatter" : name);
    if (kind == CollectiveKind::kBarrier || kind == CollectiveKind::kAllToNext) kind.reset();
    if (!kind) return AddError(node, fmt::format("unknown collective \"{}\"", name));
    program_.collective.kind = *kind;
    const auto checked = program_.collective.Check();
    if (!error_ && !checked) AddError(node, checked.error().message);
  }

  void ReadRank(const pugi::xml_node& node) {
    RankProgram& rank = program_.ranks.emplace_back();
    rank.input_chunks = SmallOr(0, node, "i_chunks", 0, kMaxChunks);
    rank.output_chunks = SmallOr(0, node, "o_chunks", 0, kMaxChunks);
    rank.scratch_chunks = SmallOr(0, node, "s_chunks", 0, kMaxChunks);
    if (program_.collective.kind == CollectiveKind::kCustom) {
      // Some custom collectives have buffers of another size than the data.
      program_.collective.chunks =
          std::max({program_.collective.chunks, rank.input_chunks, rank.output_chunks});
      rank.input_chunks = rank.output_chunks = 0;
    }
    const auto blocks = Children(node, "tb", "id", kMscclBlocks);
    std::vector<std::vector<pugi::xml_node>> steps;
    for (const pugi::xml_node& block : blocks) {
      if (error_) return;
      const std::int64_t last_rank = program_.collective.ranks - 1;
      ThreadBlock& made = rank.blocks.emplace_back();
      made.send_peer = SmallOr(kNoPeer, block, "send", kNoPeer, last_rank);
      made.receive_peer = SmallOr(kNoPeer, block, "recv", kNoPeer, last_rank);
      const bool is_local = made.send_peer == kNoPeer && made.receive_peer == kNoPeer;
      made.channel = std::max(0, SmallOr(0, block, "chan", is_local ? -1 : 0, channels_ - 1));
      steps.push_back(Children(block, "step", "s", kMscclSteps));
      for (const pugi::xml_node& step : steps.back()) made.steps.push_back(ReadStep(step, blocks));
    }
    for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
      for (std::size_t s = 0; s < rank.blocks[b].steps.size(); ++s) {
        CheckDependencies(rank, rank.blocks[b].steps[s], steps[b][s], steps);
      }
    }
  }

  Location ReadPlace(const pugi::xml_node& node, const char* buffer_key, const char* index_key) {
    const auto name = Find(node, buffer_key).value_or("");
    const auto buffer = FindBuffer(name);
    if (!buffer) AddError(node, fmt::format("{}=\"{}\" is none of i, o, s", buffer_key, name));
    return {buffer.value_or(Buffer::kInput), Small(node, index_key, 0, kMaxChunks)};
  }

  Step ReadStep(const pugi::xml_node& node, const std::vector<pugi::xml_node>& blocks) {
    const auto type = Find(node, "type").value_or("");
    const auto op = FindOpCode(type);
    if (!op) AddError(node, fmt::format("no interpreter runs steps of type \"{}\"", type));
    if (error_) return {};
    Step step{.op = *op};
    if (ReadsSource(*op)) step.source = ReadPlace(node, "srcbuf", "srcoff");
    if (WritesDestination(*op)) step.destination = ReadPlace(node, "dstbuf", "dstoff");
    // An unused location repeats the other one.
    if (!ReadsSource(*op)) step.source = step.destination;
    if (!WritesDestination(*op)) step.destination = step.source;
    step.count = *op == OpCode::kNop ? 1 : Small(node, "cnt", 1, kMscclChunksInStep);
    const auto last_block = static_cast<std::int64_t>(blocks.size()) - 1;
    const auto block = SmallOr(-1, node, "depid", -1, last_block);
    if (block >= 0) step.after.push_back({block, Small(node, "deps", 0, kMscclSteps - 1)});
    return step;
  }

  void CheckDependencies(const RankProgram& rank, const Step& step, const pugi::xml_node& node,
                         const std::vector<std::vector<pugi::xml_node>>& steps) {
    for (const Dependency& on : step.after) {
      if (At(on.step) >= rank.blocks[At(on.block)].steps.size()) {
        return AddError(node, fmt::format("waits for step {} of block {}, which does not exist",
                                          on.step, on.block));
      }
      const pugi::xml_node& other = steps[At(on.block)][At(on.step)];
      if (NumberOr(0, other, "hasdep", 0, 1) == 0) {
        return AddError(
            node,
            fmt::format(
                "waits for step {} of block {}, which does not announce it (set its hasdep to 1)",
                on.step, on.block));
      }
    }
  }

  std::string_view text_;
  std::string_view name_;
  Program program_;
  int channels_ = 1;
  std::optional<Error> error_;
};

}  // namespace

Result<Program> ParseMscclXml(std::string_view text, std::string_view name) {
  return Reader(text, name).Read();
}

}  // namespace espalier::program
