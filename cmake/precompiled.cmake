# Precompiles the external headers that most sources include: once for all libraries and once, with
# those of GoogleTest, for all tests. Libraries of tools have CLI11 precompiled, too. Clang also
# precompiles the state of the controller for the libraries and tests that stand on it; GCC would save
# little. The dev preset and clang-tidy use no precompiled headers, so that every file must include what
# it needs.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cc CONTENT "// No code: headers only.\n")

# espalier_precompile(NAME HEADERS ... DEPS ...)
# Creates the target that espalier_use_precompiled takes as FROM.
function(espalier_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS" ${ARGN})
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/precompiled.cc)
  target_compile_options(${name} PRIVATE ${ESPALIER_WARNINGS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# espalier_use_precompiled(NAME FROM DEPS ...)
# Uses the precompiled headers of FROM, or those with CLI11 or the controller's state if DEPS ask for
# them. This requires equal compiler flags. Targets with DPDK's flags are excluded, and so are those
# without DEPS, which lack the flags of {fmt}. Sources with their own flags set
# SKIP_PRECOMPILE_HEADERS.
function(espalier_use_precompiled name from)
  if(TARGET ${from}_of_tools AND "CLI11::CLI11" IN_LIST ARGN)
    set(from ${from}_of_tools)
  elseif(TARGET ${from}_of_state AND ARGN MATCHES
      "espalier_(controller|controller_(state|planning|links|api)|placement|api_[a-z]+)(;|$)")
    set(from ${from}_of_state)
  endif()
  if(ARGN AND NOT "Dpdk::Dpdk" IN_LIST ARGN)
    target_precompile_headers(${name} REUSE_FROM ${from})
  endif()
endfunction()

set(common_headers <algorithm> <array> <atomic> <chrono> <cstddef> <cstdint> <cstring> <deque>
    <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <random>
    <set> <span> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <vector>
    <fmt/format.h>)
espalier_precompile(espalier_headers HEADERS ${common_headers} DEPS fmt::fmt)
espalier_precompile(espalier_headers_of_tools HEADERS ${common_headers} <CLI/CLI.hpp>
                    DEPS fmt::fmt CLI11::CLI11)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(state_headers ${PROJECT_SOURCE_DIR}/controller/state/state.h
      ${PROJECT_SOURCE_DIR}/controller/paths/path_learner.h)
  espalier_precompile(espalier_headers_of_state HEADERS ${common_headers} ${state_headers}
                      DEPS fmt::fmt)
endif()
if(NOT ESPALIER_DEMO)
  # Tests are executables and are compiled as such.
  set(test_headers ${common_headers} <gmock/gmock.h> <gtest/gtest.h>)
  espalier_precompile(espalier_test_headers HEADERS ${test_headers} DEPS fmt::fmt GTest::gmock)
  set(test_targets espalier_test_headers)
  if(TARGET espalier_headers_of_state)
    espalier_precompile(espalier_test_headers_of_state
      HEADERS ${test_headers} ${PROJECT_SOURCE_DIR}/tests/controller/cluster.h
      DEPS fmt::fmt GTest::gmock)
    list(APPEND test_targets espalier_test_headers_of_state)
  endif()
  set_target_properties(${test_targets} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  foreach(target IN LISTS test_targets)
    target_compile_options(${target} PRIVATE -fPIE ${ESPALIER_TEST_OPTIONS})
  endforeach()
endif()
