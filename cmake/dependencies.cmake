# Finds all packages that the build needs; deploy/setup installs them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Protobuf REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(RapidJSON REQUIRED)
find_package(pugixml REQUIRED)
find_package(tl-expected REQUIRED)
find_package(prometheus-cpp REQUIRED CONFIG)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZeroMQ REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(Verbs REQUIRED IMPORTED_TARGET libibverbs)
pkg_check_modules(Seccomp REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(Mlx5 REQUIRED IMPORTED_TARGET libmlx5)
pkg_check_modules(Mnl REQUIRED IMPORTED_TARGET libmnl)
pkg_check_modules(Yaml REQUIRED IMPORTED_TARGET yaml-0.1)

if(NOT ESPALIER_DEMO)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)

  # Links only the DPDK libraries that espalier-dpdk calls; DPDK's pkg-config file names all of them.
  pkg_check_modules(DpdkAll REQUIRED libdpdk)
  add_library(Dpdk::Dpdk INTERFACE IMPORTED)
  set_target_properties(Dpdk::Dpdk PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${DpdkAll_INCLUDEDIR};${DpdkAll_INCLUDEDIR}/../${CMAKE_LIBRARY_ARCHITECTURE}/dpdk"
    INTERFACE_COMPILE_OPTIONS "${DpdkAll_CFLAGS_OTHER}"
    INTERFACE_LINK_LIBRARIES "rte_ethdev;rte_mbuf;rte_mempool;rte_ring;rte_eal")
endif()
