#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// A file that its reader refuses, and the beginning of the error behind the name of the file.
struct Broken {
  std::string text;
  std::string expected;  // "LINE:COL: what"
};

inline void ExpectErrors(Result<Cabling> (*read)(std::string_view, std::string_view),
                         std::initializer_list<Broken> files) {
  for (const Broken& file : files) {
    const auto cabling = read(file.text, "f");
    ASSERT_FALSE(cabling.has_value()) << file.text;
    EXPECT_TRUE(cabling.error().message.starts_with("f:" + file.expected))
        << file.text << "\n  gives " << cabling.error().message << "\n  instead of "
        << file.expected;
  }
}

// An example, which the fuzzer begins with, too.
inline std::string Example(const std::string& name) {
  std::ifstream file(ESPALIER_SOURCE_DIR "/tests/fuzz/corpus/import/" + name);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(text.empty()) << name;
  return text;
}

// The text with `from`, which must be in it, replaced by `to`.
inline std::string With(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// "leaf0:swp1-h0:eth0 100" for each cable, one a line.
inline std::string Describe(const Cabling& cabling) {
  std::string text;
  for (const Cable& cable : cabling.cables) {
    text += cable.a.device + ":" + cable.a.port + "-" + cable.b.device + ":" + cable.b.port +
            (cable.rate ? " " + FormatGbps(*cable.rate) : "") + "\n";
  }
  return text;
}

}  // namespace espalier::imports
