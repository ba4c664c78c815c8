# The headers outside the project that most of its sources include, parsed once for all libraries
# and once, with GoogleTest's, for all tests. The dev preset does without (and so does clang-tidy):
# each file there lives on what it includes by itself.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cc CONTENT "// No code: headers only.\n")

# espalier_precompile(NAME HEADERS ... DEPS ...)  Makes a FROM of espalier_use_precompiled.
function(espalier_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS" ${ARGN})
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/precompiled.cc)
  target_compile_options(${name} PRIVATE ${ESPALIER_WARNINGS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# espalier_use_precompiled(NAME FROM DEPS ...)  The compiler takes such headers only where its flags
# are the same: not with DPDK's, and not without {fmt}'s, which come with any DEPS of ours. Sources
# with flags of their own are set SKIP_PRECOMPILE_HEADERS.
function(espalier_use_precompiled name from)
  if(ARGN AND NOT "Dpdk::Dpdk" IN_LIST ARGN)
    target_precompile_headers(${name} REUSE_FROM ${from})
  endif()
endfunction()

set(common_headers <algorithm> <array> <atomic> <chrono> <cstddef> <cstdint> <cstring> <deque>
    <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <random>
    <set> <span> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <vector>
    <fmt/format.h>)
espalier_precompile(espalier_headers HEADERS ${common_headers} DEPS fmt::fmt)
# Tests are executables: compiled as such.
espalier_precompile(espalier_test_headers
  HEADERS ${common_headers} <gmock/gmock.h> <gtest/gtest.h>
  DEPS fmt::fmt GTest::gmock)
set_target_properties(espalier_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
target_compile_options(espalier_test_headers PRIVATE -fPIE ${ESPALIER_TEST_OPTIONS})
