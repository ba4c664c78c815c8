#include "tests/collective/program/mscclpp/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

namespace espalier::program {
namespace {

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::string Place(const std::string& text) {
  const auto star = text.find('*');
  const std::string size = star == std::string::npos ? "1" : text.substr(star + 1);
  const std::string at = text.substr(0, star);
  if (at[0] == 'x') {
    return fmt::format(R"({{"switch_channel_id":0,"index":{},"size":{}}})", at.substr(1), size);
  }
  if (at[0] != 'r') {
    return fmt::format(R"({{"type":"{}","index":{},"size":{}}})", at[0], at.substr(1), size);
  }
  const auto dot = at.find('.');
  return fmt::format(R"({{"buffer_id":{},"index":{},"size":{}}})", at.substr(1, dot - 1),
                     at.substr(dot + 1), size);
}

std::string Operation(const std::string& text);

std::string Pipeline(const std::string& text) {
  const auto parts = Split(text, '|');
  std::vector<std::string> inner;
  for (std::size_t i = 1; i < parts.size(); ++i) inner.push_back(Operation(parts[i]));
  return fmt::format(
      R"({{"name":"pipeline","iter_context":{{"unit_size":1024,"num_chunks":{}}},"ops":[{}]}})",
      Split(parts[0], ' ').back(), fmt::join(inner, ","));
}

// One word of an operation; `places` counts the lists of places before it.
std::string Word(const std::string& word, int& places) {
  const std::string rest = word.substr(1);
  if (word[0] == '@') {
    const auto part = Split(rest, '/');
    return fmt::format(R"("tbg_info":{{"tb_id":{},"tbg_size":{}}})", part[0], part[1]);
  }
  if (word[0] == '#') return fmt::format(R"("semaphore_ids":[{}])", rest);
  if (word[0] == '%') {
    const auto part = Split(rest, '/');
    return fmt::format(R"("barrier_id":{},"num_threadblocks":{})", part[0], part[1]);
  }
  const auto items = Split(word, ',');
  std::vector<std::string> all;
  if (word[0] == 'm' || word[0] == 'p') {
    for (const std::string& one : items) all.push_back(one.substr(1));
    return fmt::format(R"("channel_type":"{}","channel_ids":[{}])",
                       word[0] == 'm' ? "memory" : "port", fmt::join(all, ","));
  }
  for (const std::string& one : items) all.push_back(Place(one));
  return fmt::format(R"("{}":[{}])", places++ == 0 ? "src_buff" : "dst_buff", fmt::join(all, ","));
}

std::string Operation(const std::string& text) {
  if (text.find('|') != std::string::npos) return Pipeline(text);
  std::istringstream stream(text);
  std::string name;
  stream >> name;
  std::string json = fmt::format(R"({{"name":"{}")", name);
  int places = 0;
  for (std::string word; stream >> word;) json += "," + Word(word, places);
  return json + "}";
}

// All numbers of a list with `size` entries.
std::string Numbers(std::size_t size) {
  std::vector<std::size_t> all(size);
  for (std::size_t i = 0; i < size; ++i) all[i] = i;
  return fmt::format("[{}]", fmt::join(all, ","));
}

std::string Block(const RankText& rank, std::size_t id) {
  std::vector<std::string> operations;
  for (const std::string& one : Split(rank.blocks[id], ';')) {
    if (one.find_first_not_of(" \n") != std::string::npos) operations.push_back(Operation(one));
  }
  std::vector<std::string> channels;
  std::vector<std::string> buffers;
  const auto add = [&](std::string_view type, std::size_t count) {
    if (count == 0) return;
    channels.push_back(
        fmt::format(R"({{"channel_type":"{}","channel_ids":{}}})", type, Numbers(count)));
    if (type == "switch") return;
    buffers.push_back(fmt::format(R"({{"access_channel_type":"{}","remote_buffer_ids":{}}})", type,
                                  Numbers(rank.buffers.size())));
  };
  add("memory", rank.memory.size());
  add("port", rank.port.size());
  add("switch", rank.switch_group.empty() ? 0 : 1);
  return fmt::format("{{\"id\":{},\"ops\":[\n{}],\n\"channels\":[{}],\"remote_buffer_refs\":[{}]}}",
                     id, fmt::join(operations, ",\n"), fmt::join(channels, ","),
                     fmt::join(buffers, ","));
}

std::string Rank(const RankText& rank, std::size_t id) {
  std::vector<std::string> types;
  if (!rank.memory.empty()) types.emplace_back("\"memory\"");
  if (!rank.port.empty()) types.emplace_back("\"port\"");
  std::vector<std::string> buffers;
  for (const std::string& one : rank.buffers) {
    buffers.push_back(fmt::format(R"({{"rank":{},"type":"{}","access_channel_types":[{}]}})",
                                  one.substr(0, one.size() - 1), one.back(),
                                  fmt::join(types, ",")));
  }
  std::vector<std::string> semaphores;
  for (const int value : rank.semaphores) {
    semaphores.push_back(fmt::format(R"({{"init_value":{}}})", value));
  }
  std::vector<std::string> blocks;
  for (std::size_t b = 0; b < rank.blocks.size(); ++b) blocks.push_back(Block(rank, b));
  std::string channels = fmt::format(R"({{"channel_type":"memory","connected_to":[{}]}},)"
                                     R"({{"channel_type":"port","connected_to":[{}]}})",
                                     fmt::join(rank.memory, ","), fmt::join(rank.port, ","));
  if (!rank.switch_group.empty()) {
    channels += fmt::format(R"(,{{"channel_type":"switch","buffer_type":"i",)"
                            R"("rank_groups":[{{"size":1,"ranks":[{}]}}]}})",
                            fmt::join(rank.switch_group, ","));
  }
  return fmt::format(
      "{{\"id\":{},\"input_chunks\":{},\"output_chunks\":{},\"scratch_chunks\":{},\n"
      "\"threadblocks\":[{}],\n\"channels\":[{}],\"remote_buffers\":[{}],\"semaphores\":[{}]}}",
      id, rank.chunks[0], rank.chunks[1], rank.chunks[2], fmt::join(blocks, ",\n"), channels,
      fmt::join(buffers, ","), fmt::join(semaphores, ","));
}

}  // namespace

std::string WritePlan(std::string_view collective, bool in_place,
                      const std::vector<RankText>& ranks, std::string_view more) {
  std::vector<std::string> gpus;
  for (std::size_t i = 0; i < ranks.size(); ++i) gpus.push_back(Rank(ranks[i], i));
  return fmt::format("{{\"name\":\"p\",\"collective\":\"{}\",\"inplace\":{},{}\n\"gpus\":[{}]}}\n",
                     collective, in_place, more, fmt::join(gpus, ",\n"));
}

}  // namespace espalier::program
