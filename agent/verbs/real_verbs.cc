#include "agent/verbs/real_verbs.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace espalier::shim {
namespace {

void* Open(const char* file) { return dlopen(file, RTLD_LAZY | RTLD_LOCAL); }

template <typename Function>
void Load(void* library, const char* name, const char* version, Function& function) {
  function = reinterpret_cast<Function>(dlvsym(library, name, version));
  if (function != nullptr) return;
  std::fprintf(stderr, "espalier-verbs: function %s is missing in %s\n", name,
               ESPALIER_REAL_IBVERBS);
  std::abort();
}

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

RealVerbs LoadRealVerbs() {
  // Opens it by path, as a library with its usual name may be this one.
  void* const library = Open(ESPALIER_REAL_IBVERBS);
  if (library == nullptr) {
    std::fprintf(stderr, "espalier-verbs: %s\n", dlerror());
    std::abort();
  }
  RealVerbs real;
  Load(library, "ibv_open_device", "IBVERBS_1.1", real.open_device);
  Load(library, "ibv_import_device", "IBVERBS_1.10", real.import_device);
  Load(library, "ibv_close_device", "IBVERBS_1.1", real.close_device);
  Load(library, "ibv_modify_qp", "IBVERBS_1.1", real.modify_qp);
  Load(library, "ibv_query_qp", "IBVERBS_1.1", real.query_qp);
  Load(library, "ibv_destroy_qp", "IBVERBS_1.1", real.destroy_qp);
  Load(library, "ibv_destroy_cq", "IBVERBS_1.1", real.destroy_cq);
  Load(library, "ibv_qp_to_qp_ex", "IBVERBS_1.6", real.qp_to_qp_ex);
  Load(library, "_ibv_query_gid_ex", "IBVERBS_1.11", real.query_gid);
  Load(library, "ibv_get_async_event", "IBVERBS_1.1", real.get_async_event);
  Load(library, "ibv_ack_async_event", "IBVERBS_1.1", real.ack_async_event);
  // Only some versions have these functions.
  real.ring_doorbell =
      reinterpret_cast<decltype(real.ring_doorbell)>(dlsym(library, "ibv_cmd_post_send"));
  if (void* const mlx5 = Open("libmlx5.so.1"); mlx5 != nullptr) {
    real.set_udp_port =
        reinterpret_cast<decltype(real.set_udp_port)>(dlsym(mlx5, "mlx5dv_modify_qp_udp_sport"));
  }
  real.is_of_driver = &IsOfDriver;
  return real;
}

}  // namespace espalier::shim
