#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "common/fabric/ecmp/ecmp_hash.h"

namespace espalier::fabric {

// The names of all hashes of the catalogue, from the error for an unknown one.
inline std::vector<std::string> HashNames() {
  const std::string error = MakeEcmpHash({"?", 0}).error().message;
  const std::string before = "(write one of ";
  const std::size_t begin = error.find(before) + before.size();
  std::istringstream list(error.substr(begin, error.rfind(')') - begin));
  std::vector<std::string> names;
  for (std::string name; std::getline(list >> std::ws, name, ',');) names.push_back(name);
  return names;
}

}  // namespace espalier::fabric
