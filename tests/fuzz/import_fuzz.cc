#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/files/topology_file.h"
#include "controller/offline/imports/combine.h"
#include "controller/offline/imports/formats.h"

// Arbitrary bytes as a file of every format give an error with its place, or facts. Facts of one
// file, and of the same file twice, give an error or a topology that is read back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace imports = espalier::imports;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const imports::Format& format : imports::Formats()) {
    const auto cabling = format.read(text, "f");
    if (!cabling) {
      ESPALIER_CHECK(cabling.error().message.starts_with("f:"), "{}", cabling.error().message);
      continue;
    }
    std::vector<imports::Cabling> sources = {*cabling};
    while (sources.size() <= 2) {
      const auto imported = imports::Combine(sources, {});
      if (imported) {
        const auto topology =
            espalier::io::ParseTopology(espalier::io::FormatTopology(imported->spec), "made");
        ESPALIER_CHECK(topology.has_value(), "{}", topology.error().message);
      } else {
        ESPALIER_CHECK(!imported.error().message.empty());
      }
      sources.push_back(*cabling);
    }
  }
  return 0;
}
