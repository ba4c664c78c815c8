#include "tests/collective/program/corruption.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace espalier::program {
namespace {

struct Place {
  int rank = 0;
  int block = 0;
  int step = 0;
  auto operator<=>(const Place&) const = default;
};

const ThreadBlock& BlockAt(const Program& program, const Place& at) {
  return program.ranks[static_cast<std::size_t>(at.rank)]
      .blocks[static_cast<std::size_t>(at.block)];
}
Step& StepAt(Program& program, const Place& at) {
  return program.ranks[static_cast<std::size_t>(at.rank)]
      .blocks[static_cast<std::size_t>(at.block)]
      .steps[static_cast<std::size_t>(at.step)];
}

std::vector<Place> AllSteps(const Program& program) {
  std::vector<Place> places;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (std::size_t b = 0; b < program.ranks[r].blocks.size(); ++b) {
      for (std::size_t s = 0; s < program.ranks[r].blocks[b].steps.size(); ++s) {
        places.push_back({static_cast<int>(r), static_cast<int>(b), static_cast<int>(s)});
      }
    }
  }
  return places;
}

// Finds the sender of the message that a step receives: the k-th send of a connection belongs to
// its k-th receive.
std::map<Place, Place> MatchMessages(const Program& program) {
  std::map<std::tuple<int, int, int>, std::vector<Place>> sent;
  std::map<std::tuple<int, int, int>, std::vector<Place>> received;
  for (const Place& at : AllSteps(program)) {
    const ThreadBlock& block = BlockAt(program, at);
    const OpCode op = block.steps[static_cast<std::size_t>(at.step)].op;
    if (Sends(op)) sent[{at.rank, block.send_peer, block.channel}].push_back(at);
    if (Receives(op)) received[{block.receive_peer, at.rank, block.channel}].push_back(at);
  }
  std::map<Place, Place> sender;
  for (const auto& [key, places] : received) {
    for (std::size_t i = 0; i < places.size(); ++i) sender[places[i]] = sent[key].at(i);
  }
  return sender;
}

// Whether the program orders `earlier` before `later`.
bool IsOrdered(const Program& program, const Place& earlier, const Place& later) {
  const auto sender = MatchMessages(program);
  std::set<Place> seen{later};
  std::vector<Place> open{later};
  while (!open.empty()) {
    const Place at = open.back();
    open.pop_back();
    if (at == earlier) return true;
    const auto visit = [&](const Place& before) {
      if (seen.insert(before).second) open.push_back(before);
    };
    if (at.step > 0) visit({at.rank, at.block, at.step - 1});
    for (const Dependency& on :
         BlockAt(program, at).steps[static_cast<std::size_t>(at.step)].after) {
      visit({at.rank, on.block, on.step});
    }
    if (const auto found = sender.find(at); found != sender.end()) visit(found->second);
  }
  return false;
}

template <typename Filter>
std::optional<Place> DrawStep(const Program& program, std::mt19937_64& random, Filter filter) {
  std::vector<Place> places = AllSteps(program);
  std::erase_if(places, [&](const Place& at) {
    return !filter(at, BlockAt(program, at).steps[static_cast<std::size_t>(at.step)]);
  });
  if (places.empty()) return std::nullopt;
  return places[random() % places.size()];
}

bool DropDependency(Program& program, std::mt19937_64& random) {
  const auto at =
      DrawStep(program, random, [](const Place&, const Step& step) { return !step.after.empty(); });
  if (!at) return false;
  std::vector<Dependency>& after = StepAt(program, *at).after;
  const auto dropped = after.begin() + static_cast<std::ptrdiff_t>(random() % after.size());
  const Place earlier{at->rank, dropped->block, dropped->step};
  after.erase(dropped);
  return !IsOrdered(program, earlier, *at);
}

bool SwapSteps(Program& program, std::mt19937_64& random) {
  const auto at =
      DrawStep(program, random, [](const Place& place, const Step&) { return place.step > 0; });
  if (!at) return false;
  std::swap(StepAt(program, *at), StepAt(program, {at->rank, at->block, at->step - 1}));
  return true;
}

bool ChangePeer(Program& program, std::mt19937_64& random) {
  const auto at = DrawStep(program, random, [](const Place&, const Step& step) {
    return Sends(step.op) || Receives(step.op);
  });
  if (!at) return false;
  const bool sends = Sends(StepAt(program, *at).op);
  ThreadBlock& block =
      program.ranks[static_cast<std::size_t>(at->rank)].blocks[static_cast<std::size_t>(at->block)];
  std::int32_t& peer = sends ? block.send_peer : block.receive_peer;
  const int ranks = program.collective.ranks;
  const std::int32_t old = peer;
  peer = static_cast<std::int32_t>(random() % static_cast<unsigned>(ranks + 1));
  return peer != old;
}

bool ChangePlace(Program& program, std::mt19937_64& random) {
  const auto at = DrawStep(program, random, [](const Place&, const Step& step) {
    return WritesDestination(step.op) || ReadsSource(step.op);
  });
  if (!at) return false;
  Step& step = StepAt(program, *at);
  Location& location = WritesDestination(step.op) ? step.destination : step.source;
  if (random() % 2 == 0) {
    location.index += random() % 2 == 0 ? 1 : -1;
  } else {
    location.buffer = static_cast<Buffer>((static_cast<unsigned>(location.buffer) + 1) % 3);
  }
  return true;
}

bool ChangeOp(Program& program, std::mt19937_64& random) {
  const auto at = DrawStep(program, random, [](const Place&, const Step&) { return true; });
  if (!at) return false;
  const auto op = static_cast<OpCode>(random() % 9);
  const OpCode old = std::exchange(StepAt(program, *at).op, op);
  return op != old;
}

}  // namespace

std::optional<Program> Corrupt(const Program& program, Corruption corruption,
                               std::mt19937_64& random) {
  Program corrupted = program;
  bool done = false;
  switch (corruption) {
    case Corruption::kDroppedDependency:
      done = DropDependency(corrupted, random);
      break;
    case Corruption::kSwappedSteps:
      done = SwapSteps(corrupted, random);
      break;
    case Corruption::kWrongPeer:
      done = ChangePeer(corrupted, random);
      break;
    case Corruption::kWrongPlace:
      done = ChangePlace(corrupted, random);
      break;
    case Corruption::kWrongOp:
      done = ChangeOp(corrupted, random);
      break;
  }
  if (!done) return std::nullopt;
  return corrupted;
}

}  // namespace espalier::program
