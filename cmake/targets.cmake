include_guard()

# espalier_no_unity(FILE ...)
# Compiles these sources separately in a unity build (CMAKE_UNITY_BUILD), as they share private names
# with other sources of their target.
function(espalier_no_unity)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# espalier_library(NAME SOURCES ... [DEPS ...] [PRIVATE_DEPS ...])
# Adds a static library. Its headers are included by their path from the project's root. They may
# include DEPS, but not PRIVATE_DEPS (Asio, protobuf, ...).
function(espalier_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${ESPALIER_WARNINGS})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  espalier_use_precompiled(${name} espalier_headers ${ARG_DEPS} ${ARG_PRIVATE_DEPS})
endfunction()

# espalier_proto_library(NAME PROTOS ... [DEPS ...])
# Adds a library of generated protobuf code, compiled without warnings. Include it from the root, as
# "proto/espalier/v1/messages.pb.h". Link it as PRIVATE_DEPS, as no header of the project includes it.
function(espalier_proto_library name)
  cmake_parse_arguments(ARG "" "" "PROTOS;DEPS" ${ARGN})
  set(generated_root ${PROJECT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated_root})
  set(generated)
  foreach(proto IN LISTS ARG_PROTOS)
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/${proto})
    file(RELATIVE_PATH from_root ${PROJECT_SOURCE_DIR} ${source})
    string(REGEX REPLACE "\\.proto$" ".pb" stem ${generated_root}/${from_root})
    add_custom_command(
      OUTPUT ${stem}.cc ${stem}.h
      COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${generated_root}
              --dependency_out=${stem}.d ${source}
      DEPENDS ${source} protobuf::protoc
      DEPFILE ${stem}.d
      VERBATIM)
    list(APPEND generated ${stem}.cc ${stem}.h)
  endforeach()
  add_library(${name} STATIC ${generated})
  target_include_directories(${name} SYSTEM PUBLIC ${generated_root})
  target_link_libraries(${name} PUBLIC protobuf::libprotobuf ${ARG_DEPS})
  target_compile_options(${name} PRIVATE -w)
  set_target_properties(${name} PROPERTIES CXX_CLANG_TIDY "")
endfunction()

# espalier_binary(NAME SOURCES ... [DEPS ...])
# Adds an executable.
function(espalier_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${ESPALIER_WARNINGS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

# espalier_is_excluded(VARIABLE NAME LABELS)
# Sets VARIABLE to true if this build excludes the test. Its target can still be built by name.
function(espalier_is_excluded variable name labels)
  set(${variable} FALSE PARENT_SCOPE)
  if(labels MATCHES "unit" AND NOT name MATCHES "^(${ESPALIER_UNIT_TESTS})$")
    set(${variable} TRUE PARENT_SCOPE)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
endfunction()

# espalier_test(NAME SOURCES ... [DEPS ...] [LABELS unit|lab|...] [TIMEOUT s] [LONG] [FIRST])
# Adds a GoogleTest binary and a ctest entry. The default label is unit. With LONG, suites named
# Long... get a separate entry NAME_long with the label scenario. ctest starts those with FIRST, which
# take longest, before the others.
function(espalier_test name)
  cmake_parse_arguments(ARG "FIRST;LONG" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  espalier_binary(${name} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${ESPALIER_TEST_OPTIONS})
  espalier_use_precompiled(${name} espalier_test_headers ${ARG_DEPS})
  espalier_is_excluded(is_excluded ${name} "${ARG_LABELS}")
  if(is_excluded)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
    if(ESPALIER_SANITIZE)
      set(ARG_TIMEOUT 900)  # tests that CI runs in the release build only take up to ten times as long
    endif()
  endif()
  set(filter)
  if(ARG_LONG)
    set(filter --gtest_filter=-Long*)
    add_test(NAME ${name}_long COMMAND ${name} --gtest_filter=Long*)
    set_tests_properties(${name}_long PROPERTIES LABELS scenario TIMEOUT 900)
  endif()
  add_test(NAME ${name} COMMAND ${name} ${filter})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  if(ARG_FIRST)
    set_tests_properties(${name} PROPERTIES COST 100)
  endif()
endfunction()

# espalier_bench(NAME SOURCES ... [DEPS ...])
# Adds a Google Benchmark binary, which ctest does not run.
function(espalier_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  espalier_binary(${name} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS} benchmark::benchmark)
  espalier_only_in(benches ${name})
endfunction()

# espalier_only_in(TARGET NAME ...)
# Has these built by the target, such as benches or studies, or by their names, and not by default.
function(espalier_only_in target)
  foreach(name IN LISTS ARGN)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    add_dependencies(${target} ${name})
  endforeach()
endfunction()

# espalier_fuzzer(NAME SOURCES ... CORPUS dir [DEPS ...])
# Adds a libFuzzer binary with ESPALIER_FUZZ, and otherwise a test that replays the corpus, so that
# every compiler and sanitizer tests each input that once broke a parser.
function(espalier_fuzzer name)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;DEPS" ${ARGN})
  get_filename_component(corpus ${ARG_CORPUS} ABSOLUTE)
  if(ESPALIER_FUZZ)
    espalier_binary(${name} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    # Findings go to the build folder; the corpus is only read.
    set(found ${PROJECT_BINARY_DIR}/fuzz/${name})
    file(MAKE_DIRECTORY ${found})
    add_test(NAME ${name}
             COMMAND ${name} -max_total_time=${ESPALIER_FUZZ_SECONDS} -timeout=5
                     -artifact_prefix=${found}- ${found} ${corpus})
    math(EXPR timeout "${ESPALIER_FUZZ_SECONDS} + 120")
  else()
    espalier_binary(${name} SOURCES ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc
                    DEPS ${ARG_DEPS})
    target_compile_options(${name} PRIVATE ${ESPALIER_TEST_OPTIONS})
    # GCC takes precompiled headers only with the macros with which they were compiled.
    target_compile_options(${name} PRIVATE $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_OPTIONS>)
    espalier_use_precompiled(${name} espalier_test_headers ${ARG_DEPS})
    espalier_is_excluded(is_excluded ${name} unit)
    if(is_excluded)
      return()
    endif()
    add_test(NAME ${name} COMMAND ${name} ${corpus})
    set(timeout 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "unit;fuzz" TIMEOUT ${timeout})
endfunction()
