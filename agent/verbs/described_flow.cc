#include "agent/verbs/described_flow.h"

#include <netinet/in.h>

#include <cstdint>
#include <cstring>

#include "common/verbs/rate_limit.h"

namespace espalier::shim {
namespace {

constexpr std::uint16_t kRoceV2Port = 4791;

}  // namespace

std::optional<espalier_flow_desc> DescribeFlow(const RealVerbs& real, const ibv_qp& pair,
                                               const ibv_qp_attr& attributes) {
  const ibv_ah_attr& path = attributes.ah_attr;
  const bool is_connection =
      pair.qp_type == IBV_QPT_RC || pair.qp_type == IBV_QPT_UC || pair.qp_type == IBV_QPT_XRC_SEND;
  if (!is_connection || path.is_global == 0) return std::nullopt;
  const std::optional<ibv_gid> source =
      QueryRoceV2(real, *pair.context, path.port_num, path.grh.sgid_index);
  if (!source) return std::nullopt;
  espalier_flow_desc description = {};
  std::memcpy(description.source, source->raw, sizeof(description.source));
  std::memcpy(description.destination, path.grh.dgid.raw, sizeof(description.destination));
  description.protocol = IPPROTO_UDP;
  description.max_paths = 1;
  if (verbs::HighestPacedRate(*pair.context, pair.qp_type) > 0) {
    description.flags = ESPALIER_FLOW_KEEPS_RATE;
  }
  description.destination_port = kRoceV2Port;
  description.local_qpn = pair.qp_num;
  description.remote_qpn = attributes.dest_qp_num;
  return description;
}

}  // namespace espalier::shim
