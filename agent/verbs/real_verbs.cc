#include "agent/verbs/real_verbs.h"

#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

namespace espalier::shim {
namespace {

std::string DriverOf(const std::string& folder) {
  std::array<char, 512> target{};
  const ssize_t bytes = readlink((folder + "/device/driver").c_str(), target.data(), target.size());
  if (bytes > 0) {
    const std::string_view path(target.data(), static_cast<std::size_t>(bytes));
    return std::string(path.substr(path.rfind('/') + 1));
  }
  // A software device has a network interface as parent; the only one that speaks RoCE is rxe.
  return access((folder + "/parent").c_str(), F_OK) == 0 ? "rdma_rxe" : "";
}

bool IsOfDriver(const ibv_context& context, const char* driver) {
  return DriverOf(std::string("/sys/class/infiniband/") + context.device->name) == driver;
}

}  // namespace

RealVerbs MakeRealVerbs(const espalier_real_verbs& functions) {
  RealVerbs real;
  static_cast<espalier_real_verbs&>(real) = functions;
  real.is_of_driver = &IsOfDriver;
  return real;
}

std::optional<ibv_gid> QueryRoceV2(const RealVerbs& real, ibv_context& context, std::uint8_t port,
                                   std::uint8_t index) {
  if (real.query_gid_ex != nullptr) {
    ibv_gid_entry entry = {};
    if (real.query_gid_ex(&context, port, index, &entry, 0, sizeof(entry)) != 0 ||
        entry.gid_type != IBV_GID_TYPE_ROCE_V2) {
      return std::nullopt;
    }
    return entry.gid;
  }
  constexpr int kRoceV2 = 1;
  ibv_gid address = {};
  int type = 0;
  if (real.query_gid_type == nullptr || real.query_gid_type(&context, port, index, &type) != 0 ||
      type != kRoceV2 || real.query_gid(&context, port, index, &address) != 0) {
    return std::nullopt;
  }
  return address;
}

}  // namespace espalier::shim
