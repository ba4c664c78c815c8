# Precompiles the external headers that most sources include: once for all libraries and once, with
# those of GoogleTest, for all tests. The dev preset and clang-tidy use no precompiled headers, so
# that every file must include what it needs.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cc CONTENT "// No code: headers only.\n")

# espalier_precompile(NAME HEADERS ... DEPS ...)
# Creates the target that espalier_use_precompiled takes as FROM.
function(espalier_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS" ${ARGN})
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/precompiled.cc)
  target_compile_options(${name} PRIVATE ${ESPALIER_WARNINGS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# espalier_use_precompiled(NAME FROM DEPS ...)
# Uses the precompiled headers of FROM, which requires equal compiler flags. Targets with DPDK's flags
# are excluded, and so are those without DEPS, which lack the flags of {fmt}. Sources with their own
# flags set SKIP_PRECOMPILE_HEADERS.
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
if(NOT ESPALIER_DEMO)
  # Tests are executables and are compiled as such.
  espalier_precompile(espalier_test_headers
    HEADERS ${common_headers} <gmock/gmock.h> <gtest/gtest.h>
    DEPS fmt::fmt GTest::gmock)
  set_target_properties(espalier_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(espalier_test_headers PRIVATE -fPIE ${ESPALIER_TEST_OPTIONS})
endif()
