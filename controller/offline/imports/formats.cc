#include "controller/offline/imports/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/files/file.h"
#include "controller/offline/imports/discovered.h"
#include "controller/offline/imports/facts/reading.h"
#include "controller/offline/imports/readers/containerlab_links.h"
#include "controller/offline/imports/readers/csv_cables.h"
#include "controller/offline/imports/readers/dot_cables.h"
#include "controller/offline/imports/readers/floodns_cabling.h"
#include "controller/offline/imports/readers/ib_discovery.h"
#include "controller/offline/imports/readers/lldp_neighbours.h"
#include "controller/offline/imports/readers/nccl_box.h"
#include "controller/offline/imports/readers/netbox_cables.h"
#include "controller/offline/imports/readers/simai_topology.h"
#include "controller/offline/imports/readers/sonic_config.h"

namespace espalier::imports {
namespace {

constexpr std::array<Format, 11> kFormats = {{
    {"csv", "Convert tables of cables (columns a_device, a_port, b_device, b_port, ...)",
     ReadCsvCables},
    {"dot", "Convert graphs of Graphviz as Cumulus PTM reads them", ReadDotCables},
    {"lldp", "Convert what lldpcli -f json0 show neighbors details prints on switches and hosts",
     ReadLldpNeighbours},
    {"sonic", "Convert the config_db.json or minigraph.xml of SONiC switches", ReadSonicConfig},
    {"netbox", "Convert cables of NetBox (CSV of the import form, or JSON of its API)",
     ReadNetboxCables},
    {"containerlab", "Convert topology files of containerlab, which netlab writes, too (YAML)",
     ReadContainerlabLinks},
    {"ibnetdiscover", "Convert what ibnetdiscover prints, with or without -p", ReadIbDiscovery},
    {"nccl", "Convert topologies of NCCL (XML), the inside of boxes", ReadNcclBox},
    {"simai", "Convert topology files of the simulator SimAI", ReadSimaiTopology},
    {"floodns",
     "Convert a topology.properties of the simulator floodns (nodes tor0, spine0, h0 and so on)",
     ReadFloodnsCabling},
    {"discovery", "Convert what `espalier topology discover --facts FILE` has written",
     ReadDiscovery},
}};

}  // namespace

std::span<const Format> Formats() { return kFormats; }

const Format* FindFormat(std::string_view name) {
  const auto* found = std::ranges::find(kFormats, name, &Format::name);
  return found == kFormats.end() ? nullptr : found;
}

Result<Cabling> ReadCabling(const Format& format, const std::string& path) {
  const auto text = io::ReadFile(path);
  if (!text) return tl::unexpected<Error>(text.error());
  if (text->size() > kMaxFileBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: larger than {} MiB (split the file)", path, kMaxFileBytes >> 20));
  }
  return format.read(*text, path);
}

}  // namespace espalier::imports
