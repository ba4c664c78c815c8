#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collective/synthesis/graphs/families.h"
#include "collective/synthesis/schedules/schedule.h"
#include "common/base/result.h"

namespace espalier::synthesis {

enum class Form : std::uint8_t {
  // Families.
  kComplete,
  kBipartite,
  kBiRing,
  kUniRing,
  kCirculant,
  kDirectedCirculant,
  kGeneralizedKautz,
  kDeBruijn,
  kKautz,
  kHamming,
  kTorus,
  kDistanceRegular,
  // Expansions of other constructions.
  kLine,
  kDegree,
  kPower,
  kProduct,
  kBidirectional,
  kBfb,  // the same network with its best BFB schedule
};

// How a network and its allgather are made: a family with its parameters, or an expansion of other
// constructions. As text: "Line(Circulant(16, 3, 4), 3)".
struct Construction {
  Form form = Form::kComplete;
  std::vector<Construction> parts;
  std::vector<std::int64_t> numbers;
  bool operator==(const Construction&) const = default;
};

// Reads the text of a construction: NAME(PART, ..., NUMBER, ...), at most 12 levels deep.
// Errors: kInvalidArgument with the position and the names that are known.
Result<Construction> ParseConstruction(std::string_view text);
std::string FormatConstruction(const Construction& construction);
// The dissertation's notation: "L^3(C(16,{3,4}))", "Pi_{4,1024}", "K_3*2", "H(2,3)".
std::string Notation(const Construction& construction);
// The names and parameters of all forms, for help texts.
std::string ListForms();

// Builds the network. Errors: kInvalidArgument for parameters out of range and for an expansion
// that does not apply; kResourceExhausted for more than kMaxNodes nodes.
Result<Network> BuildNetwork(const Construction& construction);

// Makes the construction's allgather, or through the reversal of the network its other collectives.
// Errors: those of BuildNetwork and MakeBfbSchedule; kInvalidArgument for another collective of an
// expansion without a known reversal.
Result<Schedule> MakeSchedule(const Construction& construction, Collective collective);

}  // namespace espalier::synthesis
