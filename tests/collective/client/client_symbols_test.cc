#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

namespace espalier {
namespace {

std::string OutputOf(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  EXPECT_NE(pipe, nullptr);
  std::string text;
  std::array<char, 4096> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  return text;
}

// The library's dependencies must not clash with other versions in a program.
TEST(CollectiveClient, ShowsNothingButItsApiAndNeedsLittle) {
#ifdef ESPALIER_SANITIZED
  GTEST_SKIP() << "sanitizers add symbols of their own";
#endif
  const std::string library = ESPALIER_COLLECTIVE_LIBRARY;
  const std::string symbols = OutputOf("nm -D --defined-only -P " + library);
  ASSERT_NE(symbols.find("espalier_allreduce "), std::string::npos) << symbols;
  for (std::size_t begin = 0; begin < symbols.size(); begin = symbols.find('\n', begin) + 1) {
    EXPECT_EQ(symbols.compare(begin, 9, "espalier_"), 0)
        << symbols.substr(begin, symbols.find('\n', begin) - begin);
  }
  const std::string needed = OutputOf("readelf -d " + library);
  for (const char* other : {"protobuf", "boost", "spdlog", "prometheus"}) {
    EXPECT_EQ(needed.find(other), std::string::npos) << needed;
  }
}

}  // namespace
}  // namespace espalier
