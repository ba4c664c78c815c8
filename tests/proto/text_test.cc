#include "proto/text.h"

#include <gtest/gtest.h>

#include <random>

#include "proto/decode.h"
#include "proto/encode.h"
#include "proto/limits.h"

namespace espalier::wire {
namespace {

TEST(IsPrintable, TakesTextOfAllLanguages) {
  for (const char* text :
       {"", "leaf0--spine1", "a b", "é", "漢字", "🙂", "\xed\x9f\xbf", "\xee\x80\x80"}) {
    EXPECT_TRUE(IsPrintable(text)) << text;
  }
}

TEST(IsPrintable, RefusesControlsAndBrokenUtf8) {
  for (const char* text : {"\n",
                           "a\tb",
                           "\x1b[0m",
                           "\x7f",
                           "\xc2\x80",
                           "\xc2\x9f",
                           "\xe2\x80\xa8",
                           "\xe2\x80\xa9",
                           "\x80",
                           "\xc3",
                           "\xc0\xaf",
                           "\xe0\x80\xaf",
                           "\xe6\xbc",
                           "\xf0\x8f\xbf\xbf",
                           "\xed\xa0\x80",
                           "\xf4\x90\x80\x80",
                           "\xf5\x80\x80\x80",
                           "\xff",
                           "\xc3(",
                           "\xe6(\xbc"}) {
    EXPECT_FALSE(IsPrintable(text)) << testing::PrintToString(text);
  }
  EXPECT_FALSE(IsPrintable(std::string_view("a\0b", 3)));
}

TEST(MakePrintable, ReplacesWhatDoesNotPrintAndCutsBetweenCharacters) {
  EXPECT_EQ(MakePrintable("no\nroute\xff", 100), "no?route?");
  EXPECT_EQ(MakePrintable("漢字", 6), "漢字");
  EXPECT_EQ(MakePrintable("漢字", 5), "漢");
  EXPECT_EQ(MakePrintable("abc", 2), "ab");
  EXPECT_EQ(MakePrintable("\xe6\xbc", 9), "??");
}

TEST(MakePrintable, MakesAnyBytesPrintable) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2'000; ++round) {
    std::string bytes(random() % 30, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string text = MakePrintable(bytes, 20);
    ASSERT_LE(text.size(), 20U);
    ASSERT_TRUE(IsPrintable(text)) << testing::PrintToString(bytes);
    ASSERT_EQ(MakePrintable(text, 20), text);
  }
}

TEST(Encode, CleansTextsThatComeFromAnywhere) {
  const Message message{.sender_instance = 1, .body = Ack{.detail = std::string(9'000, '\n')}};
  Decoder decoder;
  const auto decoded = decoder.Decode(Encode(message));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(std::get<Ack>((*decoded)->body).detail, std::string(kMaxTextBytes, '?'));
}

}  // namespace
}  // namespace espalier::wire
