#include "collective/forest/files/forest_file.h"

#include "collective/forest/files/forest_binary.h"
#include "collective/forest/files/parse_forest_json.h"
#include "common/files/file.h"

namespace espalier::forest {

Result<TreeSchedule> ReadForestFile(const std::string& path, const fabric::Topology& topology) {
  auto bytes = io::ReadFile(path);
  if (!bytes) return Propagate(bytes);
  if (bytes->starts_with(kForestMagic)) return DecodeForest(*bytes, path, topology);
  return ParseForestJson(*bytes, path, topology);
}

}  // namespace espalier::forest
