# Build switches; CMakePresets.json sets them, nobody needs to by hand.
set(ESPALIER_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
option(ESPALIER_FUZZ "Build the fuzzers with libFuzzer (clang only)" OFF)
set(ESPALIER_LEFT_OUT "" CACHE STRING "Unit tests that are not built, a regular expression of names")
set(ESPALIER_FUZZ_SECONDS 20 CACHE STRING "How long ctest runs each libFuzzer binary")
option(ESPALIER_COVERAGE "Instrument for coverage" OFF)
option(ESPALIER_TIDY "Run clang-tidy while compiling" OFF)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  # What ccache needs to keep what was compiled with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Warnings for our own code; generated code and C files get what fits them (cmake/targets.cmake).
# A designated initializer may leave members at their defaults: that is what they are for.
set(ESPALIER_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
    -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # When it optimises, GCC 12 sees overlaps and overruns inside std::string and std::vector that
  # cannot be (its bugs 105651, 107852). The address sanitizer finds the real ones.
  list(APPEND ESPALIER_WARNINGS -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
endif()

# Sources that are compiled together are no headers, as GCC believes.
if(CMAKE_UNITY_BUILD)
  list(APPEND ESPALIER_WARNINGS $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# In the release build libraries are tested as they ship; the tests themselves are compiled faster (a
# fifth less of the compiler's time).
set(ESPALIER_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)

if(ESPALIER_SANITIZE)
  # Null pointers are found by the address sanitizer as well; to check each use of a reference
  # besides takes a fifth of the compiler's time. (Optimising takes half of
  # it: the address sanitizer's build does without.)
  add_compile_options(-fsanitize=${ESPALIER_SANITIZE} -fno-sanitize=null,vptr
                      -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ESPALIER_SANITIZE})
endif()
if(ESPALIER_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC says that it does not model the fences that Asio uses; and it takes the local buffer of a
  # moved std::string for too short, of which it is silent where that header is not precompiled.
  add_compile_options(-Wno-tsan -Wno-stringop-overread)
endif()
if(ESPALIER_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()
if(ESPALIER_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()
if(ESPALIER_TIDY)
  find_program(CLANG_TIDY clang-tidy REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${CLANG_TIDY})
endif()
